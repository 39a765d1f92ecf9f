"""Check that parallel iterations are independent: none touches what another one writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from septran.errors import TileError
from septran.ir.bounds import greatest, least
from septran.ir.index import Index, Range, Var, axis
from septran.ir.primitives import PRIMITIVES, joined_by
from septran.tile.analyses.indirect import IndexReads
from septran.tile.analyses.loops import iterations, ranges_of, samples, walk
from septran.tile.analyses.scopes import Block
from septran.tile.interpret.channel_state import located
from septran.tile.interpret.storage import PreparedRegion, Store
from septran.tile.nodes import (
    Barrier,
    Compute,
    For,
    Node,
    Region,
    TileProgram,
    nodes,
    reads,
    writes,
)
from septran.tile.verify.collisions import Owned, collide, owned_boxes

_PRIME = "'"
"""The mark of the indices of the other iteration."""


class LoopRaceError(TileError):
    """Two parallel iterations touch the same elements, and one of them writes."""

    code = "SEP432"


@dataclass(frozen=True)
class _Use:
    region: Region
    node: Node
    loops: tuple[For, ...]
    """The loops between the parallel loop and the node."""


def check_races(
    program: TileProgram, top: Block, full: bool, chosen: IndexReads
) -> Iterator[TileError]:
    """Yield conflicts between iterations of each parallel loop, on buffers that they share.

    `chosen` is what nodes read as indices or counts, besides their regions.
    """
    if not any(isinstance(n, For) and n.kind == "parallel" for n in nodes(program.body)):
        return
    private = _private(top)
    for node, outer in walk(program.body):
        if isinstance(node, For) and node.kind == "parallel":
            own = private.get(id(node), frozenset())
            loop = _Loop(program, node, outer, own, full, chosen)
            yield from loop.conflicts()


def _private(block: Block) -> dict[int, frozenset[str]]:
    """Return, for each loop, the buffers that every iteration has anew."""
    found: dict[int, frozenset[str]] = {}
    for step in block.steps:
        for node, inner in zip(step.nodes, step.inner, strict=True):
            if inner is None:
                continue
            deeper = _private(inner)
            found.update(deeper)
            below = [found[id(n)] for s in inner.steps for n in s.nodes if id(n) in deeper]
            found[id(node)] = frozenset(inner.buffers).union(*below)
    return found


@dataclass(frozen=True)
class _Loop:
    program: TileProgram
    loop: For
    outer: tuple[For, ...]
    private: frozenset[str]
    full: bool
    chosen: IndexReads

    def conflicts(self) -> Iterator[TileError]:
        """Yield one error for each write that meets another iteration's use."""
        if greatest(self.loop.extent, ranges_of(self.outer)) <= 1:
            return
        written = list(self._uses(writes))
        touched = list(written)
        if not any(isinstance(n, Barrier) for n in nodes(self.loop.body)):
            # What a barrier orders is no race.
            touched += self._uses(lambda node: (*reads(node), *self.chosen[id(node)]))
        for number, write in enumerate(written):
            for at, other in enumerate(touched):
                # `touched` begins with the writes, so an earlier one has met this one already.
                if other.region.buffer != write.region.buffer or at < number:
                    continue
                if _joins(write) and _joins(write) == _joins(other):
                    continue  # each element at once, in any order
                if not self._apart(write, other) and self._meet(write, other):
                    yield self._error(write, other)
                    break

    def _uses(self, side: Callable[[Node], tuple[Region, ...]]) -> Iterator[_Use]:
        """Yield each region once for each nest of loops."""
        seen: set[tuple[Region, int]] = set()
        for node, loops in walk(self.loop.body):
            for region in side(node):
                place = (region, id(loops[-1]) if loops else 0)
                if region.buffer not in self.private and place not in seen:
                    seen.add(place)
                    yield _Use(region, node, loops)

    def _error(self, write: _Use, other: _Use) -> TileError:
        doing = "write" if other.region in writes(other.node) else "write and read"
        message = (
            f"parallel iterations of {self.loop.variable} {doing} the same elements: {write.region}"
        )
        if other.region != write.region:
            message += f" and {other.region}"
        place = other.node.origin.logic
        notes = [("the other use", place)] if place and other.node is not write.node else []
        return located(LoopRaceError, message, write.node.origin, notes=notes)

    def _apart(self, write: _Use, other: _Use) -> bool:
        """Return whether, along some axis, iterations are further apart than their regions reach.

        With entry ``s*v + rest`` on both sides, elements of iterations v and v' differ by ``s*(v -
        v')`` and the rests' difference: not 0 where that is always less than s.
        """
        inner = {loop.variable for loop in (*write.loops, *other.loops)}
        primed = {v: Var(v.name + _PRIME) for v in inner}
        known = ranges_of((*self.outer, self.loop, *write.loops))
        theirs = ranges_of((*self.outer, self.loop, *other.loops))
        known.update({primed.get(v, v): span for v, span in theirs.items()})
        known.update(_spans(write.region, "a"))
        known.update(_spans(other.region, "b"))
        pairs = zip(write.region.index, other.region.index, strict=True)
        return any(
            self._axis_apart(_named(a, "a"), _named(b, "b").substitute(primed), known)
            for a, b in pairs
        )

    def _axis_apart(self, a: Index, b: Index, known: Mapping[Var, Range]) -> bool:
        variable = self.loop.variable
        step = a.coefficient(variable)
        if step == 0 or step != b.coefficient(variable):
            return False
        rest_a, rest_b = a - Index.of(variable) * step, b - Index.of(variable) * step
        if variable in rest_a.variables() | rest_b.variables():
            return False
        gap = rest_a - rest_b
        return greatest(gap, known) < abs(step) and least(gap, known) > -abs(step)

    def _meet(self, write: _Use, other: _Use) -> bool:
        """Paint the elements that each iteration writes, and look for two owners of one element."""
        most = 1 << 16 if self.full else 1 << 11
        if self._trips(write) > most or self._trips(other) > most:
            return False  # too many to enumerate; the interpreter still runs them
        ends = samples(self.outer, {}, 2 if not self.full else 64)
        return any(self._meet_at(write, other, dict(values)) for values in ends)

    def _trips(self, use: _Use) -> int:
        """Return the greatest number of iterations of this loop and those inside it."""
        known = ranges_of((*self.outer, self.loop, *use.loops))
        spans = (known[loop.variable] for loop in (self.loop, *use.loops))
        return math.prod(high - low + 1 for low, high in spans)

    def _meet_at(self, write: _Use, other: _Use, outer: dict[Var, int]) -> bool:
        theirs = None if self._same(write, other) else other
        found = self._boxes_meet(write, theirs, outer)
        return self._painted(write, theirs, outer) if found is None else found

    def _same(self, write: _Use, other: _Use) -> bool:
        """Return whether the other use is the write itself: each iteration meets all before it."""
        return other.region == write.region and other.loops == write.loops

    def _boxes_meet(self, write: _Use, other: _Use | None, outer: dict[Var, int]) -> bool | None:
        """Whether boxes of two iterations meet; None where regions are no boxes in the buffer."""
        buffer = self.program.buffer(write.region.buffer)
        found: list[list[Owned]] = []
        for use in (write, *([other] if other is not None else [])):
            loops = iterations((self.loop, *use.loops), dict(outer))
            boxes = owned_boxes(use.region, buffer, loops, self.loop.variable)
            if boxes is None:
                return None
            found.append(boxes)
        return collide(found[0], found[1] if other is not None else [])

    def _painted(self, write: _Use, other: _Use | None, outer: dict[Var, int]) -> bool:
        """Return whether iterations meet, element by element."""
        buffer = self.program.buffer(write.region.buffer)
        store = Store.of(replace(buffer, dtype="int32"))
        # An element has the number of the iteration that wrote it, counted from 1. Nobody's have 0,
        # which is also what a padded region reads outside of the buffer.
        store.array()[...] = 0
        painter = PreparedRegion(write.region, None)
        for values in iterations((self.loop, *write.loops), dict(outer)):
            mine = values[self.loop.variable] + 1
            if _foreign(painter, store, values, mine):
                return True
            painter.write(store, values, np.asarray(mine, np.int32))
        if other is None:
            return False
        looker = PreparedRegion(other.region, None)
        return any(
            _foreign(looker, store, values, values[self.loop.variable] + 1)
            for values in iterations((self.loop, *other.loops), dict(outer))
        )


def _joins(use: _Use) -> str:
    """Return by which function a node joins a part to the region at once, whoever else does."""
    node = use.node
    if not isinstance(node, Compute) or node.primitive not in PRIMITIVES:
        return ""
    return joined_by(node.primitive, node.attributes) if use.region == node.operands[0] else ""


def _foreign(access: PreparedRegion, store: Store, values: dict[Var, int], mine: int) -> bool:
    """Return whether a region has an element that another iteration has written."""
    owners = access.read(store, values)
    return bool(((owners != mine) & (owners != 0)).any())


def _named(entry: Index, side: str) -> Index:
    """Return the entry with its axis variables marked as those of one side."""
    marks = {v: Var(f"{v.name}{side}") for v in entry.variables() if v.name.startswith("$")}
    return entry.substitute(marks)


def _spans(region: Region, side: str) -> dict[Var, Range]:
    return {
        Var(f"{axis(n).name}{side}"): (0, max(0, extent - 1))
        for n, extent in enumerate(region.shape)
    }
