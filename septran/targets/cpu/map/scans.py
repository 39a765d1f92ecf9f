"""Scans: along rows in vectors whose lanes are joined in steps of 1, 2, 4, ...; else row by row.

Within a vector each step joins every lane with the one that many lanes before it (Hillis and
Steele, Data Parallel Algorithms, 1986). What came of all vectors before is joined last, so that
a vector waits for the one before it in a single operation.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from tvm import tirx

from septran.ir.index import Index
from septran.ir.scans import neutral
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.map.elements import read, write
from septran.targets.lower.values import broadcast
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Compute


def emit_scan(context: Context, node: Compute) -> None:
    """Do a scan: for each row by itself, or for all columns of a row at a time."""
    attributes = dict(node.attributes)
    target, source = (context.access(region) for region in node.operands)
    work = _Scan(
        context, target, source, int(attributes["axis"]), str(attributes["function"]),
        bool(attributes["reverse"]), bool(attributes["exclusive"]),
    )  # fmt: skip
    work.emit()


@dataclass(frozen=True)
class _Scan:
    context: Context
    target: Access
    source: Access
    axis: int
    function: str
    reverse: bool
    exclusive: bool

    @property
    def dtype(self) -> str:
        """The type of the result, in which elements are joined."""
        return self.target.storage.dtype

    @cached_property
    def lanes(self) -> int:
        """The lanes of a register."""
        return self.context.unit.lanes(self.dtype)

    @property
    def last(self) -> int:
        """The axis that vectors lie along."""
        return self.target.region.rank - 1

    def emit(self) -> None:
        """Loop over all axes but the scanned one and that of the vectors."""
        region = self.target.region
        others = [n for n in range(region.rank) if n not in (self.axis, self.last)]
        spread = self.context.spreads(math.prod(region.shape))
        at = [Index()] * region.rank
        with ExitStack() as loops:
            for number in others:
                loop = self.context.loop("row", region.valid[number], spread)
                at[number], spread = loops.enter_context(loop), False
            if self.axis == self.last:
                self._along(at)
            else:
                self._across(at)

    def _joined(self, old: Expr, new: Expr) -> Expr:
        return self.context.writer.bind("s", self.context.arithmetic.join(self.function, old, new))

    def _read(self, at: list[Index], lanes: int, count: Expr | None) -> Expr:
        value = read(self.context, self.source, at, lanes, self.last, count)
        value = self.context.arithmetic.convert(value, self.dtype)
        return self.context.writer.bind("x", broadcast(value, lanes))

    def _neutral(self, lanes: int) -> Expr:
        return simd.constant(neutral(self.function, self.dtype), self.dtype, lanes)

    # ---- along the vectors' axis ------------------------------------------------------------

    def _along(self, at: list[Index]) -> None:
        """One row: its whole vectors, with what is left of it where the scan comes to it."""
        context, lanes = self.context, self.lanes
        carry = context.writer.allocate("carry", lanes, self.dtype)
        simd.store(context.writer, carry, context.writer.index(0), self._neutral(lanes), lanes)
        extent = context.variable("columns", self.target.region.valid[self.axis])
        whole = context.variable("vectors", extent // lanes)
        rest = context.indices.simplify(extent - whole * lanes)

        def vector(start: Index, count: Expr | None) -> None:
            self._vector([*at[:-1], start], carry, count)

        def edge() -> None:
            if context.indices.bounds(rest)[1] > 0:
                with context.when_any(rest):
                    vector(whole * lanes, context.bound("count", rest))

        if self.reverse:
            edge()
        with context.loop("v", whole) as v:
            vector((whole - 1 - self._opaque(v) if self.reverse else v) * lanes, None)
        if not self.reverse:
            edge()

    def _opaque(self, number: Index) -> Index:
        """The same number, of which LLVM does not know that it counts up.

        LLVM unrolls a short loop, makes one wide vector of what was stored from the end to the
        beginning, and uses the parts before they are there.
        """
        indices = self.context.indices
        low, high = indices.bounds(number)
        if high <= 0:
            return number
        hidden = simd.settled(self.context.lower(number))
        return indices.fresh(self.context.writer.bind("v", hidden), low, high)

    def _vector(self, at: list[Index], carry: Expr, count: Expr | None) -> None:
        writer, lanes = self.context.writer, self.lanes
        value = self._read(at, lanes, count)
        if count is not None and self.reverse:  # lanes behind the end come first
            mask = simd.first_lanes(count, lanes)
            value = writer.bind("x", simd.select(mask, value, self._neutral(lanes)))
        step = 1
        while step < lanes:
            value = self._joined(value, self._moved(value, step))
            step *= 2
        before = writer.bind("c", simd.load(carry, writer.index(0), lanes))
        found = self._moved(value, 1) if self.exclusive else value
        write(self.context, self.target, at, self._joined(before, found), self.last, count)
        end = 0 if self.reverse else lanes - 1
        total = tirx.Shuffle([value], [end] * lanes) if lanes > 1 else value
        simd.store(writer, carry, writer.index(0), self._joined(before, total), lanes)

    def _moved(self, value: Expr, step: int) -> Expr:
        """The lanes `step` places further on; what changes nothing comes in."""
        lanes = self.lanes
        if lanes == 1:
            return self._neutral(1)
        order = [n + step if self.reverse else n - step for n in range(lanes)]
        there = [min(max(n, 0), lanes - 1) for n in order]
        ramp = tirx.Ramp(tirx.const(0, "int32"), 1, lanes)
        mask = ramp < lanes - step if self.reverse else ramp >= step
        moved = tirx.Select(mask, tirx.Shuffle([value], there), self._neutral(lanes))
        return self.context.writer.bind("m", moved)

    # ---- along another axis -----------------------------------------------------------------

    def _across(self, at: list[Index]) -> None:
        """Each row from the one before it, a vector at a time."""
        context, lanes = self.context, self.lanes
        region = self.target.region
        extent = context.variable("columns", region.valid[self.last])
        whole = context.variable("vectors", extent // lanes)
        with context.loop("v", whole) as v:
            self._columns(at, v * lanes, lanes, None)
        rest = context.indices.simplify(extent - whole * lanes)
        if context.indices.bounds(rest)[1] > 0:
            with context.when_any(rest):
                self._columns(at, whole * lanes, lanes, context.bound("count", rest))

    def _columns(self, at: list[Index], start: Index, lanes: int, count: Expr | None) -> None:
        """The whole of some columns, their total in a register."""
        context, writer = self.context, self.context.writer
        total = writer.allocate("total", lanes, self.dtype)
        zero = writer.index(0)
        simd.store(writer, total, zero, self._neutral(lanes), lanes)
        length = context.variable("rows", self.target.region.valid[self.axis])
        with context.loop("r", length) as r:
            spot = [*at[:-1], start]
            spot[self.axis] = length - 1 - r if self.reverse else r
            before = writer.bind("t", simd.load(total, zero, lanes))
            now = self._joined(before, self._read(spot, lanes, count))
            simd.store(writer, total, zero, now, lanes)
            found = before if self.exclusive else now
            write(context, self.target, spot, found, self.last, count)
