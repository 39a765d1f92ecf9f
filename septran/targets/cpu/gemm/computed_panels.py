"""Products by groups of bytes whose B is computed a panel of columns at a time.

A panel, as wide as a cache line of what B is made from, is computed as words of four bytes, a group
of each column, where the nearest cache holds them, and multiplied by all rows of A at once.

``vpmaddubsw`` multiplies unsigned bytes by signed ones and adds up two products in 16 bits, where
they saturate. Of bytes whose value range is short none does, and sums of several groups fit into
16 bits, too: of weights of 4 bits those of eight. What the range is follows from the expression
that computes B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from septran.dtypes import itemsize
from septran.ir.index import Index
from septran.targets.cpu import simd
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.computed import Part, Rows, as_held
from septran.targets.cpu.gemm.computed_dots import ComputedProduct, emit_where_it_fits
from septran.targets.cpu.gemm.dot_instructions import (
    BYTE_PAIRS,
    ONES,
    VPDPBUSD,
    VPMADDUBSW,
    VPMADDWD,
    byte_pairs,
)
from septran.targets.cpu.gemm.group_dots import WORD
from septran.targets.cpu.gemm.joined_rows import (
    GROUP,
    NUMBER,
    JoinedEvaluation,
    joinable,
)
from septran.targets.cpu.gemm.k_loop import panels
from septran.targets.cpu.gemm.microkernel import tiles_of
from septran.targets.cpu.gemm.results import RegisterTile, Shape, prefetch
from septran.targets.cpu.map.value_range import Span, Spans, fits, hull, limits
from septran.targets.cpu.run.isa import features, llvm_arch
from septran.targets.cpu.simd import AVX2, CACHE_LINE
from septran.targets.lower.statements import Point, operand_point
from septran.targets.lower.values import bits, broadcast, vector_type
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Compute

MOST_CHAINED = 8
"""Groups that are written out one after another: their sums of two products are added up by one
instruction for all of them, which more would hardly make less of."""


def emit_computed_pairs(context: Context, gemm: Compute, rows: Rows) -> None:
    """``C += A @ B`` or ``C = A @ B`` by ``vpmaddubsw``, where its sums certainly fit."""
    emit_where_it_fits(_Product, VPMADDUBSW, context, gemm, rows)


def emit_computed_short_dots(context: Context, gemm: Compute, rows: Rows) -> None:
    """The same by AVX-VNNI's ``vpdpbusd``, in vectors of 256 bits on any processor."""
    emit_where_it_fits(_Product, VPDPBUSD, replace(context, unit=AVX2), gemm, rows)


@dataclass
class _Product(ComputedProduct):
    """One gemm whose B is nowhere but a panel at a time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        spans = Spans(self.context.indices.ranges, {})
        held = self.rows.held
        self.span: Span = hull(*(spans.result(p.statement, held) for p in self.rows.parts))
        self.steps = self.rows.count * len(self.rows.parts) // self.dot.size

    @property
    def fits(self) -> bool:
        """Whether no sum of two saturates, either."""
        joins = all(joinable(part.statement.value) for part in self.rows.parts)
        return super().fits and joins and self._chain > 0

    @property
    def _undone(self) -> int:
        """What all of B is less by than the bytes that are multiplied."""
        low, high = self.span
        if self.a.storage.dtype == "int8":  # times unsigned bytes
            return min(0, low)
        return 0 if fits((low, high), "int8") else 128

    @property
    def _chain(self) -> int:
        """Groups whose sums of two products fit into 16 bits when they are added up."""
        if self.dot is not VPMADDUBSW:
            return 1
        most = max(abs(end - self._undone) for end in self.span)
        pair = 2 * most * max(map(abs, limits(self.a.storage.dtype)))
        return min(limits("int16")[1] // max(1, pair), MOST_CHAINED)

    def emit(self) -> None:
        """All tiles, a panel of B after another, after what makes up for signs."""
        context, writer = self.context, self.context.writer
        high, wide = (context.variable("extent", v) for v in self.c.region.valid)
        self.offsets = self._row_sums() if self._undone else None
        width = self._width
        self.panel = writer.scratch("panel", width * self.steps, WORD)

        def panel(column: Index, columns: Index | None) -> None:
            if self.rows.finish is not None:
                self.rows.finish.prefetch(column, width)
            self._compute(column, columns, width)

            def tile(shape: Shape, tile: RegisterTile) -> None:
                self._panel_tile(shape, replace(tile, column=column + tile.column), tile.column)

            extent = Index.of(width) if columns is None else columns
            tiles_of(context, high, extent, self._shape, tile)

        panels(context, wide, width, panel)

    @property
    def _columns_at_once(self) -> int:
        """Columns of which a register of bytes is read."""
        return self.context.unit.bytes

    @property
    def _width(self) -> int:
        """Columns of a panel: whole lines of what B is made from."""
        sizes = [itemsize(access.storage.held) for access in self.rows.accesses.values()]
        line, once = CACHE_LINE // min(sizes, default=1), self._columns_at_once
        columns = min(max(line, once), self.c.region.shape[1])
        return -(-columns // once) * once

    @property
    def _shape(self) -> Shape:
        """A register tile whose sums are half of the registers: others are sums of 16 bits."""
        unit, rows = self.context.unit, self.c.region.shape[0]
        lanes, sums = unit.lanes(WORD), unit.registers // 2
        across = sums
        while across > 2 and (across * rows > sums or across * lanes > self._width):
            across //= 2
        return Shape(sums // across, across * lanes, lanes, WORD, registers=across)

    # ---- a panel of B -------------------------------------------------------------------

    def _compute(self, column: Index, columns: Index | None, width: int) -> None:
        """All groups of a panel's columns, as far as these exist."""
        context, size, once = self.context, self.dot.size, self._columns_at_once
        with context.loop("k", self.rows.count // size) as k:
            for n in range(size):
                self.rows.prefetch(k * size + n, column, width)
            for first in range(0, width, once):
                if columns is None:
                    self._words(k, column, first, None)
                    continue
                least, most = context.indices.bounds(columns)
                some = None if least >= first + once else columns - first
                if most > first:
                    with context.writer.when(least > first or context.lower(columns) > first):
                        self._words(k, column, first, some)

    def _words(self, k: Index, column: Index, first: int, count: Index | None) -> None:
        """Group `k` of each part, for as many columns as are read at once."""
        context, lanes = self.context, self.context.unit.lanes(WORD)
        joined: dict[Any, list[Expr]] = {}
        for part in self.rows.parts:
            for quarter in range(GROUP):
                evaluation = JoinedEvaluation(
                    context,
                    self.rows.accesses,
                    lanes=self._columns_at_once,
                    quarter=quarter,
                    joined=joined,
                )
                row = k * self.dot.size + Index.of(NUMBER)
                point = Point((row, column + first), 1, self._columns_at_once, count)
                word = self._word(evaluation, part, point)
                step = k + part.first // self.dot.size
                at = context.lower(self._place(first + quarter * lanes, step))
                simd.store(context.writer, self.panel, at, word, lanes)

    def _word(self, evaluation: JoinedEvaluation, part: Part, point: Point) -> Expr:
        target, value = part.statement.target, part.statement.value
        made = evaluation.value(value, operand_point(point, value, target.shape))
        made = as_held(self.context, broadcast(made, point.lanes), self.rows.held)
        # Unsigned, as these wrap.
        byte = bits(made, "uint8") - simd.constant(self._undone % 256, "uint8", point.lanes)
        return simd.words(byte)

    def _place(self, column: int | Index, step: Index) -> Index:
        """Where the words of a register of columns are: of one all steps lie side by side."""
        return column * self.steps + step * self.context.unit.lanes(WORD)

    # ---- the products -------------------------------------------------------------------

    def _panel_tile(self, shape: Shape, tile: RegisterTile, start: Index) -> None:
        """One register tile, whose columns begin at `start` in the panel."""
        context, writer, chain = self.context, self.context.writer, self._chain
        sums = self._accumulators(shape, tile)
        prefetch(context, self.rows.finish.target if self.rows.finish else self.c, shape, tile)
        groups = self._groups(tile)
        bases = {n: context.variable("at", self._place(start + n, Index())) for n in shape.chunks}

        def column(step: Index, chunk: int) -> Expr:
            at = context.lower(bases[chunk] + step * shape.lanes)
            return writer.bind("b", simd.load(self.panel, at, shape.lanes))

        add = partial(self._add, shape, sums, column, groups)
        whole, rest = divmod(self.steps, chain)
        with context.loop("k", whole) as k:
            add(k * chain, chain)
        if rest:
            add(Index.of(whole * chain), rest)
        self.rows.put(self.c, self.operands.first, shape, tile, sums)

    def _add(
        self,
        shape: Shape,
        sums: list[Any],
        column: Callable[[Index, int], Expr],
        groups: Callable[[Index, int], Expr],
        first: Index,
        count: int,
    ) -> None:
        """So many groups from `first` on, whose sums of two products fit into 16 bits."""
        if self.dot is not VPMADDUBSW:
            self._multiply(shape, sums, partial(column, first), partial(groups, first))
            return
        writer, chunks = self.context.writer, shape.chunks
        short: dict[tuple[int, int], Expr] = {}
        for n in range(count):
            step = self.context.variable("k", first + n)
            vectors = {chunk: column(step, chunk) for chunk in chunks}
            for number in range(len(sums)):
                a = writer.bind("a", broadcast(groups(step, number), shape.lanes))
                for chunk, b in vectors.items():
                    key, pairs = (number, chunk), self._pairs(a, b)
                    total = pairs if key not in short else short[key] + pairs
                    short[key] = writer.bind("short", total)
        ones = simd.constant(ONES, WORD, shape.lanes)
        for (number, chunk), total in short.items():
            at = writer.index(chunk)
            old = simd.load(sums[number], at, shape.lanes)
            new = VPMADDWD.add(self.context, old, simd.words(total), ones, "int16")
            simd.store(writer, sums[number], at, new, shape.lanes)

    def _pairs(self, a: Expr, b: Expr) -> Expr:
        """Sums of two products of A's bytes and B's, of 16 bits."""
        unsigned, signed = (b, a) if self.a.storage.dtype == "int8" else (a, b)
        lanes = self.context.unit.lanes(WORD)
        have = features(llvm_arch(self.context.machine))
        name = f"{BYTE_PAIRS}_{lanes}"
        self.context.writer.functions[name] = byte_pairs(lanes, have)
        return simd.external(vector_type("int16", 2 * lanes), name, unsigned, signed)
