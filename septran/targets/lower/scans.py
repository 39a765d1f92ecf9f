"""Scans as computations on parts of the result, where a target has no code of its own for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from septran.ir import expressions as ex
from septran.ir.index import Index, IndexLike, maximum, minimum
from septran.ir.scans import JOINS, neutral
from septran.tile.nodes import Compute, Region


@dataclass(frozen=True)
class Scan:
    """A scan along an axis, of elements of `dtype`."""

    node: Compute
    dtype: str
    """The type of the result."""

    @property
    def target(self) -> Region:
        """The result."""
        return self.node.operands[0]

    @property
    def axis(self) -> int:
        """The axis that it goes along."""
        return int(self._attribute("axis"))

    @property
    def extent(self) -> Index:
        """How many elements there are along it."""
        return self.target.valid[self.axis]

    def _attribute(self, name: str) -> int | float | str:
        value = dict(self.node.attributes)[name]
        assert value is not None
        return value

    def doubled(self) -> Iterator[Compute]:
        """Yield computations on all elements: each is joined with the one 1, 2, 4, ... before it.

        Source: Hillis and Steele, Data Parallel Algorithms, 1986. The elements are read before
        any is written.
        """
        length = self.target.shape[self.axis]
        if self._attribute("exclusive"):
            yield self._fill(self.target)
            if length > 1:
                later, earlier = self._apart(1)
                yield self._copy(later, self._earlier(self.node.operands[1], 1))
        else:
            yield self._copy(*self.node.operands)
        step = 1
        while step < length:
            later, earlier = self._apart(step)
            yield self._join(later, later, earlier)
            step *= 2

    def first(self) -> Compute:
        """Return what writes the first elements of a scan that goes step by step."""
        place = self._place(Index())
        target = self.target.without(self.axis, place)
        if self._attribute("exclusive"):
            return self._fill(target)
        return self._copy(target, self.node.operands[1].without(self.axis, place))

    def following(self, number: Index) -> Compute:
        """Return what writes the elements number `number`, from 1 on, from those before them."""
        source = self.node.operands[1]
        before = self.target.without(self.axis, self._place(number - 1))
        exclusive = bool(self._attribute("exclusive"))
        added = source.without(self.axis, self._place(number - 1 if exclusive else number))
        return self._join(self.target.without(self.axis, self._place(number)), before, added)

    def _place(self, number: Index) -> Index:
        """Return where the scan's elements number `number` are: a reverse one begins at the end."""
        return self.extent - 1 - number if self._attribute("reverse") else number

    def _apart(self, step: int) -> tuple[Region, Region]:
        """Return the elements that have one `step` before them, and those."""
        return self._later(self.target, step), self._earlier(self.target, step)

    def _later(self, region: Region, step: int) -> Region:
        return self._part(region, 0 if self._attribute("reverse") else step, step)

    def _earlier(self, region: Region, step: int) -> Region:
        return self._part(region, step if self._attribute("reverse") else 0, step)

    def _part(self, region: Region, start: IndexLike, less: int) -> Region:
        """All but `less` elements of a region along the axis, from `start` on."""
        length = region.shape[self.axis] - less
        offsets = tuple(start if n == self.axis else 0 for n in range(region.rank))
        extents = tuple(length if n == self.axis else e for n, e in enumerate(region.shape))
        exists = minimum(length, maximum(0, region.valid[self.axis] - less))
        if region.valid[self.axis].is_constant:
            exists = Index.of(max(0, min(length, region.valid[self.axis].constant - less)))
        valid = tuple(exists if n == self.axis else v for n, v in enumerate(region.valid))
        return replace(region.block(offsets, extents), valid=valid)

    def _map(self, target: Region, value: ex.Expr, *read: Region) -> Compute:
        return replace(
            self.node, primitive="map", operands=(target, *read), attributes=(), expression=value
        )

    def _fill(self, target: Region) -> Compute:
        value = neutral(str(self._attribute("function")), self.dtype)
        fill = (("value", value),)
        return replace(self.node, primitive="fill", operands=(target,), attributes=fill)

    def _copy(self, target: Region, source: Region) -> Compute:
        return self._map(target, ex.Load(source, self.dtype), source)

    def _join(self, target: Region, one: Region, other: Region) -> Compute:
        left, right = (ex.Load(region, self.dtype) for region in (one, other))
        name = JOINS[str(self._attribute("function"))]
        shape, valid = target.shape, target.valid
        value = ex.Binary(name, left, right, shape, valid, self.dtype)
        return self._map(target, value, *dict.fromkeys((one, other)))
