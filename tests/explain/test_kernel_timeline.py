"""`kernel.timeline()`: CPU blocks as they ran, the simulator's and the emulator's traces."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import septran
from septran.targets.cpu.lowering import nests
from septran.targets.cpu.run.instrumentation import record
from septran.tile.analyses.loops import walk
from septran.tile.nodes import For
from septran.views.timelines.kernels import NoTimelineError, timeline

SIZES = {"M": 500, "N": 700, "K": 600}


def arrays(program, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal(program.buffer(n).shape).astype(program.buffer(n).dtype)
        for n in program.params
    ]


@pytest.fixture(scope="module")
def program():
    return septran.explain("gemm", "cpu-x86", shapes=SIZES).tile_program


@pytest.fixture(scope="module")
def ran(program):
    given = arrays(program)
    return given, record(program, given)


def test_every_block_ran_once(program, ran):
    _, marks = ran
    assert marks
    blocks = 0
    for nest in nests(program):
        around = next(loops for node, loops in walk(program.body) if node is nest)
        inner = [n for n, _ in walk((nest,)) if isinstance(n, For) and n.kind == "parallel"]
        each = math.prod(loop.extent.as_int() for loop in inner)
        blocks += each * math.prod(loop.extent.as_int() for loop in around)
        mine = sorted(mark.unit for mark in marks if mark.nest is nest)
        assert mine == list(range(len(mine)))
    assert len(marks) == blocks


def test_blocks_of_a_thread_do_not_overlap_and_end_after_they_began(ran):
    _, marks = ran
    assert min(mark.start for mark in marks) == 0
    assert all(mark.start <= mark.end for mark in marks)
    for thread in {mark.thread for mark in marks}:
        mine = sorted((m for m in marks if m.thread == thread), key=lambda m: m.start)
        assert all(a.end <= b.start for a, b in itertools.pairwise(mine))


def test_the_marked_kernel_computes_what_the_kernel_computes(program, ran):
    given, _ = ran
    kernel = septran.compile("gemm", "cpu-x86", shapes=SIZES)
    np.testing.assert_array_equal(given[0], kernel(*given[1:]))


def test_repetitions_of_a_nest_are_blocks_of_their_own():
    program = septran.explain("gemm_splitk", "cpu-x86").tile_program
    marks = record(program, arrays(program))
    keys = [(id(mark.nest), mark.unit) for mark in marks]
    assert len(keys) == len(set(keys)) > 0


def test_a_kernel_tells_the_timeline_of_one_call_and_leaves_the_arrays_alone():
    kernel = septran.compile("softmax", "cpu-x86", shapes={"M": 512, "N": 512})
    x = np.random.default_rng(1).standard_normal((512, 512)).astype(np.float32)
    before = x.copy()
    found = kernel.timeline(x)
    assert found.unit == "us"
    assert {record.kind for record in found.records} == {"block"}
    assert all("softmax.py:" in record.origin for record in found.records)
    assert any("busy" in note for note in found.notes)
    np.testing.assert_array_equal(x, before)


def test_without_blocks_it_says_so():
    found = timeline((), "nothing on cpu-x86")
    assert found.end == 0
    assert "no block ran" in found.notes[0]


def test_a_simulated_machine_gives_the_trace_of_its_profile():
    kernel = septran.compile("softmax", "dsa-sim", shapes={"M": 64, "N": 64})
    found = kernel.timeline()
    assert found.unit == "cycles"
    assert found.end == kernel.profile().cycles


def test_a_kernel_from_a_file_has_none(tmp_path):
    kernel = septran.compile("softmax", "cpu-x86", shapes={"M": 64, "N": 64})
    kernel.save(tmp_path / "softmax.zip")
    loaded = septran.load(tmp_path / "softmax.zip")
    with pytest.raises(NoTimelineError, match="loaded from a file"):
        loaded.timeline(np.zeros((64, 64), np.float32))
