"""``gemm`` whose operands both lie along the summed axis: products of whole vectors of it.

Each sum has a register of its own, and as many sums as a register has lanes are transposed and
added up at the end. Nothing is packed or gathered, which is worth it for few rows: the scores of
one query, or one token times weights that are stored by their outputs.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from septran.ir.index import Index, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.copy.transpose import transposed
from septran.targets.cpu.gemm.k_loop import panels
from septran.targets.cpu.gemm.results import RegisterTile, Shape, update
from septran.targets.cpu.map.elements import read
from septran.targets.lower.values import cast
from septran.targets.lower.writer import Expr

if TYPE_CHECKING:
    from septran.targets.cpu.gemm.microkernel import Operands


def lie_along(a: Access, b: Access) -> bool:
    """Whether vectors of both can be had along the summed axis, and of B not across it."""
    whole = not any(a.leaving) and not any(b.leaving)
    return whole and b.run(1) <= 1 and b.stride(0) == 1 and a.stride(1) == 1


def emit_dots(context: Context, operands: Operands) -> None:
    """``C += A @ B`` by rows of A and as many columns of B as a register has lanes."""
    lanes = context.unit.lanes(operands.sums)
    shape = Shape(1, lanes, lanes, operands.sums, registers=1)
    high, wide = (context.variable("extent", v) for v in operands.c.region.valid)

    def panel(column: Index, columns: Index | None) -> None:
        with context.loop("row", high) as row:
            _row(context, operands, shape, RegisterTile(row, 1, column, columns))

    panels(context, wide, lanes, panel)


def _row(context: Context, operands: Operands, shape: Shape, tile: RegisterTile) -> None:
    """The sums of one row of A with a panel of B's columns."""
    writer, lanes = context.writer, shape.lanes
    sums = [writer.allocate("acc", lanes, shape.dtype) for _ in range(lanes)]
    for one in sums:
        simd.store(writer, one, writer.index(0), simd.constant(0, shape.dtype, lanes), lanes)
    whole = context.variable("whole", operands.steps // lanes)
    with context.loop("k", whole) as k:
        _step(context, operands, tile, sums, k * lanes, None)
    if not context.divides(lanes, operands.steps):
        left = context.lower(operands.steps - whole * lanes)
        with writer.when(left > 0):
            _step(context, operands, tile, sums, whole * lanes, left)
    vectors = [writer.bind("s", simd.load(one, writer.index(0), lanes)) for one in sums]
    total = writer.allocate("total", lanes, shape.dtype)
    added = reduce(lambda x, y: x + y, transposed(writer, vectors))
    simd.store(writer, total, writer.index(0), added, lanes)
    update(context, operands.c, operands.first, shape, tile, [total])


def _step(
    context: Context,
    operands: Operands,
    tile: RegisterTile,
    sums: list[Any],
    k: Index,
    left: Expr | None,
) -> None:
    """A vector of A's row times one of each column; only the first `left` elements, if given."""
    writer, lanes = context.writer, len(sums)
    at = context.variable("k", k)
    a = _vector(context, operands.a, (tile.row, at), 1, sums[0].dtype, lanes, left)
    for n, one in enumerate(sums):
        # Of columns that do not exist the last one is summed instead, and not written.
        column = Index.of(n) if tile.columns is None else minimum(n, tile.columns - 1)
        spot = (at, tile.column + column)
        b = _vector(context, operands.b, spot, 0, sums[0].dtype, lanes, left)
        old = simd.load(one, writer.index(0), lanes)
        simd.store(writer, one, writer.index(0), simd.fma(a, b, old), lanes)


def _vector(
    context: Context,
    access: Access,
    spot: tuple[Index, Index],
    along: int,
    dtype: str,
    lanes: int,
    left: Expr | None,
) -> Expr:
    """Elements along the summed axis; zero behind its end, where a buffer holds anything."""
    value = cast(read(context, access, spot, lanes, along, left), dtype)
    if left is not None and access.storage.owned:
        none = simd.constant(0, dtype, lanes)
        value = simd.select(simd.first_lanes(left, lanes), value, none)
    return context.writer.bind("v", value)
