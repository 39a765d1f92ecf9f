"""``gemm`` whose operands both lie along the summed axis: products of whole vectors of it.

Each sum has a register of its own, and as many sums as a register has lanes are transposed and
added up at the end. Some rows at a time share what is loaded of B, and widened, with fewer of its
columns. Nothing is packed or gathered, which is worth it for few rows: the scores of one query, or
one token times weights that are stored by their outputs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from tvm import tirx

from septran.ir.index import Index, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.copy.transpose import transposed
from septran.targets.cpu.gemm.k_loop import panels, strips
from septran.targets.cpu.gemm.results import RegisterTile, Shape, update
from septran.targets.cpu.map.elements import read
from septran.targets.lower.values import cast
from septran.targets.lower.writer import Expr

if TYPE_CHECKING:
    from septran.targets.cpu.gemm.microkernel import Operands

MOST_ROWS = 4
"""Rows of A at a time: a load of B for four products, and one of A for as many of AVX-512's."""


def lie_along(a: Access, b: Access) -> bool:
    """Whether vectors of both can be had along the summed axis, and of B not across it."""
    whole = not any(a.leaving) and not any(b.leaving)
    return whole and b.run(1) <= 1 and b.stride(0) == 1 and a.stride(1) == 1


def emit_dots(context: Context, operands: Operands) -> None:
    """``C += A @ B`` by some rows of A and as many columns of B as a register has lanes."""
    lanes = context.unit.lanes(operands.sums)
    shape = Shape(min(MOST_ROWS, lanes), lanes, lanes, operands.sums, registers=1)
    high, wide = (context.variable("extent", v) for v in operands.c.region.valid)

    def panel(column: Index, columns: Index | None) -> None:
        def strip(row: Index, rows: int) -> None:
            _rows(context, operands, shape, RegisterTile(row, rows, column, columns))

        strips(context, high, shape, strip)

    panels(context, wide, lanes, panel)


def _rows(context: Context, operands: Operands, shape: Shape, tile: RegisterTile) -> None:
    """The sums of some rows of A with a panel of B's columns, a few columns after another."""
    writer, lanes = context.writer, shape.lanes
    parts = 1 << (tile.rows - 1).bit_length()
    each = lanes // parts
    found = [_sums(context, operands, shape, tile, first) for first in range(0, lanes, each)]
    for row in range(tile.rows):
        total = writer.allocate("total", lanes, shape.dtype)
        order = [n * lanes + row * each + c for n in range(parts) for c in range(each)]
        value = found[0] if parts == 1 else tirx.Shuffle(found, order)
        simd.store(writer, total, writer.index(0), value, lanes)
        one = replace(tile, row=tile.row + row, rows=1)
        update(context, operands.c, operands.first, replace(shape, rows=1), one, [total])


def _sums(
    context: Context, operands: Operands, shape: Shape, tile: RegisterTile, first: int
) -> Expr:
    """Those of all of the tile's rows with some columns from `first` on, row after row."""
    writer, lanes = context.writer, shape.lanes
    each = lanes >> (tile.rows - 1).bit_length()
    sums = [
        [writer.allocate("acc", lanes, shape.dtype) for _ in range(each)] for _ in range(tile.rows)
    ]
    for one in chain(*sums):
        simd.store(writer, one, writer.index(0), simd.constant(0, shape.dtype, lanes), lanes)
    whole = context.variable("whole", operands.steps // lanes)
    with context.loop("k", whole) as k:
        _step(context, operands, tile, sums, first, k * lanes, None)
    if not context.divides(lanes, operands.steps):
        left = context.lower(operands.steps - whole * lanes)
        with writer.when(left > 0):
            _step(context, operands, tile, sums, first, whole * lanes, left)
    vectors = [writer.bind("s", simd.load(one, writer.index(0), lanes)) for one in chain(*sums)]
    # Of three rows the last quarter is nobody's.
    vectors += vectors[:1] * (lanes - len(vectors))
    return writer.bind("sums", reduce(lambda x, y: x + y, transposed(writer, vectors)))


def _step(
    context: Context,
    operands: Operands,
    tile: RegisterTile,
    sums: list[list[Any]],
    first: int,
    k: Index,
    left: Expr | None,
) -> None:
    """A vector of each row times one of each column; only the first `left` elements, if given."""
    writer, lanes, dtype = context.writer, context.unit.lanes(operands.sums), operands.sums
    at = context.variable("k", k)
    rows = [
        _vector(context, operands.a, (tile.row + n, at), 1, dtype, lanes, left)
        for n in range(tile.rows)
    ]
    for n in range(len(sums[0])):
        # Of columns that do not exist the last one is summed instead, and not written.
        column = Index.of(first + n)
        column = column if tile.columns is None else minimum(column, tile.columns - 1)
        spot = (at, tile.column + column)
        b = _vector(context, operands.b, spot, 0, dtype, lanes, left)
        for a, row in zip(rows, sums, strict=True):
            old = simd.load(row[n], writer.index(0), lanes)
            simd.store(writer, row[n], writer.index(0), simd.fma(a, b, old), lanes)


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
