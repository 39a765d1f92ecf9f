"""`septran check`: right mappings are right, wrong ones fail with the smallest case."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import fields, is_dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import septran.compiler
from septran.checking import CheckCase, CheckLimits, Subject, check_cases, check_mapping
from septran.checking.special import with_special_values
from septran.cli import app
from septran.errors import MappingError
from septran.targets.registry import has_emulator
from septran.tile.nodes import Wait
from tests.tiers import slow_but
from tests.twice import with_example

LOGIC = with_example(rows=300, columns=40)
MAPPING = """
machine: cpu-x86
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
  - {match: {task: twice_tile}, proc: CORE, binding: "extern twice.cpp:twice"}
tunables: {block_M: 16}
"""
LEAF = """
#include "septran_leaf.h"
template <class T> void twice(septran::tile<T, 2> Y, septran::tile<const T, 2> X) {
  for (int i = 0; i < X.extent[0]; i++)
    for (int j = 0; j < X.extent[1]; j++) Y(i, j) = BODY;
}
"""
RIGHT = "X(i, j) + X(i, j)"
has_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")


@pytest.fixture
def files(tmp_path):
    """A logic file, a mapping with a leaf of the user's, and what writes that leaf."""
    (tmp_path / "twice.py").write_text(LOGIC, encoding="utf-8")
    (tmp_path / "mine.mapping.yaml").write_text(MAPPING, encoding="utf-8")

    def leaf(body):
        (tmp_path / "twice.cpp").write_text(LEAF.replace("BODY", body), encoding="utf-8")
        return Subject(str(tmp_path / "twice.py"), str(tmp_path / "mine.mapping.yaml"))

    return leaf


def septran_check(*arguments, code):
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def without_waits(node):
    """The same tree with no `Wait` in it."""
    if isinstance(node, tuple):
        return tuple(without_waits(n) for n in node if not isinstance(n, Wait))
    if is_dataclass(node) and any(f.name == "body" for f in fields(node)):
        return replace(node, body=without_waits(node.body))
    return node


def test_cases_lie_around_the_tiles_and_hold_what_is_fixed(files):
    fixed = CheckCase("", {"N": 24}, "float32")
    cases = check_cases(files(RIGHT), fixed, 40)
    assert {c.sizes["N"] for c in cases} == {24}
    assert {1, 15, 16, 17, 33} <= {c.sizes["M"] for c in cases}
    assert {c.dtypes for c in cases} == {"float32"}
    assert any(c.dynamic for c in cases)
    assert len({c.seed for c in cases}) == len(cases)
    types = {c.dtypes for c in check_cases(files(RIGHT), CheckCase("", {}), 40)}
    assert {"float16", "int8"} <= types


def test_cases_are_plain_data():
    """Tiles of some mappings are integers that know more than their value."""
    for case in check_cases(
        Subject("gemm", machine="nvidia-h200"), CheckCase("", {}, "float16"), 6
    ):
        assert {type(size) for size in case.sizes.values()} == {int}
        assert CheckCase.from_dict(json.loads(json.dumps(case.to_dict()))) == case


@pytest.mark.parametrize("operator", slow_but(["conv2d"], ["conv2d", "attention", "moe"]))
def test_dimensions_that_depend_on_one_another_still_vary(operator):
    cases = check_cases(Subject(operator, machine="dsa-sim"), CheckCase("", {}), 12)
    assert len({str(c.sizes) for c in cases}) >= 6


def test_a_right_mapping_is_right():
    limits = CheckLimits(cases=5)
    verdict = check_mapping(Subject("softmax", machine="dsa-sim"), limits=limits, apart=False)
    assert verdict.right, str(verdict)
    assert {way for r in verdict.results for way in r.ran} == {"simulator", "interpreter"}
    assert verdict.command == ""


@has_compiler
def test_a_leaf_that_computes_something_else_fails(files):
    subject, fixed = (
        files("j == 12 ? X(i, j) : X(i, j) + X(i, j)"),
        CheckCase("", {"M": 1, "N": 13}),
    )
    verdict = check_mapping(subject, fixed, way="other width", one=True, apart=False)
    assert not verdict.right
    assert "Y[0, 12]" in verdict.smallest.message


@has_compiler
@pytest.mark.slow
def test_a_leaf_that_computes_something_else_fails_with_the_smallest_case(files):
    subject = files("j == 12 ? X(i, j) : X(i, j) + X(i, j)")
    fixed = CheckCase("", {"M": 2, "N": 20}, "float32")
    verdict = check_mapping(subject, fixed, way="code", apart=False)
    assert not verdict.right
    assert verdict.smallest.kind == "wrong"
    assert verdict.smallest.case.sizes == {"M": 1, "N": 13}
    assert "Y[0, 12]" in verdict.smallest.message
    again = septran_check(*shlex.split(verdict.command)[2:], code=1)
    assert "M=1 N=13" in again
    assert septran_check(*shlex.split(verdict.command.replace("N=13", "N=12"))[2:], code=0)


def test_some_cases_have_nan_and_infinities_where_a_type_has_them():
    cases = check_cases(Subject("softmax", machine="dsa-sim"), CheckCase("", {}), 12)
    assert {c.special for c in cases} == {False, True}
    integers = check_cases(Subject("gemm", machine="dsa-sim"), CheckCase("", {}, "int8"), 12)
    assert not any(c.special for c in integers)
    always = check_cases(Subject("softmax", machine="dsa-sim"), CheckCase("", {}, special=True), 6)
    assert all(c.special for c in always)
    assert CheckCase.from_dict(always[0].to_dict()) == always[0]


def test_special_values_are_few_and_the_same_each_time():
    inputs = {"X": np.zeros((40, 30), np.float32), "I": np.zeros(40, np.int32)}
    inputs["F"] = np.zeros(8, ml_dtypes.float8_e4m3fn)
    found = with_special_values(inputs, 3)
    assert {str(v) for v in found["X"][found["X"] != 0]} == {"nan", "inf", "-inf"}
    assert (found["X"] == 0).mean() > 0.99
    assert np.isnan(found["F"].astype(float)).sum() <= 1
    assert (found["I"] == 0).all()
    assert (inputs["X"] == 0).all()
    again = with_special_values(inputs, 3)
    assert found["X"].tobytes() == again["X"].tobytes()


@has_compiler
@pytest.mark.parametrize("special", [False, True])
def test_a_leaf_that_loses_nan_fails_by_special_values_alone(files, special):
    subject = files("X(i, j) == X(i, j) ? X(i, j) + X(i, j) : T(0)")
    fixed = CheckCase("", {"M": 5, "N": 9}, "float32", special=special)
    verdict = check_mapping(subject, fixed, way="other width", one=True, apart=False)
    assert verdict.right == (not special)
    assert not special or verdict.command.endswith("--special --way 'other width' --one")


@has_compiler
@pytest.mark.slow
def test_the_smallest_case_keeps_its_special_values(files):
    subject = files("X(i, j) == X(i, j) ? X(i, j) + X(i, j) : T(0)")
    verdict = check_mapping(subject, CheckCase("", {}, "float32"), way="code", apart=False)
    assert verdict.smallest.case.special
    assert verdict.smallest.case.sizes["M"] * verdict.smallest.case.sizes["N"] <= 4
    assert "with NaN and infinities" in str(verdict)
    septran_check(*shlex.split(verdict.command)[2:], code=1)


@has_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("X(i, j + 1)", "wrong"),
        ("*(volatile T*)nullptr", "wrong"),
        ("[]{ for (volatile int n = 0;; n = 0); return 1; }()", "hang"),
    ],
)
def test_a_leaf_that_reads_beyond_crashes_or_hangs_fails(files, body, kind):
    limits = CheckLimits(cases=2, patience=60, tries=1)
    verdict = check_mapping(files(body), CheckCase("", {"M": 17, "N": 5}, "float32"), limits)
    assert verdict.smallest.kind == kind, str(verdict)


def test_a_wait_that_is_missing_is_found(monkeypatch):
    """By the verifier; without it by the simulator's schedules, and by the interpreter's."""
    place = septran.compiler.place

    def waitless(mapping, passes=()):
        *others, last = place(mapping, passes=passes)
        return (*others, replace(last, program=without_waits(last.program)))

    monkeypatch.setattr(septran.compiler, "place", waitless)
    subject, fixed = Subject("gemm", machine="dsa-sim"), CheckCase("", {"M": 65, "N": 33, "K": 90})
    for way in ("simulator", "interpreter"):
        verdict = check_mapping(
            subject, fixed, CheckLimits(tries=1), way=way, one=True, apart=False
        )
        assert verdict.smallest, str(verdict)
        assert not verdict.right


def test_what_is_refused_everywhere_is_not_right():
    subject = Subject("gemm", machine="dsa-sim")
    verdict = check_mapping(subject, CheckCase("", {}, "float64"), CheckLimits(2), apart=False)
    assert not verdict.right
    assert "not checked" in str(verdict)
    assert "no instruction accepts" in str(verdict)


@pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
@pytest.mark.slow
def test_code_for_a_gpu_runs_on_the_emulator():
    assert has_emulator("cuda")
    subject = Subject("softmax", machine="nvidia-h200")
    verdict = check_mapping(subject, limits=CheckLimits(cases=3), apart=False)
    assert verdict.right, str(verdict)
    assert {way for r in verdict.results for way in r.ran} == {"emulator", "interpreter"}


def test_a_mapping_without_a_right_file_is_a_mistake(tmp_path):
    (tmp_path / "a.mapping.yaml").write_text("machine: cpu-x86\nrulez: []\n", encoding="utf-8")
    with pytest.raises(MappingError):
        check_mapping(Subject("gemm", str(tmp_path / "a.mapping.yaml")), apart=False)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["gemm", "--way", "fast"], "simulator"),
        (["gemm", "--logic", "softmax"], "the logic already"),
        (["a.mapping.yaml", "-m", "b.mapping.yaml"], "a mapping already"),
    ],
)
def test_a_wrong_command_line(arguments, word):
    assert word in septran_check(*arguments, code=2)


@pytest.mark.slow
def test_a_mapping_file_alone_is_for_the_operator_of_its_entrypoint(tmp_path):
    text = (
        CliRunner()
        .invoke(app, ["explain", "transpose", "--on", "dsa-sim", "--format", "yaml"])
        .output
    )
    (tmp_path / "one.mapping.yaml").write_text(text, encoding="utf-8")
    data = json.loads(
        septran_check(tmp_path / "one.mapping.yaml", "--cases", "2", "--json", code=0)
    )
    assert data["right"]
    assert data["logic"] == "transpose"
    assert len(data["cases"]) == 2
