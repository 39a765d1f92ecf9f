"""Dispatch files: one YAML that chooses among mappings by the sizes and types of a call."""

from __future__ import annotations

import re

import numpy as np
import pytest

import septran
from septran.errors import Errors
from septran.mapping.conditions import Condition
from septran.mapping.dispatch.reading import dispatch_schema
from septran.mapping.dispatch.spans import alternatives, covered
from septran.mapping.loader import load_mapping
from septran.mapping.mistakes import (
    CaseMachinesError,
    ConditionError,
    ExtendsError,
    MissingKeyError,
    OpenDispatchError,
    UnknownKeyError,
    UnknownNameError,
    UnreachableCaseError,
    WrongValueError,
)

FEW = """\
extends: cpu-x86
rules:
  - {match: {task: gemm_core}, tunables: {block_M: 8}}
"""
DISPATCH = """\
conditions: {few: M <= 4}
dispatch:
  - {when: few, mapping: few.mapping.yaml}
  - when: M <= 64 and dtype == "float32"
    mapping:
      extends: cpu-x86
      rules: [{match: {task: gemm_core}, tunables: {block_M: 16}}]
  - {when: M <= 64, mapping: few.mapping.yaml}
otherwise: cpu-x86
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "few.mapping.yaml").write_text(FEW)
    (tmp_path / "gemm.dispatch.yaml").write_text(DISPATCH)
    return tmp_path


def cases(*said: str, otherwise: str = "cpu-x86", head: str = "") -> str:
    """A dispatch file with these conditions, all for one mapping."""
    lines = [f"  - {{when: {when}, mapping: cpu-x86}}" for when in said]
    return "\n".join([head, "dispatch:", *lines, f"otherwise: {otherwise}", ""])


def mistake(text: str, kind: type[septran.SepTranError]) -> septran.SepTranError:
    """The one mistake of a dispatch file."""
    with pytest.raises(kind) as caught:
        load_mapping(text)
    error = caught.value
    return error.errors[0] if isinstance(error, Errors) else error


def taken(stages) -> str:
    """What the mapping stage says of the case that was taken."""
    return next(d.message for d in stages.mapping.decisions if d.about == "dispatch")


@pytest.mark.parametrize(
    ("size", "dtype", "name"),
    [
        (4, "float32", "case 1 is taken (few.mapping.yaml): few holds"),
        (5, "float32", 'case 2 is taken: M <= 64 and dtype == "float32" holds; not case 1, few'),
        (5, "float16", "case 3 is taken (few.mapping.yaml): M <= 64 holds; not case 1, few;"),
        (65, "float32", "otherwise is taken (cpu-x86): not case 1, few; not case 2,"),
    ],
)
@pytest.mark.one_in(2)
def test_the_first_case_that_holds_is_taken(folder, size, dtype, name):
    stages = septran.produce_stages(
        "gemm", folder / "gemm.dispatch.yaml", shapes={"M": size, "N": 48, "K": 32}, dtypes=dtype
    )
    assert taken(stages).startswith(name)
    assert f"M is {size}" in taken(stages)


def test_the_case_gives_the_tunables(folder):
    def rows(size):
        shapes = {"M": size, "N": 48, "K": 32}
        stages = septran.produce_stages("gemm", folder / "gemm.dispatch.yaml", shapes=shapes)
        core = next(i for i in stages.mapping.instances if i.task == "gemm_core")
        return core.tunables["block_M"].value

    assert rows(4) == 8
    assert rows(64) == 16
    assert rows(65) not in (8, 16)


def test_one_kernel_runs_calls_of_every_case(folder):
    kernel = septran.compile("gemm", folder / "gemm.dispatch.yaml")
    found = []
    for size in (4, 20, 70):
        a, b = np.ones((size, 32), np.float32), np.ones((32, 48), np.float32)
        assert (kernel(a, b) == 32).all()
        found.append(taken(kernel.stages).split()[:2])
    assert found == [["case", "1"], ["case", "2"], ["otherwise", "is"]]
    assert kernel.check(np.ones((4, 32), np.float32), np.ones((32, 48), np.float32)).right


def test_an_explanation_shows_the_case_and_its_line(folder):
    path = folder / "gemm.dispatch.yaml"
    text = str(septran.explain("gemm", path, shapes={"M": 20, "N": 48, "K": 32}))
    shown = " ".join(text[text.index("case 2 is taken") :].split())
    assert re.match(
        r"case 2 is taken: .*?; not case 1, few \(.*?\) \[.*?gemm.dispatch.yaml:4:", shown
    )


def test_a_task_tree_is_resolved_by_the_case_for_its_sizes(folder):
    shapes = {"M": 3, "N": 48, "K": 32}
    tree = septran.produce_stages("gemm", "cpu-x86", shapes=shapes).task_tree
    resolved = septran.resolve(tree, load_mapping(folder / "gemm.dispatch.yaml"))
    assert any(d.message.startswith("case 1 is taken") for d in resolved.decisions)


def test_calls_of_one_case_share_a_dynamic_kernel(folder):
    kernel = septran.compile("gemm", folder / "gemm.dispatch.yaml", dynamic={"M": (1, 300)})
    made = {}
    for size in (2, 4, 5, 64, 65, 300):
        a, b = np.ones((size, 32), np.float32), np.ones((32, 48), np.float32)
        assert (kernel(a, b) == 32).all()
        made[size] = kernel.stages.whole
    assert made[2] is made[4]
    assert made[5] is made[64]
    assert made[65] is made[300]
    assert len(set(map(id, made.values()))) == 3
    ranges = [made[size].request.dynamic["M"] for size in (2, 5, 65)]
    assert ranges == [(1, 4), (5, 64), (65, 300)]


def test_an_extent_beyond_a_dynamic_range_is_refused_with_the_whole_range(folder):
    kernel = septran.compile("gemm", folder / "gemm.dispatch.yaml", dynamic={"M": (1, 300)})
    with pytest.raises(septran.SepTranError, match=r"M of gemm is 301, .* is for 1 to 300"):
        kernel(np.ones((301, 32), np.float32), np.ones((32, 48), np.float32))


@pytest.mark.parametrize(
    ("said", "value", "span"),
    [
        (("M <= 4", "4 < M <= 64"), 5, (5, 64)),
        (("16 > M",), 20, (16, 100)),
        (("M <= 4 or M > 50",), 20, (5, 50)),
        (("M == 8",), 8, (8, 8)),
        (("M * N <= 64", "M <= 32"), 20, (1, 32)),
        (('M <= 4 and dtype == "float32"',), 20, (5, 100)),
        (('M <= 4 and dtype == "float16"',), 20, (1, 100)),
    ],
)
def test_simple_bounds_narrow_a_dynamic_range(said, value, span):
    request = septran.request.CompileRequest.of(
        "gemm", cases(*said), shapes={"M": value, "N": 48, "K": 32}, dynamic={"M": (1, 100)}
    )
    assert request.completed().dynamic == {"M": span}


def test_another_machine_is_for_all_cases():
    mapping = load_mapping(cases("M <= 4"), "cpu-arm")
    assert {c.mapping.machine.name for c in mapping.cases} == {"cpu-arm"}
    head = "machine: cpu-arm"
    assert load_mapping(cases("M <= 4", head=head)).machine.name == "cpu-arm"
    moved = load_mapping(load_mapping(cases("M <= 4")), "cpu-arm")
    assert {c.mapping.machine.name for c in moved.cases} == {"cpu-arm"}


def test_cases_for_different_machines_are_refused():
    error = mistake(cases("M <= 4", otherwise="cpu-arm"), CaseMachinesError)
    assert "otherwise is for cpu-arm, and case 1 for cpu-x86" in error.message


def test_a_dispatch_file_without_otherwise_is_refused():
    text = "dispatch:\n  - {when: M <= 4, mapping: cpu-x86}\n"
    assert "'otherwise'" in mistake(text, MissingKeyError).message


@pytest.mark.parametrize(
    ("text", "kind", "place", "words"),
    [
        (cases("M <<= 4"), ConditionError, (3, 12), "is not an expression"),
        (cases("product.rows <= 4"), ConditionError, (3, 12), "cannot ask for product.rows"),
        (cases("M <= 4").replace("when", "wen"), UnknownKeyError, (3, 6), "'when'"),
        (cases("M <= 4", otherwise="cpu-x68"), ExtendsError, (4, 12), "cpu-x68"),
        (cases("M <= 4", otherwise="{extends: cpu-x86, tunables: [1]}"), WrongValueError, (4, 41),
         "expected"),
        (cases("M <= 4", otherwise="{extends: cpu-x86, rules: [{proc: HOTS}]}"), UnknownNameError,
         (4, 46), "HOTS"),
        (cases("!tune {type: choice, values: [1]}"), WrongValueError, (3, 12), "!tune"),
    ],
)  # fmt: skip
def test_mistakes_have_their_place(text, kind, place, words):
    error = mistake(text, kind)
    assert (error.where.line, error.where.column) == place
    assert words in f"{error.message} {error.hint}"


def test_all_mistakes_of_the_cases_come_at_once():
    with pytest.raises(Errors) as caught:
        load_mapping(cases("M <<= 4", "N <<= 4"))
    assert [e.where.line for e in caught.value.errors] == [3, 4]
    with pytest.raises(Errors) as caught:
        load_mapping(cases("M <= 4", "product.rows < 4", otherwise="cpu-x68"))
    assert [e.where.line for e in caught.value.errors] == [4, 5]


@pytest.mark.parametrize(
    ("said", "number", "words"),
    [
        (("M <= 4", "M <= 2"), 2, "where M <= 2 holds, case 1, M <= 4, does"),
        (("M <= 4", "M < 5"), 2, "case 1"),
        (("M <= 4", "M > 4", "N == 7"), 3, "case 1, M <= 4, or case 2, M > 4, does"),
        (("M <= 4", "M <= 2 and N == 7"), 2, "case 1"),
        (("M <= 64", "M == 3 or M == 5"), 2, "case 1"),
        (("M * N < 9", "M * N < 9 and K > 2"), 2, "case 1"),
        (("M < 2**10", "M <= 512 * 2 - 1"), 2, "case 1"),
        (("true", "M <= 2"), 2, "case 1, true, does"),
        (("M > 8 and M < 4", "M <= 2"), 1, "cannot hold"),
        (("false", "M <= 2"), 1, "cannot hold"),
    ],
)
def test_a_case_that_is_never_taken_is_a_mistake(said, number, words):
    error = mistake(cases(*said), UnreachableCaseError)
    assert error.message.startswith(f"case {number} is never taken")
    assert words in error.message
    assert error.where.line == number + 2


@pytest.mark.parametrize("said", ['dtype == "flaot16"', 'M < 4 or "f16" == A_dtype'])
def test_a_word_that_is_no_element_type_is_a_mistake(said):
    error = mistake(cases("M <= 4", said), ConditionError)
    assert "no element type" in error.message
    assert "float16" in error.hint
    assert error.where.line == 4


@pytest.mark.parametrize(
    "said",
    [
        ("M <= 2", "M <= 4"),
        ("M <= 4 and N == 7", "M <= 4"),
        ("M <= 4", "M > 5", "N == 7"),
        ("M * N < 9", "M < 3"),
        ('dtype == "float16"', "M <= 4", 'dtype == "int8"'),
        ("M <= 4", "N <= 2"),
        ("not M <= 4", "M <= 4"),
    ],
)
def test_cases_that_may_be_taken_are_no_mistake(said):
    assert len(load_mapping(cases(*said)).cases) == len(said) + 1


def test_what_covers_a_condition_holds_wherever_it_does():
    """Whatever is said to be covered is so for every pair of extents that is tried."""
    where = load_mapping(cases("M <= 4")).cases[0].where
    texts = [
        "M <= 4", "M < 4", "4 < M", "M == 4", "2 <= M < 6", "M <= 4 and N <= 2", "N <= 2",
        "M <= 4 or N <= 2", "M * N <= 4", "not M <= 4", "M != 4", "M > 9 and M < 3", "3 >= M",
    ]  # fmt: skip
    conditions = [Condition(text, where) for text in texts]
    points = [{"M": m, "N": n} for m in range(10) for n in range(5)]
    for own in conditions:
        for pair in [(a, b) for a in conditions for b in conditions]:
            earlier = [a for c in pair for a in alternatives(c)]
            if all(covered(a, earlier) for a in alternatives(own)):
                for p in points:
                    assert not own.holds(p) or any(c.holds(p) for c in pair), (own, pair, p)


def test_a_misspelt_dimension_is_found_before_the_first_call():
    with pytest.raises(ConditionError, match="case 1 names 'm', which the logic") as caught:
        septran.compile("gemm", cases("m <= 4"))
    assert "'M'" in caught.value.hint


def test_conditions_may_name_extents_flags_and_types():
    text = cases("A_0 <= 4", 'B_dtype == "float16"', "longest_row > 9", "causal")
    assert septran.compile("attention", text.replace("A_0", "Q_0").replace("B_d", "K_d"))


@pytest.mark.parametrize("use", ["extends: d.yaml", "dispatch: [{when: M < 4, mapping: d.yaml}]"])
def test_a_dispatch_file_is_neither_extended_nor_a_case(tmp_path, use):
    (tmp_path / "d.yaml").write_text(cases("M <= 4"))
    (tmp_path / "x.yaml").write_text(f"{use}\n" + ("otherwise: cpu-x86\n" * ("when" in use)))
    with pytest.raises(OpenDispatchError) as caught:
        load_mapping(tmp_path / "x.yaml")
    assert caught.value.where.file.endswith("d.yaml")


def test_a_search_needs_the_mapping_of_one_case():
    with pytest.raises(OpenDispatchError):
        septran.tune("gemm", cases("M <= 4"))


def test_a_dispatch_file_is_printed_case_by_case(folder):
    text = str(load_mapping(folder / "gemm.dispatch.yaml"))
    assert "case 1, few: few.mapping.yaml" in text
    assert "otherwise: cpu-x86" in text


def test_the_schema_accepts_what_is_read():
    import jsonschema
    import yaml

    jsonschema.validate(yaml.safe_load(DISPATCH), dispatch_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"dispatch": []}, dispatch_schema())


@pytest.mark.slow
def test_an_operator_of_torch_dispatches(folder):
    import torch

    operator = septran.torch.op("gemm", folder / "gemm.dispatch.yaml", name="test::by_rows")
    for size in (3, 70):
        a, b = torch.ones(size, 32), torch.ones(32, 48)
        assert bool((operator(a, b) == 32).all())
    kernel = operator.kernels["cpu"]
    assert taken(kernel.stages).startswith("otherwise is taken")
