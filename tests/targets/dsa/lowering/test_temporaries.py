"""Temporaries of vector expressions in a memory that also holds buffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import septran
from septran.cli import app
from septran.simulator.errors import TemporaryOverlapError
from septran.targets.dsa import lowering, steps
from septran.tile.analyses.temporaries import start_of_temporaries
from septran.tile.passes.layout.plan_memory import peak

MACHINES = Path(__file__).parents[4] / "mappings" / "machines"
SHAPES = {
    "softmax": [(130, 1000)],
    "layer_norm": [(130, 500), (500,), (500,)],
    "attention": [(1, 2, 100, 64)] * 3,
}


@pytest.fixture
def shared(tmp_path):
    """dsa-sim with the temporaries of its vector unit in the scratchpad."""
    path = tmp_path / "shared.yaml"
    text = (MACHINES / "dsa-sim.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("temporaries: VREG", "temporaries: SPM"), encoding="utf-8")
    header = (MACHINES / "dsa-sim.h").read_text(encoding="utf-8")
    (tmp_path / "dsa-sim.h").write_text(header, encoding="utf-8")
    return str(path)


def inputs(operator):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[operator]]


@pytest.mark.parametrize("operator", SHAPES)
@pytest.mark.one_in(2)
def test_buffers_leave_room_for_them(operator, shared):
    kernel = septran.compile(operator, "dsa-sim", machine=shared)
    check = kernel.check(*inputs(operator))
    assert check.right, str(check)


def test_they_lie_behind_all_buffers(shared):
    shapes = {"M": 130, "N": 1000}
    program = septran.produce_stages("softmax", "dsa-sim", machine=shared, shapes=shapes)
    program = program.tile_program
    memory = program.machine.memory("SPM")
    start = start_of_temporaries(program, memory)
    assert 0 < peak(program.plan, "SPM") <= start <= memory.capacity_bytes * 7 // 8


def test_stages_leave_room_for_them(shared):
    """Two stages of X fit beside Y and e in all of the scratchpad, not in what is left."""
    shapes = {"M": 8, "N": 16000}
    alone = septran.produce_stages("softmax", "dsa-sim", shapes=shapes).tile_program
    beside = septran.produce_stages("softmax", "dsa-sim", machine=shared, shapes=shapes)
    beside = beside.tile_program
    assert alone.buffer("X_SPM").stages == 2
    assert beside.buffer("X_SPM").stages == 1
    assert any("of 229,376" in remark.message for remark in beside.remarks)


@pytest.mark.parametrize("operator", SHAPES)
@pytest.mark.one_in(2)
def test_an_overlap_is_seen(operator, shared, monkeypatch):
    for module in (lowering, steps):
        monkeypatch.setattr(module, "shared_with_buffers", lambda program: {"SPM": 0})
    monkeypatch.setattr("septran.targets.dsa.code.build.shared_with_buffers", lambda _: {"SPM": 0})
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    kernel = septran.compile(operator, "dsa-sim", machine=shared)
    with pytest.raises(
        TemporaryOverlapError, match=r"bytes of SPM from byte 0 on, where temporaries"
    ):
        kernel(*inputs(operator))


def test_a_buffer_that_the_vector_unit_writes_is_seen_too(shared, monkeypatch):
    """Here temporaries begin where the last buffer does, which no other unit touches."""

    def into_the_last(program):
        return {"SPM": max(p.offset_bytes for p in program.plan if p.memory == "SPM")}

    for module in ("lowering", "steps", "code.build"):
        monkeypatch.setattr(f"septran.targets.dsa.{module}.shared_with_buffers", into_the_last)
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    kernel = septran.compile("attention", "dsa-sim", machine=shared)
    with pytest.raises(TemporaryOverlapError):
        kernel(*inputs("attention"))


def test_lint_says_that_they_share_a_memory(shared):
    told = CliRunner().invoke(app, ["lint", shared])
    assert told.exit_code == 0
    assert "note: temporaries of vector expressions are in SPM" in told.output
    assert "32,768 bytes" in told.output
    own = CliRunner().invoke(app, ["lint", str(MACHINES / "dsa-sim.yaml")])
    assert "note:" not in own.output
