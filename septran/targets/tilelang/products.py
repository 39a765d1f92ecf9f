"""Products of tiles: `T.gemm` where the mapping binds a matrix instruction, else sums in a loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from septran.ir.index import Index, axis
from septran.targets.tilelang.blocks import PLAIN
from septran.targets.tilelang.context import At, TileLangContext, number
from septran.targets.tilelang.unsupported import unsupported
from septran.tile.nodes import Compute, Region


def emit_gemm(context: TileLangContext, node: Compute) -> None:
    """Write ``C += A @ B``."""
    for region in node.operands[1:]:
        if context.in_main(region):
            raise unsupported(
                node.origin, f"T.gemm takes no operand from {context.main}, as {region.buffer} is"
            )
    if node.instruction == PLAIN:
        _sums(context, node)
        return
    c, a, b = node.operands
    for region, along in ((a, 1), (b, 0)):
        _zeros_beyond(context, region, along)
    options = "".join(
        f", transpose_{name}=True"
        for name, region in (("A", a), ("B", b))
        if _transposed(region, node)
    )
    if context.blocks.whole_rows and context.fragments:
        options += ", policy=T.GemmWarpPolicy.FullRow"
    with _in_fragment(context, c) as into:
        texts = [_matrix(context, region, node) for region in (a, b, into)]
        context.writer.line(f"T.gemm({', '.join(texts)}{options})")


@contextmanager
def _in_fragment(context: TileLangContext, region: Region) -> Iterator[Region]:
    """The fragment that T.gemm adds to: a region, or what comes from it and goes back."""
    if context.in_registers(region):
        yield region
        return
    buffer = context.buffer(region.buffer)
    made = context.scratch(f"{buffer.name}_sums", "REGISTER", buffer.shape, buffer.dtype)
    names = context.names[region.buffer], context.names[made.buffer]
    context.writer.line(f"T.copy({names[0]}, {names[1]})")
    yield Region(made.buffer, region.index, region.shape, region.valid)
    context.writer.line(f"T.copy({names[1]}, {names[0]})")


def _zeros_beyond(context: TileLangContext, region: Region, along: int) -> None:
    """Zeros where the terms of the sums do not exist; copies from main memory bring them."""
    limit = context.indices.simple(region.valid[along])
    if limit == Index.of(region.shape[along]) or region.buffer not in context.computed:
        return
    dtype = context.buffer(region.buffer).dtype
    with context.elements(region.shape) as at:
        place = context.element(region, at)
        exists = f"{context.indices.text(at[along])} < {context.indices.text(limit)}"
        zero = number(0, dtype, typed=True)
        context.writer.line(f"{place} = T.if_then_else({exists}, {place}, {zero})")


def _transposed(region: Region, node: Compute) -> bool:
    """Whether a matrix has its rows along the last axis of the buffer; raises where neither."""
    rows, columns = (
        [n for n, entry in enumerate(region.index) if axis(k) in entry.variables()]
        for k in range(2)
    )
    plain = all(
        entry.coefficient(axis(k)) == 1 and not entry.without(axis(k)).variables() & _AXES
        for k, places in ((0, rows), (1, columns))
        for entry in [region.index[n] for n in places]
    )
    last = len(region.index) - 1
    if not plain or len(rows) != 1 or len(columns) != 1 or {*rows, *columns} != {last, last - 1}:
        raise unsupported(node.origin, f"T.gemm takes no such part of {region.buffer}: {region}")
    return rows[0] == last


_AXES = {axis(0), axis(1)}


def _matrix(context: TileLangContext, region: Region, node: Compute) -> str:
    """A buffer, or the part of it that is the matrix."""
    buffer = context.buffer(region.buffer)
    order = (1, 0) if _transposed(region, node) else (0, 1)
    shape = tuple(region.shape[n] for n in order)
    name = context.names[region.buffer]
    if buffer.shape == shape:
        return name
    starts = region.origin()
    lead = [context.indices.text(s) for s in starts[:-2]]
    parts = [
        f"{context.indices.text(s)} : {context.indices.text(s + n)}"
        for s, n in zip(starts[-2:], shape, strict=True)
    ]
    return f"{name}[{', '.join([*lead, *parts])}]"


def _sums(context: TileLangContext, node: Compute) -> None:
    """The product by multiplications and additions of single elements."""
    c = node.operands[0]
    a, b = (_shared(context, region) for region in node.operands[1:])
    dtype = context.buffer(c.buffer).dtype
    depth = a.shape[1]
    inner = context.axes[2]
    with context.elements(c.shape) as (row, column), _within(context, c, (row, column)):
        name, limit = context.indices.names[inner], context.indices.text(a.valid[1])
        context.indices.ranges = {**context.indices.ranges, inner: (0, depth - 1)}
        with context.writer.block(f"for {name} in T.serial({limit}):"):
            k = Index.of(inner)
            factors = [
                _as(context, region, at, dtype) for region, at in ((a, (row, k)), (b, (k, column)))
            ]
            context.writer.line(f"{context.element(c, (row, column))} += {' * '.join(factors)}")


def _within(context: TileLangContext, region: Region, at: At) -> AbstractContextManager[None]:
    """A guard where a region is a part of a buffer, and ends before its extents do."""
    where = [] if context.is_tile(region) else context.exists(region.shape, region.valid, at)
    return context.guarded(where)


def _as(context: TileLangContext, region: Region, at: tuple[Index, ...], dtype: str) -> str:
    text = context.element(region, at)
    return text if context.buffer(region.buffer).dtype == dtype else f'T.Cast("{dtype}", {text})'


def _shared(context: TileLangContext, region: Region) -> Region:
    """A region where every thread reads all of it: of a fragment, a copy in shared memory."""
    if not context.in_registers(region):
        return region
    buffer = context.buffer(region.buffer)
    made = context.scratch(f"{buffer.name}_shared", "SHARED", buffer.shape, buffer.dtype)
    names = context.names[region.buffer], context.names[made.buffer]
    context.writer.line(f"T.copy({names[0]}, {names[1]})")
    return Region(made.buffer, region.index, region.shape, region.valid)


def emit_fill(context: TileLangContext, node: Compute) -> None:
    """Write the same number to all elements."""
    (target,) = node.operands
    buffer = context.buffer(target.buffer)
    value = dict(node.attributes).get("value", 0)
    assert isinstance(value, int | float)
    if not context.in_registers(target) or not context.is_tile(target):
        with context.elements(target.shape) as at:
            text = number(value, buffer.dtype, typed=True)
            with _within(context, target, at):
                context.writer.line(f"{context.element(target, at)} = {text}")
    elif value == 0:
        context.writer.line(f"T.clear({context.names[target.buffer]})")
    else:
        text = number(value, buffer.dtype)
        context.writer.line(f"T.fill({context.names[target.buffer]}, {text})")
