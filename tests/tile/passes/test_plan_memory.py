"""Buffers share bytes only where they never meet, and what does not fit is told."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from septran.machine.model import Memory
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import TileProgram
from septran.tile.passes.layout.plan_memory import OverCapacityError, plan_memory


def with_memory(program: TileProgram, memory: Memory) -> TileProgram:
    memories = tuple(memory if m.name == memory.name else m for m in program.machine.memories)
    return replace(program, machine=replace(program.machine, memories=memories))


def chain(build, part, names, size=256):
    """X -> names[0] -> names[1] -> ... -> Y: each buffer is needed by the next one only."""
    x, y = build.buffer("X", "DRAM", (size,)), build.buffer("Y", "DRAM", (size,))
    held = [build.buffer(n, "SPM", (size,)) for n in names]
    body = [build.copy(part(held[0]), part(x))]
    body += [build.move(part(b), part(a)) for a, b in pairwise(held)]
    body.append(build.copy(part(y), part(held[-1])))
    return build.program("YX", "Y", build.loop("i", 1, *body, kind="parallel", over="CORE"))


def test_a_chain_of_buffers_takes_two_of_them(build, part):
    program = plan_memory(chain(build, part, "abcde"))
    assert {p.offset_bytes for p in program.plan} == {0, 1024}
    x = np.arange(256, dtype=np.float32)
    assert np.array_equal(interpret(program, [x])["Y"], x)


def test_buffers_that_meet_do_not_share_a_byte(build, part):
    program = plan_memory(chain(build, part, "abc"))
    for p in program.plan:
        for q in program.plan:
            if p != q and p.first <= q.last and q.first <= p.last:
                assert p.offset_bytes + p.size_bytes <= q.offset_bytes or (
                    q.offset_bytes + q.size_bytes <= p.offset_bytes
                )


def test_offsets_and_stages_are_aligned(build, part):
    program = with_memory(chain(build, part, "ab", 100), Memory("SPM", "CORE", 65536, alignment=64))
    staged = tuple(replace(b, stages=2 if b.name == "b" else 1) for b in program.buffers)
    places = {p.buffer: p for p in plan_memory(replace(program, buffers=staged)).plan}
    assert places["b"].size_bytes == 2 * 448
    assert places["b"].offset_bytes == 0
    assert places["a"].offset_bytes == 896


def test_what_does_not_fit_is_an_error_with_the_sum(build, part):
    program = chain(build, part, "ab")
    staged = tuple(replace(b, stages=3 if b.name == "b" else 1) for b in program.buffers)
    small = with_memory(replace(program, buffers=staged), Memory("SPM", "CORE", 2000))
    with pytest.raises(
        OverCapacityError,
        match=r"SPM needs 4,096 bytes of 2,000: b 3,072 = 3 stages x 1,024, a 1,024",
    ) as caught:
        plan_memory(small)
    assert "lower `pipeline`" in str(caught.value)


def test_a_cache_that_is_too_small_leaves_a_remark(build, part):
    small = with_memory(chain(build, part, "ab"), Memory("SPM", "CORE", 1000, cached=True))
    (remark,) = plan_memory(small).remarks
    assert remark.kind == "missed"
    assert remark.message == "SPM needs 2,048 bytes of 1,000: a 1,024, b 1,024"
