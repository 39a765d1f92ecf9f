"""``gemm`` whose B is computed, as sums of multiplied elements.

For few rows each vector of B is computed in the register tile. Where there are more rows than a
register tile has, a panel of columns, as wide as a cache line of what B is made from, is computed
where the nearest cache holds it, and multiplied by all rows: so each vector of B is computed once
in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from septran.dtypes import accumulator_dtype, itemsize
from septran.ir.index import Index
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.computed import Rows
from septran.targets.cpu.gemm.k_loop import KLoopNest, panels, stream
from septran.targets.cpu.gemm.microkernel import (
    EXACT_STEPS,
    UNROLLED,
    register_tile,
    tiles,
    tiles_of,
)
from septran.targets.cpu.gemm.results import (
    RegisterTile,
    Shape,
    accumulators,
    add_products,
    first_step,
    prefetch,
)
from septran.targets.lower.values import cast
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Compute


def emit_computed(context: Context, gemm: Compute, rows: Rows) -> None:
    """``C += A @ B`` for the extents that exist, or ``C = A @ B``, with B as `rows` say."""
    _emit(context, gemm, accumulator_dtype(context.dtypes[gemm.operands[0].buffer]), rows)


def emit_computed_sums(context: Context, gemm: Compute, rows: Rows) -> None:
    """The same of short integers, in float32 where its sums of them are exact."""
    limits = [EXACT_STEPS.get(context.dtypes[r.buffer], 0) for r in gemm.operands[1:]]
    if gemm.operands[1].shape[1] <= min(limits):
        _emit(context, gemm, "float32", rows)
    else:
        emit_computed(context, gemm, rows)


def _emit(context: Context, gemm: Compute, sums: str, rows: Rows) -> None:
    c, a = map(context.access, gemm.operands[:2])
    usual = register_tile(context, gemm, sums)
    shape = rows.tiled(usual, gemm)
    work = _Tiles(context, c, a, first_step(context, gemm), rows)
    if gemm.operands[0].shape[0] > shape.rows:
        _Panels(work, usual).emit()
    elif rows.followed and rows.count % STREAMS == 0:
        _Streams(work, shape).emit()
    else:
        tiles(context, c, shape, work.tile)


STREAMS = 8
"""Rows of what B is made from that are read at once, where they are as long as a page of memory.

On a Zen 3, 4096 bytes long and a page apart, 8 at a time come at 10.7 GB/s, 16 at 9.4, 32 at 3.7.
"""


@dataclass(frozen=True)
class _Tiles:
    """Writes register tiles, a step of the summed axis at a time."""

    context: Context
    c: Access
    a: Access
    first: Index | None
    b: Rows

    def tile(self, shape: Shape, tile: RegisterTile) -> None:
        """All steps of one tile, and its sums into C."""
        rows = accumulators(self.context.writer, shape, tile.rows)
        target = self.b.finish.target if self.b.finish else self.c
        prefetch(self.context, target, shape, tile)
        step = self.step(shape, tile, rows)
        with self.context.loop("k", self.b.count) as k:
            self.b.prefetch(k, tile.column, shape.columns)
            step(k)
        self.b.put(self.c, self.first, shape, tile, rows)

    def step(
        self, shape: Shape, tile: RegisterTile, rows: Sequence[Any]
    ) -> Callable[[Index], None]:
        """Return what a step of all parts adds to the sums of a tile."""
        context, writer = self.context, self.context.writer
        start = (tile.row, Index())
        column_of_a = stream(context, self.a, start, 1, range(tile.rows), KLoopNest())
        add = partial(wrapping.multiply_add, writer)
        # Registers keep from part to part what vectors are made from, or, where a vector after
        # another is made for all parts, the elements of A that all are multiplied by.
        held = tile.rows * len(self.b.parts)
        at_once = [shape.chunks] if held >= len(shape.chunks) else [(n,) for n in shape.chunks]

        def scalars(step: Index) -> Callable[[int], Expr]:
            return lambda i: column_of_a(step, i, 1, shape.dtype, None)

        def one(k: Index) -> None:
            steps = [context.variable("k", k + part.first) for part in self.b.parts]
            for chunks in at_once:
                for part, step in zip(self.b.parts, steps, strict=True):
                    made = self.b.at(part, k, shape, tile, chunks)
                    vectors = {
                        n: writer.bind("b", cast(v, shape.dtype))
                        for n, v in zip(chunks, made, strict=True)
                    }
                    add_products(writer, shape, rows, vectors, scalars(step), add)

        return one


@dataclass(frozen=True)
class _Streams:
    """Writes tiles of all rows of C, a few steps of the summed axis after another.

    So what B is made from is read as a few streams, each as long as a row of it, which processors'
    own prefetch follows; sums wait in memory meanwhile.
    """

    work: _Tiles
    shape: Shape

    def emit(self) -> None:
        """All tiles of a few steps after those of the steps before, and their sums into C."""
        work, context, writer = self.work, self.work.context, self.work.context.writer
        high, wide = (context.variable("extent", v) for v in work.c.region.valid)
        rows, columns = work.c.region.shape
        pitch = -(-columns // self.shape.columns) * self.shape.columns
        kept = writer.scratch("sums", rows * pitch, self.shape.dtype)

        def place(tile: RegisterTile, number: int, chunk: int) -> Expr:
            return context.lower((tile.row + number) * pitch + tile.column + chunk)

        def keep(shape: Shape, tile: RegisterTile, sums: Sequence[Any]) -> None:
            for number, row in enumerate(sums):
                for chunk in shape.chunks:
                    value = simd.load(row, writer.index(chunk), shape.lanes)
                    simd.store(writer, kept, place(tile, number, chunk), value, shape.lanes)

        def kept_sums(shape: Shape, tile: RegisterTile) -> list[Any]:
            def start(number: int, chunk: int) -> Expr:
                return simd.load(kept, place(tile, number, chunk), shape.lanes)

            return accumulators(writer, shape, tile.rows, start)

        def clear(shape: Shape, tile: RegisterTile) -> None:
            keep(shape, tile, accumulators(writer, shape, tile.rows))

        def put(shape: Shape, tile: RegisterTile) -> None:
            work.b.put(work.c, work.first, shape, tile, kept_sums(shape, tile))

        tiles_of(context, high, wide, self.shape, clear)
        with context.loop("k", work.b.count // STREAMS) as some:

            def add(shape: Shape, tile: RegisterTile) -> None:
                sums = kept_sums(shape, tile)
                step = work.step(shape, tile, sums)
                with context.loop("k", STREAMS) as k:
                    step(context.variable("k", some * STREAMS + k))
                keep(shape, tile, sums)

            tiles_of(context, high, wide, self.shape, add)
        tiles_of(context, high, wide, self.shape, put)


@dataclass(frozen=True)
class _Panels:
    """Writes the same with B computed a panel at a time."""

    work: _Tiles
    shape: Shape
    """The register tile."""

    @property
    def _width(self) -> int:
        """Columns of a panel: whole lines of what B is made from, and whole register tiles."""
        b, wide = self.work.b, self.shape.columns
        sizes = [itemsize(access.storage.held) for access in b.accesses.values()]
        line = simd.CACHE_LINE // min(sizes, default=1)
        columns = min(max(line, wide), self.work.c.region.shape[1])
        return -(-columns // wide) * wide

    def emit(self) -> None:
        """All tiles, a panel after another."""
        work, context, width = self.work, self.work.context, self._width
        high, wide = (
            context.variable(s, v) for s, v in zip("mn", work.c.region.valid, strict=True)
        )
        steps = work.b.count * len(work.b.parts)
        panel = context.writer.scratch("panel", width * steps, self.shape.dtype)

        def multiply(column: Index, columns: Index | None) -> None:
            if work.b.finish is not None:
                work.b.finish.prefetch(column, width)
            self._compute(panel, column, columns)

            def tile(shape: Shape, tile: RegisterTile) -> None:
                moved = replace(tile, column=column + tile.column)
                self._tile(panel, shape, moved, tile.column)

            extent = Index.of(width) if columns is None else columns
            tiles_of(context, high, extent, self.shape, tile)

        panels(context, wide, width, multiply)

    def _compute(self, panel: Any, column: Index, columns: Index | None) -> None:
        """All steps of a panel's columns, as far as these exist."""
        b, context, width = self.work.b, self.work.context, self._width
        register = context.unit.lanes(self.shape.dtype)
        exist = Index.of(width) if columns is None else columns
        least, most = context.indices.bounds(exist)
        with context.loop("k", b.count) as k:
            b.prefetch(k, column, width)
            for chunk in range(0, min(width, most), register):
                some = None if least >= chunk + register else exist - chunk
                exists = least > chunk or context.lower(exist) > context.writer.index(chunk)
                with context.writer.when(exists):
                    for part in b.parts:
                        made = b.vector(part, k, column + chunk, register, some)
                        at = context.lower(self._place(Index.of(chunk), k + part.first))
                        made = cast(made, self.shape.dtype)
                        simd.store(context.writer, panel, at, made, register)

    def _place(self, column: Index, step: Index) -> Index:
        """Where a step of some columns is: of the columns of a register tile all lie together."""
        wide, steps = self.shape.columns, self.work.b.count * len(self.work.b.parts)
        tile = column // wide
        return tile * wide * steps + step * wide + (column - tile * wide)

    def _tile(self, panel: Any, shape: Shape, tile: RegisterTile, start: Index) -> None:
        """One register tile, whose columns begin at `start` in the panel."""
        work, context, writer = self.work, self.work.context, self.work.context.writer
        rows = accumulators(writer, shape, tile.rows)
        prefetch(context, work.b.finish.target if work.b.finish else work.c, shape, tile)
        above = (tile.row, Index())
        column_of_a = stream(context, work.a, above, 1, range(tile.rows), KLoopNest())
        add = partial(wrapping.multiply_add, writer)
        base = context.variable("at", self._place(start, Index()))

        def step(k: Index) -> None:
            vectors = {}
            for chunk in shape.chunks:
                at = context.lower(base + k * self.shape.columns + chunk)
                vectors[chunk] = writer.bind("b", simd.load(panel, at, shape.lanes))
            scalars = lambda i: column_of_a(k, i, 1, shape.dtype, None)  # noqa: E731
            add_products(writer, shape, rows, vectors, scalars, add)

        steps, unroll = work.b.count * len(work.b.parts), shape.unroll or UNROLLED
        with context.loop("k", steps // unroll) as k:
            for n in range(unroll):
                step(context.variable("k", k * unroll + n))
        for n in range(steps - steps % unroll, steps):
            step(Index.of(n))
        work.b.put(work.c, work.first, shape, tile, rows)
