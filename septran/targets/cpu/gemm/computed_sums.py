"""``gemm`` whose B is computed, as sums of multiplied elements.

For few rows each vector of B is computed in the register tile. Where there are more rows than a
register tile has, a panel of columns, as wide as a cache line of what B is made from, is computed
where the nearest cache holds it, and multiplied by all rows: so each vector of B is computed once
in any case.
"""

from __future__ import annotations

from collections.abc import Callable
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
    else:
        tiles(context, c, shape, work.tile)


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
        context, writer = self.context, self.context.writer
        rows = accumulators(writer, shape, tile.rows)
        prefetch(context, self.b.finish.target if self.b.finish else self.c, shape, tile)
        start = (tile.row, Index())
        column_of_a = stream(context, self.a, start, 1, range(tile.rows), KLoopNest())
        add = partial(wrapping.multiply_add, writer)

        def scalars(step: Index) -> Callable[[int], Expr]:
            return lambda i: column_of_a(step, i, 1, shape.dtype, None)

        # Registers keep from part to part what vectors are made from, or, where a vector after
        # another is made for all parts, the elements of A that all are multiplied by.
        held = tile.rows * len(self.b.parts)
        at_once = [shape.chunks] if held >= len(shape.chunks) else [(n,) for n in shape.chunks]
        with context.loop("k", self.b.count) as k:
            self.b.prefetch(k, tile.column, shape.columns)
            steps = [context.variable("k", k + part.first) for part in self.b.parts]
            for chunks in at_once:
                for part, step in zip(self.b.parts, steps, strict=True):
                    made = self.b.at(part, k, shape, tile, chunks)
                    vectors = {
                        n: writer.bind("b", cast(v, shape.dtype))
                        for n, v in zip(chunks, made, strict=True)
                    }
                    add_products(writer, shape, rows, vectors, scalars(step), add)
        self.b.put(self.c, self.first, shape, tile, rows)


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
