"""Logic that the library does not have, tried on every machine that SepTran comes with."""

from __future__ import annotations

from textwrap import dedent

import pytest

import septran
from septran.commands.run import interpreted
from septran.runtime.checks import sample
from septran.runtime.signature import Specialisation

EXECUTED = ("cpu-x86", "dsa-sim", "npu-cube")
"""Machines whose code runs here; the tile programs of the others are interpreted."""


@pytest.fixture(params=(*EXECUTED, "nvidia-h200", "nvidia-a100", "amd-mi300x"))
def machine(request):
    """The name of a machine with a mapping of its own."""
    return request.param


@pytest.fixture
def logic(tmp_path):
    """Write a logic file of the given entry; gives its path."""

    def write(entry, text, header="from septran import task\n\n"):
        path = tmp_path / f"{entry}.py"
        path.write_text(header + dedent(text))
        return path

    return write


@pytest.fixture
def right():
    """Whether a logic is right on a machine by the bound of its own rounding."""

    def check(logic, mapping, shapes, **settings):
        stages = septran.produce_stages(logic, mapping, shapes=shapes, **settings)
        inputs = sample(Specialisation.of(stages), 0)
        for order in ("early", "late", 1):
            for outcome in interpreted(stages, inputs, order):
                assert outcome.right, (order, str(outcome))
        if stages.tile_program.machine.name not in EXECUTED:
            return
        kernel = septran.compile(logic, mapping, shapes=shapes, **settings)
        passed = [inputs[p.name] for p in stages.task_tree.root.params if p.name in inputs]
        found = kernel.check(*passed)
        assert found.right, str(found)

    return check
