"""The table of operators by machines: all of it is right, and the manual has it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from septran import operators
from septran.cli import app
from septran.errors import TargetError
from septran.matrix import MACHINES, Cell, Matrix, measure_cell, measure_matrix
from septran.operators import Case
from septran.runtime.kernel import Kernel

ROOT = Path(__file__).parents[1]


QUICK = ("softmax",)
"""Operators of the table that are measured on every run."""
EACH = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in operators.names()
]


@pytest.mark.parametrize("name", EACH)
def test_an_operator_is_right_on_every_machine(name):
    found = measure_matrix([name])
    assert found.right, str(found)
    assert found.machines == MACHINES
    assert len(found.cells) == 3 * len(MACHINES)
    for cell in found.cells:
        assert 0 <= cell.worst <= 1
        assert (cell.cycles is None) == cell.machine.startswith("cpu")
        assert (cell.seconds is None) == (cell.machine != "cpu-x86")
        assert all(cost > 0 for cost in (cell.cycles, cell.seconds) if cost is not None)
        assert cell.unknown == 0


def test_cases_have_three_sizes_and_ragged_ones_among_them():
    for name in operators.names():
        cases = operators.cases(name)
        assert len(set(map(str, cases))) == len(cases) == 3, name
        assert any(size % 8 for case in cases for size in case.sizes.values() if size > 8), name


def test_an_operator_without_cases_is_checked_with_its_example(monkeypatch):
    monkeypatch.delattr(operators.module("softmax"), "CASES")
    assert operators.cases("softmax") == (Case("softmax", {"M": 1024, "N": 1024}, {}),)


def test_the_page_of_operators_has_every_operator_and_machine():
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    cells = r" (\d/\d), [^|]* \|" * len(MACHINES)
    rows = re.findall(rf"^\| `(\w+)` \|{cells}$", text, re.M)
    assert [row[0] for row in rows] == list(operators.names())
    assert {count for row in rows for count in row[1:]} == {"3/3"}
    assert f"| {' | '.join(MACHINES)} |" in text


@pytest.mark.usefixtures("without_hip")
def test_a_machine_without_code_is_told_and_fails():
    cell = measure_cell(operators.cases("reduce")[0], "amd-mi300x")
    assert not cell.right
    assert "no code generator" in cell.message
    table = Matrix((cell,))
    assert not table.right
    assert table.failed
    assert "refused (SEP501)" in str(table)
    assert "WRONG" not in str(table)
    assert cell.message in str(table)
    assert "| refused (SEP501) |" in table.to_markdown()


def test_what_is_refused_is_not_wrong(monkeypatch):
    case = Case("gemm", {"M": 64, "N": 64, "K": 64}, {}, "float64")
    refused = measure_cell(case, "tpu-v5e")
    assert (refused.refused, refused.right, refused.failed) == ("SEP321", False, False)
    right = measure_cell(operators.cases("softmax")[0], "dsa-sim")
    both = Matrix((refused, replace(right, machine="tpu-v5e")))
    assert not both.right
    assert not both.failed
    assert "1 of 2 right, 1 refused" in str(both)
    assert to_dict_of(both) == ["SEP321", ""]
    # The compiler accepted it, so that an error after that is its own.
    monkeypatch.setattr(Kernel, "check", lambda *_, **__: raise_error())
    after = measure_cell(operators.cases("softmax")[0], "dsa-sim")
    assert (after.refused, after.failed, after.message) == ("", True, "lost [SEP500]")
    assert Matrix((right, after)).failed
    assert "WRONG" in str(Matrix((right, after)))


def to_dict_of(matrix):
    return [cell.to_dict()["refused"] for cell in matrix.cells]


def raise_error():
    raise TargetError("lost")


@pytest.mark.slow
def test_processes_side_by_side_find_the_same():
    alone, beside = (
        measure_matrix(["reduce", "rope"], ["dsa-sim"], first=True, jobs=n) for n in (1, 2)
    )
    assert alone == beside


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["matrix", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def test_the_command_prints_the_table():
    text = run("--operators", "reduce, softmax", "--on", "dsa-sim,npu-cube", "--first")
    head, *rows, last = text.splitlines()
    assert head.split() == ["dsa-sim", "npu-cube"]
    assert [row.split()[0] for row in rows] == ["reduce", "softmax"]
    assert all(row.count("right") == 2 and row.count("cycles") == 2 for row in rows)
    assert last.startswith("4 of 4 right")
    (cell,) = json.loads(run("--operators", "reduce", "--on", "dsa-sim", "--first", "--json"))
    assert cell["right"]
    assert cell["sizes"] == {"M": 70, "N": 150}
    assert f"{cell['cycles']:,} cycles" in rows[0]


def test_the_command_fails_where_all_is_refused():
    assert "refused (SEP615)" in run(
        "--operators", "reduce", "--on", "nvidia-h200", "--first", code=1
    )


def test_times_have_units():
    case = operators.cases("reduce")[0]
    costs = [Cell(case, "cpu-x86", True, 0, 0, s, None, "").cost for s in (2e-6, 3e-3)]
    assert costs == ["2 us", "3 ms"]


def test_generated_gpu_code_is_emulated_in_every_order():
    found = measure_matrix(["gemm"], ["nvidia-h200"], first=True, emulate=True)
    (cell,) = found.cells
    assert cell.right
    assert cell.worst <= 1
    assert (cell.cycles, cell.seconds, cell.cost) == (None, None, "")


def test_a_machine_without_an_emulator_says_so():
    (cell,) = measure_matrix(["gemm"], ["dsa-sim"], first=True, emulate=True).cells
    assert not cell.right
    assert "emulat" in cell.message
