"""`kernel.warm`: code that is there before the call that needs it, and for other processes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import septran
from septran.mapping.mistakes import ConditionError
from septran.request import MissingLogicError
from septran.runtime.errors import NoLogicError
from tests.scripts import WITHOUT_TORCH

SHAPES = [{"M": 3, "N": 17, "K": 5}, {"A": (6, 5), "B": (5, 17)}]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(folder))
    return folder


def ways(warming) -> list[str]:
    return [kernel.how for kernel in warming.kernels]


def test_what_is_warm_is_compiled_once(cache):
    kernel = septran.compile("gemm", "cpu-x86")
    assert ways(kernel.warm(SHAPES)) == ["compiled", "compiled"]
    assert ways(kernel.warm(SHAPES)) == ["ready", "ready"]
    assert len(kernel.specialisations) == 2
    a, b = np.ones((6, 5), np.float32), np.ones((5, 17), np.float32)
    assert (kernel(a, b) == 5).all()
    assert len(kernel.specialisations) == 2


def test_another_kernel_finds_it_in_the_cache(cache):
    septran.compile("gemm", "cpu-x86").warm(SHAPES[:1])
    assert ways(septran.compile("gemm", "cpu-x86").warm(SHAPES)) == ["cached", "compiled"]


@pytest.mark.slow
def test_another_process_finds_it_in_the_cache(cache):
    septran.compile("gemm", "cpu-x86").warm(SHAPES[0])
    code = (
        f"{WITHOUT_TORCH}import septran\n"
        f"print(septran.compile('gemm', 'cpu-x86').warm({SHAPES[0]!r}).kernels[0].how)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["cached"]


def test_types_are_those_of_compile(cache):
    kernel = septran.compile("gemm", "cpu-x86")
    assert ways(kernel.warm(SHAPES[:1], "float16")) == ["compiled"]
    assert kernel.specialisations[0].dtypes["A"] == "float16"
    assert ways(kernel.warm(SHAPES[:1], {"A": "float16", "B": "float16"})) == ["ready"]


def test_one_dynamic_kernel_is_warm_for_all_extents(cache):
    kernel = septran.compile("gemm", "cpu-x86", dynamic={"M": (1, 64)})
    shapes = [{"M": m, "N": 17, "K": 5} for m in (1, 2, 64)]
    assert ways(kernel.warm(shapes)) == ["compiled", "ready", "ready"]


def test_each_case_of_a_dispatch_file_is_warmed(cache):
    text = (
        "dispatch: [{when: M <= 4, mapping: {extends: cpu-x86, rules: "
        "[{match: {task: gemm_core}, tunables: {block_M: 2}}]}}]\notherwise: cpu-x86\n"
    )
    assert ways(septran.compile("gemm", text).warm(SHAPES)) == ["compiled", "compiled"]
    with pytest.raises(ConditionError):
        septran.compile("gemm", text.replace("M <= 4", "m <= 4")).warm(SHAPES)


def test_the_report_names_shapes_and_what_was_done(cache):
    kernel = septran.compile("gemm", "cpu-x86")
    text = str(kernel.warm([*SHAPES, SHAPES[0]]))
    head, *lines = text.splitlines()
    assert head == "gemm: 2 compiled, 1 ready before"
    assert lines[0].startswith("  M=3, N=17, K=5: compiled, ")
    assert lines[1].startswith("  A=6x5, B=5x17: compiled, ")
    assert "ready before" in lines[2]


def test_the_report_says_where_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    found = septran.compile("gemm", "cpu-x86").warm(SHAPES[0])
    assert "not kept for other processes: switched off" in str(found)


def test_wrong_shapes_are_refused():
    with pytest.raises(MissingLogicError, match="'Q'"):
        septran.compile("gemm", "cpu-x86").warm([{"Q": 4}])
    assert ways(septran.compile("gemm", "cpu-x86").warm([])) == []


def test_a_loaded_kernel_has_no_code_for_other_shapes(tmp_path):
    kernel = septran.compile("gemm", "cpu-x86", shapes=SHAPES[0])
    kernel.save(tmp_path / "k")
    with pytest.raises(NoLogicError, match="code for other shapes"):
        septran.load(tmp_path / "k").warm(SHAPES)


def test_the_command_reads_sizes_from_a_table(cache, tmp_path):
    from typer.testing import CliRunner

    from septran.cli import app

    table = tmp_path / "sizes.csv"
    table.write_text("M, N, K\n3, 17, 5\n6, 17,\n")
    arguments = ["warm", "gemm", "--sizes", str(table), "-s", "K=5", "--json"]
    data = json.loads(CliRunner().invoke(app, arguments).output)
    assert [k["shapes"] for k in data["kernels"]] == [
        {"M": 3, "N": 17, "K": 5}, {"M": 6, "N": 17, "K": 5}
    ]  # fmt: skip
    assert [k["how"] for k in data["kernels"]] == ["compiled", "compiled"]
    again = CliRunner().invoke(app, [*arguments[:-1]]).output
    assert "2 found in the cache" in again


@pytest.mark.parametrize("text", ["", "M,N\n", "M,,K\n1,2,3\n", "M\nmany\n"])
def test_the_command_refuses_a_table_without_sizes(tmp_path, text):
    from typer.testing import CliRunner

    from septran.cli import app

    table = tmp_path / "sizes.csv"
    table.write_text(text)
    assert CliRunner().invoke(app, ["warm", "gemm", "--sizes", str(table)]).exit_code == 2
    missing = CliRunner().invoke(app, ["warm", "gemm", "--sizes", str(tmp_path / "no.csv")])
    assert missing.exit_code == 2
