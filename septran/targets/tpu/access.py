"""Regions as indices of Pallas references: what is a slice, and what is gone through in a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from septran.ir.bounds import Range
from septran.ir.index import Index, Var, axis, minimum
from septran.targets.lower.python_indices import PythonIndices
from septran.tile.nodes import Buffer, Region, TileProgram

Reach = tuple[tuple[int, int], ...]
"""For each axis of a buffer, the elements before it and behind it that a tile has."""


@dataclass(frozen=True)
class TilePart:
    """What is taken along one axis of a buffer: one place, or a slice along an axis of the view."""

    start: Index
    axis: int | None = None
    step: int = 1


def own_axes(region: Region, entry: Index) -> tuple[int, ...]:
    """The axes of a view that a coordinate depends on."""
    found = entry.variables()
    return tuple(n for n in range(region.rank) if axis(n) in found)


def looped(region: Region, *, strided: bool) -> frozenset[int]:
    """The axes of a view that are no slice of an axis of the buffer.

    `strided` says whether a slice may leave out elements.
    """
    found: set[int] = set()
    places: list[int] = []
    for entry in region.index:
        own = own_axes(region, entry)
        fits = [n for n in own if _slides(entry, n, strided)]
        kept = max(fits, key=lambda n: region.shape[n], default=None)
        found |= set(own) - {kept}
        places += own
    return frozenset(found | {n for n in places if places.count(n) > 1})


def _slides(entry: Index, number: int, strided: bool) -> bool:
    factor = entry.coefficient(axis(number))
    alone = axis(number) not in entry.without(axis(number)).variables()
    return alone and (factor == 1 or (strided and factor > 1))


def parts(region: Region, fixed: Mapping[int, Index]) -> tuple[TilePart, ...]:
    """What is taken along each axis of the buffer, with some axes of the view at one place."""
    values = {axis(n): at for n, at in fixed.items()}
    found = []
    for entry in region.index:
        at = entry.substitute(values)
        own = own_axes(region, at)
        if not own:
            found.append(TilePart(at))
            continue
        (number,) = own
        variable = axis(number)
        found.append(TilePart(at.without(variable), number, at.coefficient(variable)))
    return tuple(found)


def axis_ranges(region: Region) -> dict[Var, Range]:
    """The ranges of a view's own axes."""
    return {axis(n): (0, max(0, e - 1)) for n, e in enumerate(region.shape)}


def reaches_end(region: Region, number: int, buffer: Buffer, indices: PythonIndices) -> bool:
    """Whether nothing of the buffer follows what exists of a view along an axis.

    So the elements that the view does not have are none of the buffer's.
    """
    extent = region.shape[number]
    for place, entry in enumerate(region.index):
        if axis(number) in entry.variables():
            if entry.coefficient(axis(number)) != 1:
                return False
            start = entry.without(axis(number))
            if own_axes(region, start):
                return False
            whole = buffer.shape[place]
            if start == Index() and extent >= whole:
                return True
            left = indices.simple(minimum(extent, Index.of(whole) - start))
            return left == indices.simple(region.valid[number])
    return False


def reach(
    program: TileProgram,
    indices: PythonIndices,
    region: Region,
    sizes: Sequence[int],
    loops: Sequence[int] = (),
) -> Reach:
    """How far tiles of fixed sizes reach before and behind each axis of a buffer.

    Along axes that are gone through nothing is reached that does not exist.
    """
    buffer, ranges = program.buffer(region.buffer), axis_ranges(region)
    for n, size in enumerate(sizes):
        ranges[axis(n)] = (0, max(0, size - 1))
    found = []
    for entry, extent in zip(region.index, buffer.shape, strict=True):
        least, most = indices.bounds(entry, ranges)
        whole = [n for n in own_axes(region, entry) if n not in loops]
        loose = region.padded or bool(whole)
        found.append((max(0, -least), max(0, most + 1 - extent)) if loose else (0, 0))
    return tuple(found)


def sizes_of(shape: Sequence[int], valid: Sequence[Index]) -> tuple[int, ...]:
    """The extents in which values are computed: what exists where that is known, else a tile."""
    return tuple(
        v.constant if v.is_constant else extent for extent, v in zip(shape, valid, strict=True)
    )
