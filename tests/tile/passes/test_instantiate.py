"""From a hand-built resolved mapping to a tile program, without tracer or YAML."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from septran.ir.index import Index, Var, ceil_div
from septran.ir.views import View
from septran.location import Location
from septran.machine.model import Engine, Instruction, Machine, Memory, Processor
from septran.mapping.resolved import Instance, ResolvedMapping, Setting, Settings, TensorMemory
from septran.task.tree import Launch, Loop, Param, Primitive, TaskNode, TaskTree
from septran.tile.nodes import Compute, Copy, For, nodes
from septran.tile.passes.copies.eliminate_copies import eliminate_copies
from septran.tile.passes.copies.fuse_fills import fuse_fills
from septran.tile.passes.copies.instantiate import NoRouteError, instantiate
from septran.tile.passes.copies.stream_panels import stream_panels
from septran.tile.passes.layout.infer_layouts import infer_layouts

HERE = Location(__file__, 1)
M, N, K = 100, 64, 96


def param(name, view, *, reads=True, writes=False):
    return Param(name, view.shape, view.valid, "float32", reads, writes, HERE)


def leaf(path, name, primitive, views, **flags):
    """A leaf that calls one primitive on whole parameters named X0, X1, ..."""
    params = tuple(
        param(f"X{n}", v, reads=flags.get("accumulates", False) or n > 0, writes=n == 0)
        for n, v in enumerate(views)
    )
    operands = tuple(View.whole(p.name, p.shape, p.valid) for p in params)
    attributes = flags.get("attributes", ())
    body = (Primitive(primitive, operands, attributes, HERE),)
    return TaskNode(name, name, path, True, params, body, (), False, 2, HERE)


def launch(node, *views):
    return Launch(node, views, HERE)


def blocked_gemm(block=32, step=32):
    """C = A @ B: rows of `block` in parallel, K in steps, zeroed first."""
    i, k = Var("i"), Var("k")
    c, a, b = (View.whole(n, s) for n, s in (("C", (M, N)), ("A", (M, K)), ("B", (K, N))))
    rows = c.block((Index.of(i) * block, 0), (block, N))
    panel = a.block((Index.of(i) * block, 0), (block, K))
    own = [View.whole(n, v.shape, v.valid) for n, v in (("C", rows), ("A", panel), ("B", b))]
    a_step = own[1].block((0, Index.of(k) * step), (block, step))
    b_step = own[2].block((Index.of(k) * step, 0), (step, N))
    zero = leaf("gemm/block/fill", "fill", "fill", [own[0]], attributes=(("value", 0),))
    mma = leaf("gemm/block/tile", "tile", "gemm", [own[0], a_step, b_step], accumulates=True)
    walk = Loop((k,), (ceil_div(K, step),), False, (launch(mma, own[0], a_step, b_step),), HERE)
    params = (
        param("C", rows, reads=False, writes=True), param("A", panel), param("B", b),
    )  # fmt: skip
    inner = TaskNode(
        "block", "block", "gemm/block", False, params,
        (launch(zero, own[0]), walk), (), True, 1, HERE,
    )  # fmt: skip
    outer = Loop((i,), (ceil_div(M, block),), True, (launch(inner, rows, panel, b),), HERE)
    entry = (param("C", c, reads=False, writes=True), param("A", a), param("B", b))
    return TaskTree(TaskNode("gemm", "gemm", "gemm", False, entry, (outer,), (), False, 0, HERE))


def machine(capacity=1 << 20):
    edges = (("DRAM", "FAST"), ("FAST", "DRAM"))
    contract = Instruction("mac", "gemm", layouts=MappingProxyType({"B": "panels(1, 16)"}))
    return Machine(
        "toy", "cpu",
        processors=(Processor("HOST"), Processor("CORE", 2, "HOST")),
        memories=(Memory("DRAM", "HOST"), Memory("FAST", "CORE", capacity)),
        engines=(Engine("dma", edges),),
        instructions=(contract, Instruction("alu", "map")),
    )  # fmt: skip


def resolved(tree, mems, *, on=None, level="gemm/block"):
    on = on or machine()
    instances = []
    for task in tree.tasks():
        mine = mems if task.path == level else {}
        mapped = {
            p.name: TensorMemory(mine.get(p.name, "NONE"), "test", HERE, memory="DRAM")
            for p in task.params
        }
        settings = Settings({"proc": Setting("HOST" if task.level == 0 else "CORE")})
        instances.append(Instance(task.path, task.name, task.name, task.variant, mapped, settings))
    return ResolvedMapping(tree, on, tuple(instances))


def copies(program):
    return [n for n in nodes(program.body) if isinstance(n, Copy)]


def test_tensors_in_another_memory_are_copied_with_the_reason():
    program = instantiate(resolved(blocked_gemm(), {"A": "FAST", "C": "FAST"}))
    moved = {(c.source.buffer, c.target.buffer) for c in copies(program)}
    assert moved == {("A", "A_FAST"), ("C_FAST", "C")}
    why = "A is DRAM in gemm and FAST in block, so it is copied in"
    assert why in {c.origin.rule for c in copies(program)}


def test_what_is_only_written_is_not_copied_in():
    program = instantiate(resolved(blocked_gemm(), {"C": "FAST"}))
    assert [(c.source.buffer, c.target.buffer) for c in copies(program)] == [("C_FAST", "C")]


def test_a_parallel_loop_is_spread_over_the_launched_level():
    loop = instantiate(resolved(blocked_gemm(), {})).body[0]
    assert isinstance(loop, For)
    assert (loop.kind, loop.processor) == ("parallel", "CORE")


def test_ragged_tiles_keep_their_extents():
    program = instantiate(resolved(blocked_gemm(), {"A": "FAST"}))
    (copy,) = copies(program)
    assert copy.target.shape == (32, K)
    assert copy.source.valid[0].evaluate({Var("i"): 3}) == M - 96


def test_a_missing_engine_is_an_error_that_lists_the_edges():
    on = replace(machine(), engines=())
    with pytest.raises(NoRouteError, match="no engine of toy moves A between DRAM and FAST"):
        instantiate(resolved(blocked_gemm(), {"A": "FAST"}, on=on))


def test_a_copy_that_does_not_change_is_hoisted_and_recorded():
    program = instantiate(resolved(blocked_gemm(), {"X0": "FAST"}, level="gemm/block/tile"))
    inside = eliminate_copies(program)
    loop = next(n for n in nodes(inside.body) if isinstance(n, For) and n.variable == Var("k"))
    assert not any(isinstance(n, Copy) for n in loop.body)
    assert len(copies(inside)) == 2
    assert {(r.by, r.trips) for r in inside.removed} == {("eliminate_copies", 4 * 3 - 4)}


def test_zeroing_is_fused_into_the_first_step():
    program = fuse_fills(instantiate(resolved(blocked_gemm(), {})))
    (gemm,) = [n for n in nodes(program.body) if isinstance(n, Compute)]
    assert dict(gemm.attributes) == {"first": "k"}


def test_zeroing_stays_where_the_sum_may_be_empty():
    tree = blocked_gemm()
    program = instantiate(resolved(tree, {}))
    loop = next(n for n in nodes(program.body) if isinstance(n, For) and n.variable == Var("k"))
    empty = replace(loop, extent=Index.of(Var("i")))
    outer = program.body[0]
    assert isinstance(outer, For)
    body = (replace(outer, body=tuple(empty if n is loop else n for n in outer.body)),)
    kept = fuse_fills(replace(program, body=body))
    assert [n.primitive for n in nodes(kept.body) if isinstance(n, Compute)] == ["fill", "gemm"]


def test_staged_operands_take_the_layout_that_the_instruction_reads():
    level = "gemm/block/tile"
    program = infer_layouts(instantiate(resolved(blocked_gemm(), {"X2": "FAST"}, level=level)))
    assert str(program.buffer("X2_FAST").layout) == "panels(1, 16)"
    assert str(program.buffer("C").layout) == "row"


def test_panels_that_do_not_fit_are_streamed_along_the_summed_axis():
    tree = blocked_gemm(block=32, step=K)
    mems = {"X1": "FAST", "X2": "FAST"}
    on = machine(capacity=(32 + N) * 32 * 4)
    program = instantiate(resolved(tree, mems, on=on, level="gemm/block/tile"))
    streamed = stream_panels(program)
    assert {b.shape for b in streamed.buffers if b.memory == "FAST"} == {(32, 32), (32, N)}
    assert any("in steps of 32" in r.message for r in streamed.remarks)
