"""Names mean nothing: an operator with every name changed is the same program on every machine.

Tasks, tensors, dimensions, temporaries and the file are renamed; tunables, static flags and
scalars are what callers and mappings set, and keep their names.
"""

from __future__ import annotations

import re

import pytest

import septran
from septran import operators
from septran.fuzz.renaming import renamed
from septran.mapping.conditions import MACHINE
from septran.mapping.keys import COPY, LAYOUTS, MEMS
from septran.mapping.loader import load_mapping
from septran.mapping.structure.structure import NAMES
from tests.tiers import in_turn, slow_but

OPENING, CLOSING = "zq0", "0qz"
"""Around each old name, so that all are others, in another order, and can be found again."""
CPU = ("cpu-x86", "cpu-arm")
DSA = ("dsa-sim", "npu-cube")
GPU = ("nvidia-a100", "nvidia-h200", "amd-mi300x")
OTHERS = ("amd-mi250", "opencl-generic", "tpu-v5e", "tpu-v6e")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Write an operator as somebody else would have written it; gives its path."""
    folder = tmp_path_factory.mktemp("renamed")

    def write(operator):
        made = renamed(operator, lambda name: f"{OPENING}{name}{CLOSING}")
        path = folder / f"{made.entry}.py"
        path.write_text(made.text)
        return path, made

    return write


def programs(operator, machine, foreign, sizes, dtype, static):
    """The tile program of an operator, and of its renamed copy with the old names put back."""
    known = septran.produce_stages(
        operator, machine, shapes=sizes, dtypes=dtype, static=static
    )  # fmt: skip
    path, made = foreign(operator)
    shapes = {made.tensors[p.name]: p.shape for p in known.task_tree.root.params}
    dtypes = {made.tensors[p.name]: p.dtype for p in known.task_tree.root.params}
    copy = septran.produce_stages(path, machine, shapes=shapes, dtypes=dtypes, static=static)
    return unnumbered(known.tile_program), unnumbered(copy.tile_program)


def unnumbered(program):
    """The text with the old names, and without the numbers of buffers of one name.

    The compiler calls a buffer after the tensor and the memory, and numbers those of one name. The
    language's own tasks have tensors, too, whose names an author may happen to take: `X`.
    """
    memories = "|".join(memory.name for memory in program.machine.memories)
    text = str(program).replace(OPENING, "").replace(CLOSING, "")
    return re.sub(rf"(?<=_)({memories})_\d+\b", r"\1", text)


def same(operator, machine, foreign, cases):
    for sizes, dtype, static in cases:
        known, copy = programs(operator, machine, foreign, sizes, dtype, static)
        assert copy == known, (sizes, dtype, static)


def cases_of(operator):
    """The example in two types, and the three cases of the matrix."""
    example = operators.module(operator).EXAMPLE
    found = [(example, "float32", {}), (example, "float16", {})]
    for case in operators.cases(operator):
        found.append((case.sizes, case.dtype or "float32", case.static))
    return found


LONG = {
    "attention_backward", "attention_varlen", "block_sparse_attention", "gated_delta_rule",
    "paged_prefill", "ssd",
}  # fmt: skip
"""Operators that take seconds on each machine: only the slow tests have them, as they
have the other machines of each kind."""
SHORT = sorted(set(operators.names()) - LONG)


@pytest.mark.one_in(12, first=4)
@pytest.mark.parametrize("machine", DSA[1:])
@pytest.mark.parametrize("operator", SHORT)
def test_names_mean_nothing_on_a_dsa(operator, machine, foreign):
    same(operator, machine, foreign, cases_of(operator)[:1])


@pytest.mark.one_in(12, first=5)
@pytest.mark.parametrize("operator", slow_but(SHORT, operators.names()))
def test_names_mean_nothing_on_a_cpu(operator, foreign):
    same(operator, "cpu-x86", foreign, (cases_of(operator)[0], cases_of(operator)[2]))


@pytest.mark.one_in(12, first=2)
@pytest.mark.parametrize("machine", GPU[1:2])
@pytest.mark.parametrize("operator", SHORT)
def test_names_mean_nothing_on_a_gpu(operator, machine, foreign):
    same(operator, machine, foreign, cases_of(operator)[1:2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "machine"),
    in_turn(operators.names(), [CPU[1], DSA[0], GPU[0], GPU[2], *OTHERS], alone=True),
)
def test_names_mean_nothing_in_any_case_on_the_other_machines(operator, machine, foreign):
    same(operator, machine, foreign, cases_of(operator))


def conditions_of(rule):
    """The conditions of a rule: its own, those of callers, and those of tunables."""
    match = rule.match
    while match is not None:
        yield match.when
        match = match.below
    yield from (case.when for p in rule.plan.tunables.values() for case in p.cases)


@pytest.mark.parametrize("machine", [*CPU, *DSA, *GPU, *OTHERS])
def test_no_mapping_names_what_a_logic_names(machine):
    """Tasks, their variants and instances; tensors, dimensions and flags."""
    words = {"*", "accumulators", "temporaries", "reads", "writes"}
    known = {"dtype", "level", "longest_row", "most_rows", *MACHINE, *NAMES}
    mapping = load_mapping(machine)
    for rule in mapping.rules:
        match = rule.match
        while match is not None:
            assert (*match.task, *match.variant, *match.within) == (), rule.plan.where
            match = match.below
        assert rule.plan.variant is None, rule.plan.where
        tables = (rule.plan.table(key) for key in (MEMS, LAYOUTS, COPY))
        named = {name for table in tables for name in table if "." not in name}
        assert named <= words, rule.plan.where
        used = {name for c in conditions_of(rule) if c is not None for name in c.names}
        assert used <= known, rule.plan.where
    cases = (case.when for p in mapping.tunables.values() for case in p.cases)
    assert {name for c in cases if c is not None for name in c.names} <= known
