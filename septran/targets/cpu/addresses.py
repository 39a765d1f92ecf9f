"""The addresses of a region's elements, and how many of them are contiguous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.ir.atoms import FloorDiv, Min
from septran.ir.index import Index, IndexLike, Range, Var, axis, is_axis
from septran.targets.lower.indices import flat_offset, with_axes
from septran.tile.layouts import Layout
from septran.tile.nodes import Region


@dataclass(frozen=True)
class Storage:
    """A buffer as it is held: flat, in TensorIR."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """The logic's element type."""
    layout: Layout
    flat: Any
    """The flat TensorIR buffer."""
    held: str
    """The type of its elements in memory: bfloat16 as uint16, some staged types wider."""
    owned: bool = False
    """Whether it was allocated here, so that a vector may reach past its valid elements."""
    computed: bool = False
    """Whether computations write it, not copies alone."""
    streamed: bool = False
    """Whether it is written past the caches, which it would only flush."""
    exists: tuple[Index, ...] = ()
    """Its extents where some are known only when the kernel is called, as `Buffer.exists`."""


@dataclass(frozen=True)
class Access:
    """A region with the flat offset of its element ``($0, $1, ...)``."""

    storage: Storage
    region: Region
    offset: Index
    leaving: tuple[bool, ...] = ()
    """For each axis of the buffer, whether the region may lie outside of it (and reads zeros)."""

    @staticmethod
    def of(storage: Storage, region: Region, ranges: Mapping[Var, Range]) -> Access:
        """The offsets of `region`, simplified by what is known of the loop indices."""
        flat = flat_offset(region, storage.layout, storage.shape, ranges, storage.exists)
        leaving = tuple(
            region.padded and _leaves(region, entry, extent, ranges)
            for entry, extent in zip(region.index, storage.shape, strict=True)
        )
        return Access(storage, region, flat, leaving)

    def at(self, coordinates: Sequence[IndexLike]) -> Index:
        """The flat offset of one element."""
        return self.offset.substitute({axis(n): c for n, c in enumerate(coordinates)})

    def stride(self, number: int) -> int | None:
        """Elements from one to the next along an axis; None where that is not constant."""
        variable = axis(number)
        rest = self.offset - Index.of(variable) * self.offset.coefficient(variable)
        return None if variable in rest.variables() else self.offset.coefficient(variable)

    def run(self, number: int) -> int:
        """Return how many elements from a multiple of that many on are contiguous along an axis.

        The extent for rows, the panel's width for panels, 1 where they are scattered.
        """
        layout = self.storage.layout
        if layout.kind == "panels" and layout.group <= 1 and self._panel(number) > 0:
            return self._panel(number)
        return self.region.shape[number] if self.stride(number) == 1 else 1

    def _panel(self, number: int) -> int:
        """Return the width of panels along an axis, 0 where it does not go from panel to panel.

        Of a single panel that is wider than the region, too: products read all of its columns, and
        what nobody wrote there may be numbers that processors multiply a hundred times slower.
        """
        # A panel is contiguous along its own axis only, from a multiple of its width on, and only
        # where no other coordinate of the buffer moves along.
        along, width = self.storage.layout.parameters
        start = self.region.index[along] - axis(number)
        mine = self.region.index[along].coefficient(axis(number)) == 1
        free = not any(is_axis(v) for v in start.variables())
        others = (e for n, e in enumerate(self.region.index) if n != along)
        alone = all(axis(number) not in e.variables() for e in others)
        return width if mine and free and alone and start % width == Index() else 0


def _leaves(region: Region, entry: Index, extent: int, ranges: Mapping[Var, Range]) -> bool:
    """Whether a coordinate of the buffer may be below 0 or not below its extent."""
    known = with_axes(region, ranges)
    low, high = entry.simplify(known).bounds(known)
    if low < 0 or high < extent:
        return low < 0
    for number, valid in enumerate(region.valid):  # a ragged end may be all that fits
        if not _rises(entry, axis(number)):
            continue
        for end in _least(valid):
            last = entry.substitute({axis(number): end - 1}).simplify(known)
            if last.bounds(known)[1] < extent:
                return False
    return True


def _rises(index: Index, variable: Var) -> bool:
    """Whether `index` never falls when `variable` rises, and holds it at all."""
    holds = False
    for atom, factor in index.terms:
        if atom == variable or (isinstance(atom, FloorDiv) and _rises(atom.value, variable)):
            holds = True
        elif variable in Index(((atom, 1),)).variables():
            return False
        else:
            continue
        if factor < 0:
            return False
    return holds


def _least(value: Index) -> tuple[Index, ...]:
    """Upper bounds of `value`: the operands where it is a minimum."""
    if len(value.terms) == 1 and isinstance(value.terms[0][0], Min) and value.terms[0][1] == 1:
        return tuple(o + value.constant for o in value.terms[0][0].operands)
    return (value,)
