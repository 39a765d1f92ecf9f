"""A gemm's register tile, and how it gets into C: along its rows, or transposed, down columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from septran.dtypes import is_float, itemsize
from septran.ir.index import Index, IndexLike, Var
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.context import Context
from septran.targets.cpu.copy.transpose import transposed
from septran.targets.cpu.map.elements import read, write
from septran.targets.lower.values import broadcast, cast, element_of, lanes_of
from septran.targets.lower.writer import Expr, Writer
from septran.tile.nodes import Compute

FMAS_IN_FLIGHT = 8
"""Independent ones that keep the units busy: two a cycle, each done after four."""


@dataclass(frozen=True)
class Shape:
    """The register tile of one gemm and the type it sums in."""

    rows: int
    columns: int
    lanes: int
    """Lanes of one TensorIR vector; LLVM splits it into registers."""
    dtype: str
    unroll: int = 1
    """Steps of k in one iteration."""
    registers: int = 2
    """Registers that one row takes."""

    @property
    def chunks(self) -> range:
        """First columns of the vectors of one row."""
        return range(0, self.columns, self.lanes)

    def idles(self, rows: int) -> bool:
        """Whether whole strips leave rows whose sums are too few to keep the units busy."""
        return 0 < rows % self.rows * self.registers < FMAS_IN_FLIGHT and rows > self.rows


@dataclass(frozen=True)
class RegisterTile:
    """One register tile: where it starts in C, and how much of it exists."""

    row: Index
    rows: int
    column: Index
    columns: Index | None
    """How many of the tile's columns exist; None when all do."""


def accumulators(
    writer: Writer, shape: Shape, rows: int, start: Callable[[int, int], Expr] | None = None
) -> list[Any]:
    """The sums of a tile, a buffer a row; they begin with `start` of a row and a column, or 0."""
    # One small buffer for each row: LLVM makes registers of those below TVM's limit for the stack.
    found = [writer.allocate("acc", shape.columns, shape.dtype) for _ in range(rows)]
    zero = simd.constant(0, shape.dtype, shape.lanes)
    for number, row in enumerate(found):
        for chunk in shape.chunks:
            value = zero if start is None else start(number, chunk)
            simd.store(writer, row, writer.index(chunk), value, shape.lanes)
    return found


def add_products(
    writer: Writer,
    shape: Shape,
    rows: Sequence[Any],
    vectors: Mapping[int, Expr],
    scalar: Callable[[int], Expr],
    add: Callable[[Expr, Expr, Expr], Expr],
) -> None:
    """Each row's scalar times vectors, by their first columns, added to the row's sums there.

    ``add(a, b, sum)`` is the new sum.
    """
    for number, row in enumerate(rows):
        a = writer.bind("a", broadcast(scalar(number), shape.lanes))
        for chunk, b in vectors.items():
            old = simd.load(row, writer.index(chunk), shape.lanes)
            simd.store(writer, row, writer.index(chunk), add(a, b, old), shape.lanes)


def first_step(context: Context, node: Compute) -> Index | None:
    """A gemm overwrites C where this is 0 and sums into it elsewhere; None: it always sums."""
    name = dict(node.attributes).get("first")
    if name is None:
        return None
    # Without a loop's name there is one step only, which overwrites.
    return context.indices.simplify(Index.of(Var(str(name)))) if name else Index()


def prefetch(context: Context, c: Access, shape: Shape, tile: RegisterTile) -> None:
    """Ask for a whole tile of C now, so that it is in L1 when the k loop ends."""
    if tile.columns is not None:
        return
    high, _ = _line(c)
    for row in range(0, tile.rows, high):
        prefetch_row(context, c, shape, tile, row)


def prefetch_row(
    context: Context, c: Access, shape: Shape, tile: RegisterTile, row: IndexLike
) -> None:
    """Ask for the lines of a tile that begin in that row of it."""
    for column in range(0, shape.columns, _line(c)[1]):
        at = context.lower(c.at((tile.row + row, tile.column + column)))
        simd.prefetch(context.writer, c.storage.flat, at, 3, write=True)


def tile_lines(c: Access, shape: Shape, tile: RegisterTile) -> int:
    """Return how many lines of C a tile is."""
    high, wide = _line(c)
    return -(-tile.rows // high) * -(-shape.columns // wide)


def _line(c: Access) -> tuple[int, int]:
    """The rows and the columns that a line of C holds."""
    size = simd.CACHE_LINE // itemsize(c.storage.held)
    return (size, 1) if column_major(c) else (1, size)


def update(
    context: Context,
    c: Access,
    first: Index | None,
    shape: Shape,
    tile: RegisterTile,
    rows: list[Any],
) -> None:
    """Put the tile into C: over it where `first` is 0, else onto it."""
    if first is None or first == Index():
        _put(context, c, shape, tile, rows, onto=first is None)
        return
    # Before its first step C may hold anything, NaN too, so it is not read there.
    with context.writer.body() as over:
        _put(context, c, shape, tile, rows, onto=False)
    with context.writer.body() as onto:
        _put(context, c, shape, tile, rows, onto=True)
    context.writer.choose(context.lower(first) == 0, over, onto)


def _put(
    context: Context, c: Access, shape: Shape, tile: RegisterTile, rows: list[Any], onto: bool
) -> None:
    if column_major(c) and shape.columns > 1:
        _put_transposed(context, c, shape, tile, rows, onto)
        return
    writer = context.writer
    exact = tile.columns.constant if tile.columns and tile.columns.is_constant else shape.columns
    for i, row in enumerate(rows):
        for chunk in shape.chunks:
            if chunk >= exact:
                continue
            count = left(context, shape, tile, chunk)
            spot = (tile.row + i, tile.column + chunk)
            value = simd.load(row, writer.index(chunk), shape.lanes)
            if onto:
                value = _sum(context, read(context, c, spot, shape.lanes, 1, count), value)
            write(context, c, spot, summed(value, c.storage.dtype), 1, count)


def summed(value: Expr, dtype: str) -> Expr:
    """A sum that is exact in float32, and so one of the integers of `dtype`; others as they are."""
    return value if is_float(dtype) else cast(value, dtype)


def column_major(c: Access) -> bool:
    """Whether C is contiguous down its columns, and not along its rows."""
    return c.stride(1) != 1 and c.stride(0) == 1


def _put_transposed(
    context: Context, c: Access, shape: Shape, tile: RegisterTile, rows: list[Any], onto: bool
) -> None:
    """Blocks of the tile, transposed in registers so that they are written down C's columns."""
    size = context.unit.lanes(shape.dtype)
    for chunk in range(0, shape.columns, size):
        for top in range(0, tile.rows, size):
            count = min(size, tile.rows - top)
            some, at = rows[top : top + count], context.writer.index(chunk)
            block = [simd.load(row, at, size) for row in some]
            block += [simd.constant(0, shape.dtype, size)] * (size - count)
            columns = transposed(context.writer, [context.writer.bind("t", v) for v in block])
            for n, column in enumerate(columns):
                with context.writer.when(_exists(context, tile, chunk + n)):
                    spot = (tile.row + top, tile.column + chunk + n)
                    _put_column(context, c, spot, column, count, onto)


def _exists(context: Context, tile: RegisterTile, column: int) -> Expr | bool:
    if tile.columns is None or context.indices.bounds(tile.columns)[0] > column:
        return True
    if tile.columns.is_constant:
        return False
    return context.lower(tile.columns) > context.writer.index(column)


def _put_column(
    context: Context, c: Access, spot: tuple[Index, Index], column: Expr, count: int, onto: bool
) -> None:
    """The first `count` lanes, in vectors of a power of two: stores under a mask are slow."""
    done, lanes = 0, lanes_of(column)
    while done < count:
        size = 1 << ((count - done).bit_length() - 1)
        part = column
        if size < lanes:
            part = tirx.Shuffle([column], [tirx.const(done + n, "int32") for n in range(size)])
        at = (spot[0] + done, spot[1])
        if onto:
            part = _sum(context, read(context, c, at, size, 0), part)
        write(context, c, at, summed(part, c.storage.dtype), 0)
        done += size


def left(context: Context, shape: Shape, tile: RegisterTile, chunk: int) -> Expr | None:
    """Return how many lanes of a vector exist; None when all do.

    Only the last register of a row may have columns that do not exist, and none has no others.
    """
    if tile.columns is None:
        return None
    least = shape.columns - shape.columns // shape.registers + 1
    if max(least, context.indices.bounds(tile.columns)[0]) >= chunk + shape.lanes:
        return None
    return context.lower(tile.columns - chunk)


def kept_bits(context: Context, count: Index, lanes: int) -> Expr:
    """The lowest `count` bits of each word, which are the first elements of a group."""
    one = simd.constant(1, "int32")
    return broadcast((one << cast(context.lower(count), "int32")) - one, lanes)


def _sum(context: Context, old: Expr, value: Expr) -> Expr:
    """`old` plus the tile's sum, in the type of C's arithmetic."""
    dtype = element_of(old)
    total = wrapping.add(context.writer, old, cast(value, dtype))
    return context.writer.bind("c", total)
