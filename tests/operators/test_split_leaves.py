"""Where leaves begin and end means nothing: a statement more or less in one is no other program.

npu-cube is left out where a sum's first part is in another leaf: it then goes by way of its vector
unit's memory, which is right, and takes longer.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import septran
from septran import operators
from tests.operators.leaves import split

SAME = (
    *(("cpu-x86", name) for name in ("attention_decode", "linear_attention")),
    ("npu-cube", "gated_delta_rule"),
    *(
        pytest.param(machine, name, marks=pytest.mark.slow)
        for machine, some in {
            "cpu-x86": ("attention", "cumsum", "gated_delta_rule", "mla_decode"),
            "cpu-arm": ("attention", "attention_decode", "cumsum", "linear_attention"),
            "npu-cube": ("attention", "attention_decode"),
            "nvidia-h200": ("attention", "cumsum", "gated_delta_rule", "mla_decode"),
        }.items()
        for name in some
    ),
)


@pytest.fixture
def in_parts(tmp_path):
    """Write an operator with its leaves split; gives the path."""

    def write(operator):
        text, leaves = split(Path(operators.module(operator).__file__).read_text())
        assert leaves
        path = tmp_path / f"{operator}.py"
        path.write_text(text)
        return path

    return write


def text_of(stages):
    """The program without the numbers of buffers of one name."""
    memories = "|".join(memory.name for memory in stages.tile_program.machine.memories)
    return re.sub(rf"(?<=_)({memories})_\d+\b", r"\1", str(stages.tile_program))


@pytest.mark.parametrize(("machine", "operator"), SAME)
@pytest.mark.one_in(2)
def test_a_leaf_for_each_statement_is_the_same_program(machine, operator, in_parts):
    shapes = operators.module(operator).EXAMPLE
    known = septran.produce_stages(operator, machine, shapes=shapes)
    given = {p.name: p.shape for p in known.task_tree.root.params}
    parts = septran.produce_stages(in_parts(operator), machine, shapes=given)
    assert len(list(parts.task_tree.tasks())) > len(list(known.task_tree.tasks()))
    assert text_of(parts) == text_of(known)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100"])
@pytest.mark.parametrize("operator", ["attention", "gated_delta_rule", "linear_attention"])
def test_a_leaf_for_each_statement_computes_the_same(machine, operator, in_parts):
    sizes = operators.cases(operator)[0].sizes
    known = septran.produce_stages(operator, machine, shapes=sizes)
    given = {p.name: p.shape for p in known.task_tree.root.params}
    kernel = septran.compile(
        in_parts(operator), machine, shapes=given, emulate=machine.startswith("nvidia")
    )
    check = kernel.check()
    assert check.right, str(check)
