"""Producers copy, consumers compute: the result stays, and what cannot be split is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from septran.ir import expressions as ex
from septran.tile.interpret.execution import ADVERSARIES
from septran.tile.interpret.interpreter import interpret
from septran.tile.nodes import Acquire, Commit, Compute, Copy, For, Release, Role, Wait, nodes
from septran.tile.passes.layout.plan_memory import plan_memory
from septran.tile.passes.schedule.assign_roles import assign_roles
from septran.tile.passes.schedule.insert_sync import insert_sync
from septran.tile.passes.schedule.pipeline_loops import pipeline_loops
from septran.tile.printer import to_text
from septran.tile.verify.verifier import verify


def placed(program):
    return plan_memory(insert_sync(assign_roles(pipeline_loops(program))))


def roles(program):
    return {n.name: n for n in nodes(program.body) if isinstance(n, Role)}


def kinds(role):
    return {type(n) for n in nodes(role.body)} - {For}


@pytest.mark.parametrize("consumers", [1, 2, 4])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.one_in(4)
def test_roles_give_the_product(gemm, operands, stages, consumers):
    program = placed(gemm(pipeline=stages, specialize=True, consumers=consumers))
    verify(program)
    assert len(roles(program)) == 1 + consumers
    a, b = operands(20, 12, 40)
    for order in [*ADVERSARIES, 0, 1]:
        assert np.array_equal(interpret(program, [a, b], order=order)["C"], a @ b), order


def test_the_producer_only_copies_and_the_consumer_never_loads(gemm):
    found = roles(placed(gemm(pipeline=2, specialize=True)))
    assert kinds(found["producer"]) == {Acquire, Copy, Commit}
    assert {Wait, Compute, Release} <= kinds(found["consumer"])
    loads = [n for n in nodes(found["consumer"].body) if isinstance(n, Copy)]
    assert [n.target.buffer for n in loads] == ["C"]


def test_the_text_of_two_consumers(gemm, golden):
    program = placed(gemm(m=16, n=16, k=32, pipeline=2, specialize=True, consumers=2))
    golden.check(to_text(program), "gemm by a producer and two consumers")


def test_rows_that_do_not_divide_leave_one_consumer(gemm):
    program = gemm(pipeline=2, specialize=True, consumers=3)
    result = assign_roles(pipeline_loops(program))
    assert set(roles(result)) == {"producer", "consumer"}
    assert [(r.kind, r.message) for r in result.remarks] == [
        (
            "missed",
            "`consumers: 3` is not applied: the 8 rows of Cs are not a multiple of it",
        )
    ]


def test_an_instruction_of_many_rows_is_not_cut(gemm):
    program = gemm(pipeline=2, specialize=True, consumers=2)
    wide = tuple(
        replace(i, multiple_of=(8, 8, 8)) if i.primitive == "gemm" else i
        for i in program.machine.instructions
    )
    program = replace(program, machine=replace(program.machine, instructions=wide))
    (remark,) = assign_roles(pipeline_loops(program)).remarks
    assert "mma takes multiples of 8 rows, and each would have 4 of Cs" in remark.message


def test_a_level_without_units_inside_takes_no_roles(gemm, operands):
    program = gemm(pipeline=2, specialize=True)
    flat = tuple(p for p in program.machine.processors if p.name != "LANE")
    memories = tuple(replace(m, visible_to="CORE") if m.name == "ACC" else m
                     for m in program.machine.memories)  # fmt: skip
    machine = replace(program.machine, processors=flat, memories=memories)
    result = placed(replace(program, machine=machine))
    assert not roles(result)
    assert [r.message for r in result.remarks] == [
        "`warpspecialize` has no effect: no units of toy could take roles there"
    ]
    a, b = operands(20, 12, 40)
    assert np.array_equal(interpret(result, [a, b], order="late")["C"], a @ b)


def test_rows_are_followed_through_reductions_and_broadcasts(build, part):
    """Y = X / (sum of each row of X), X a product: every row belongs to one consumer."""
    b, n = build, 8
    y, a, w = (
        b.buffer("Y", "DRAM", (n, n)),
        b.buffer("A", "DRAM", (n, 32)),
        b.buffer("W", "DRAM", (32, n)),
    )
    at, wt, x = (
        b.buffer("At", "SPM", (n, n)),
        b.buffer("Wt", "SPM", (n, n)),
        b.buffer("X", "ACC", (n, n)),
    )
    s, out = b.buffer("s", "ACC", (n,)), b.buffer("out", "ACC", (n, n))
    k = b.loop("k", 4).variable

    def assign(target, value):
        views = [v for v in ex.loads(value)]
        node = b.fill(part(target))
        return replace(node, primitive="map", attributes=(), expression=value,
                       operands=(part(target), *views))  # fmt: skip

    whole = ex.Load(part(x), "float32")
    total = ex.Load(part(s), "float32")
    from septran.ir.index import Index

    at_k = Index.of(k) * n
    step = b.loop(
        "k", 4, b.copy(part(at), part(a, (0, at_k), (n, n)), "DMA_IN"),
        b.copy(part(wt), part(w, (at_k, 0), (n, n)), "DMA_IN"), b.gemm(part(x), part(at), part(wt)),
        pipeline=2, specialize=True, consumers=2,
    )  # fmt: skip
    body = [
        b.fill(part(x)), step, assign(s, ex.reduce("sum", whole, 1)),
        assign(out, ex.binary("divide", whole, ex.expand(total, (1,)))), b.copy(part(y), part(out)),
    ]  # fmt: skip
    program = b.program("YAW", "Y", b.loop("c", 1, *body, kind="parallel", over="CORE"))
    result = placed(program)
    verify(result)
    assert set(roles(result)) == {"producer", "consumer 1", "consumer 2"}
    rng = np.random.default_rng(0)
    data = [rng.integers(1, 5, shape).astype(np.float32) for shape in ((n, 32), (32, n))]
    wanted = interpret(program, data)["Y"]
    for order in ("early", "late", 0):
        np.testing.assert_array_equal(interpret(result, data, order=order)["Y"], wanted)
