"""Copies between memories: packing into panels or padded rows, a vector at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from septran.dtypes import itemsize
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.elements import read, write
from septran.targets.cpu.fill import fill
from septran.task.index import Index
from septran.tile.nodes import Copy

PARALLEL_ELEMENTS = 1 << 15
"""A copy of at least that many elements outside of a parallel loop is spread over the cores."""


def emit_copy(context: Context, node: Copy) -> None:
    """``target = source`` for the extents that exist, converted to the target's type."""
    target, source = context.access(node.target), context.access(node.source)
    if node.zero_fill and source.region.ragged:
        fill(context, target, 0)
    move(context, target, source)


def move(context: Context, target: Access, source: Access) -> None:
    """Copy all elements that exist in `source`."""
    if source.region.rank == 0:
        write(context, target, (), read(context, source, ()))
        return
    along = _vector_axis(target, source)
    run = target.run(along)
    panels = 1 < run < target.region.shape[along] or target.storage.layout.kind == "panels"
    work = _Move(context, target, source, along, _lanes(context, target, source))
    if panels and run > 1:
        work.panels(run, outermost=source.stride(along) != 1)
    else:
        work.rows()


def _vector_axis(target: Access, source: Access) -> int:
    """Where both sides are contiguous, else where the target is, else where the source is."""
    axes = range(target.region.rank - 1, -1, -1)
    written = [n for n in axes if target.run(n) > 1]
    both = [n for n in written if source.stride(n) == 1]
    read_only = [n for n in axes if source.stride(n) == 1]
    return [*both, *written, *read_only, axes[0]][0]


def _lanes(context: Context, target: Access, source: Access) -> int:
    widest = max(itemsize(target.storage.held), itemsize(source.storage.held))
    return 2 * context.unit.bytes // widest


@dataclass
class _Move:
    """A copy with its vector axis."""

    context: Context
    target: Access
    source: Access
    along: int
    lanes: int

    @property
    def _others(self) -> list[int]:
        return [n for n in range(self.source.region.rank) if n != self.along]

    @property
    def _parallel(self) -> bool:
        big = math.prod(self.source.region.shape) >= PARALLEL_ELEMENTS
        return big and not self.context.parallel

    def rows(self) -> None:
        """Vectors along contiguous rows."""
        self._nest(self._others, {}, self._row, self._parallel)

    def _row(self, at: dict[int, Index]) -> None:
        context, extent = self.context, self.source.region.valid[self.along]
        whole = context.variable("vectors", extent // self.lanes)
        with context.loop("v", whole) as v:
            self._vector({**at, self.along: v * self.lanes}, self.lanes, None)
        rest = context.indices.simplify(extent - whole * self.lanes)
        if context.indices.bounds(rest)[1] == 0:
            return
        if itemsize(self.target.storage.held) < 4 or itemsize(self.source.storage.held) < 4:
            with context.loop("v", rest) as v:  # no masks for short elements
                self._vector({**at, self.along: whole * self.lanes + v}, 1, None)
            return
        count = context.variable("rest", rest)
        self._vector({**at, self.along: whole * self.lanes}, self.lanes, count)

    def panels(self, width: int, outermost: bool) -> None:
        """Vectors of a panel's width; the last panel is filled up with zeros."""
        extent = self.source.region.valid[self.along]
        lanes = self.lanes
        while width % lanes:
            lanes //= 2

        def panel(at: dict[int, Index], number: Index, count: Index | None) -> None:
            for start in range(0, width, lanes):
                left = None if count is None else count - start
                self._vector({**at, self.along: number * width + start}, lanes, left)

        def across(at: dict[int, Index]) -> None:
            whole = self.context.variable("panels", extent // width)
            with self.context.loop("panel", whole) as number:
                panel(at, number, None)
            self._last_panel(at, whole, width, panel)

        if not outermost:
            self._nest(self._others, {}, across, self._parallel)
            return
        whole = self.context.variable("panels", extent // width)
        with self.context.loop("panel", whole, self._parallel) as number:
            self._nest(self._others, {}, lambda at: panel(at, number, None), False)
        if self.context.indices.bounds(extent - whole * width)[1] > 0:
            self._nest(self._others, {}, lambda at: self._last_panel(at, whole, width, panel), False)

    def _last_panel(self, at: dict[int, Index], whole: Index, width: int, panel: object) -> None:
        assert callable(panel)
        rest = self.context.indices.simplify(self.source.region.valid[self.along] - whole * width)
        if self.context.indices.bounds(rest)[1] > 0:
            with self.context.writer.when(rest.is_constant or self.context.lower(rest) > 0):
                panel(at, whole, self.context.variable("rest", rest))

    def _vector(self, at: dict[int, Index], lanes: int, count: Index | None) -> None:
        spot = [at[n] for n in range(len(at))]
        left = None if count is None else self.context.lower(count)
        value = read(self.context, self.source, spot, lanes, self.along, left)
        padded = self.target.storage.owned and self.target.storage.layout.kind == "panels"
        write(self.context, self.target, spot, value, self.along, None if padded else left)

    def _nest(self, axes, at, body, parallel):  # noqa: ANN001, ANN202
        if not axes:
            body(at)
            return
        first, *rest = axes
        extent = self.source.region.valid[first]
        with self.context.loop("i", extent, parallel) as i:
            self._nest(rest, {**at, first: i}, body, False)
