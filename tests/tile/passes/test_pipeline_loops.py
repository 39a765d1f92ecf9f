"""Loops that copy ahead of what they compute give what the synchronous loop gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from septran.compiler import produce_stages
from septran.ir.index import Index, Var
from septran.tile.interpret.execution import ADVERSARIES
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import Acquire, Barrier, Commit, Copy, For, Release, Wait, nodes, rewrite
from septran.tile.passes.layout.plan_memory import plan_memory
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.passes.schedule.pipeline_loops import pipeline_loops
from septran.tile.printer import to_text

ORDERS = [*ADVERSARIES, *range(3)]
TILE = 8


def placed(program):
    return insert_sync(pipeline_loops(program))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("k", [1, 8, 16, 19, 40])
@pytest.mark.parametrize("outer", [1, 2, 3])
@pytest.mark.parametrize("pipeline", [1, 2, 3, 5])
def test_every_depth_gives_the_product(gemm, operands, pipeline, outer, k):
    program = placed(gemm(k=k, pipeline=pipeline, outer=outer))
    a, b = operands(20, 12, k)
    for order in ORDERS:
        assert np.array_equal(interpret(program, [a, b], order=order)["C"], a @ b), order


def test_a_tile_is_fetched_while_the_one_before_is_computed(gemm):
    program = placed(gemm(pipeline=2))
    loop = next(n for n in nodes(program.body) if isinstance(n, For) and n.variable == Var("p"))
    assert [type(n).__name__ for n in loop.body] == [
        "Acquire", "Copy", "Copy", "Commit", "Wait", "Compute", "Release"
    ]  # fmt: skip
    copy, wait = loop.body[1], loop.body[4]
    assert copy.source.index[1].coefficient(Var("p")) == TILE
    assert copy.source.origin()[1] == Index.of(Var("p")) * TILE + TILE
    assert wait.index == Index.of(Var("p"))
    assert loop.extent == Index.of(4)


def test_gemm_has_the_least_synchronisation(gemm):
    """One handshake for both operands, once before, in and after the steady loop."""
    kinds = Counter(type(n) for n in nodes(placed(gemm(pipeline=2)).body))
    stores = 1  # the tile of C: committed and waited for once
    assert kinds[Acquire] == 2
    assert kinds[Commit] == 2 + stores
    assert kinds[Wait] == 2 + stores
    assert kinds[Release] == 2


def test_a_synchronous_program_stays_as_it_is(gemm):
    program = gemm(pipeline=3)
    still = replace(
        program,
        machine=replace(
            program.machine,
            engines=tuple(replace(e, asynchronous=False) for e in program.machine.engines),
        ),
    )
    result = placed(still)
    assert rewrite(result.body, lambda n: () if isinstance(n, Barrier) else (n,)) == still.body
    assert not any(n.channel for n in nodes(result.body) if isinstance(n, Copy))


def in_little_memory(program, capacity):
    """With SPM of another size, and tunables that may be named."""
    memories = tuple(
        replace(m, capacity_bytes=capacity) if m.name == "SPM" else m
        for m in program.machine.memories
    )
    tunables = (("block_M", 24), ("block_K", TILE))
    requests = tuple(replace(request, tunables=tunables) for request in program.requests)
    machine = replace(program.machine, memories=memories)
    return replace(program, requests=requests, machine=machine)


def test_a_depth_that_does_not_fit_is_lowered_with_figures_and_a_way_out(gemm):
    program = in_little_memory(gemm(pipeline=4), 2048)
    result = pipeline_loops(program)
    (remark,) = result.remarks
    assert remark.kind == "missed"
    assert remark.message == (
        "pipeline 4 lowered to 3: SPM would need 2,304 bytes of 2,048 "
        "(As 1,024 = 4 stages x 256, Bs 1,024 = 4 stages x 256, Cs 256)"
    )
    assert remark.hint == "`block_K: 4` would fit"
    assert plan_memory(insert_sync(result)).plan


def test_no_more_stages_than_iterations(gemm):
    program = pipeline_loops(gemm(k=16, pipeline=5))
    assert program.buffer("As").stages == 2
    assert pipeline_loops(gemm(k=8, pipeline=5)).buffer("As").stages == 1


def test_a_pipeline_that_changes_nothing_is_told(gemm):
    program = gemm(pipeline=2)
    engines = tuple(replace(e, asynchronous=False) for e in program.machine.engines)
    still = replace(program, machine=replace(program.machine, engines=engines))
    assert [(r.kind, r.message) for r in pipeline_loops(still).remarks] == [
        ("no-effect", "`pipeline` has no effect: toy copies synchronously")
    ]


def test_what_the_loop_computes_is_not_fetched_ahead(build, part):
    """X is changed in each step, so the next load of it cannot come before."""
    b = build
    x, y = b.buffer("X", "DRAM", (8, 8)), b.buffer("Y", "DRAM", (8, 8))
    s = b.buffer("s", "SPM", (8, 8))
    step = b.loop("k", 4, b.copy(part(s), part(x), "DMA_IN"), b.gemm(part(y), part(s), part(s)),
                  b.copy(part(x), part(s)), pipeline=3)  # fmt: skip
    loop = b.loop("c", 1, b.fill(part(y)), step, kind="parallel", over="CORE")
    program = b.program("YX", "Y", loop)
    result = pipeline_loops(program)
    assert result.buffer("s").stages == 1
    assert [(r.kind, r.message) for r in result.remarks] == [
        (
            "missed",
            "s is not fetched ahead of the loop over k: X is written by the iteration before",
        ),
        ("no-effect", "`pipeline` has no effect: no copy in a loop of toy/k can go ahead"),
    ]


def test_one_unit_runs_its_loop_in_order_and_stores_beside_the_next_tile(gemm, operands):
    program = gemm(m=40, pipeline=2, outer=2)
    one = tuple(replace(p, count=1) if p.name == "CORE" else p for p in program.machine.processors)
    row = next(n for n in nodes(program.body) if isinstance(n, For) and n.variable == Var("j"))
    spread = replace(row, kind="parallel", processor="CORE")
    body = (replace(program.body[0], body=(spread,)),)
    program = replace(program, machine=replace(program.machine, processors=one), body=body)
    result = placed(program)
    assert result.buffer("Cs").stages == 2
    a, b = operands(40, 12, 40)
    for order in ORDERS:
        assert np.array_equal(interpret(result, [a, b], order=order)["C"], a @ b)


def test_the_text_of_a_pipelined_gemm(gemm, golden):
    golden.check(to_text(placed(gemm(pipeline=3, outer=2))), "gemm in 3 stages")


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
def test_what_is_changed_in_place_is_not_fetched_ahead(machine):
    """Rows of a result that is written in parts: brought in, changed, stored, each in turn."""
    stages = produce_stages("topk", machine, shapes={"M": 70, "N": 33}, static={"k": 2})
    x = np.random.default_rng(0).permutation(70 * 33).reshape(70, 33).astype("float32")
    order = np.argsort(-x, axis=1)[:, :2]
    for when in ("early", "late", 0):
        found = interpret(stages.tile_program, {"X": x}, order=when)
        assert np.array_equal(found["indices"], order)
        assert np.array_equal(found["values"], np.take_along_axis(x, order, 1))
