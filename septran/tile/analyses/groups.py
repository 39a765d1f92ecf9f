"""Groups of elements along a summed axis that lie side by side where nothing has packed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from septran.dtypes import itemsize
from septran.ir.index import Index, Range, Var, axis
from septran.tile.layouts import Layout
from septran.tile.nodes import Region

WORD_BYTES = 4
"""What an instruction takes of a column at once."""


class Stored(Protocol):
    """A buffer, as a program or a target has it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""

    @property
    def dtype(self) -> str:
        """Its element type."""

    @property
    def layout(self) -> Layout:
        """Where its elements are."""


def pitch_in_place(
    b: Region, stored: Stored, panels: Sequence[int], known: Mapping[Var, Range]
) -> int:
    """Elements from one group of a column of B to its next; 0 where B does not lie in groups.

    `panels` are those of the instruction that multiplies: columns that it takes at once, and
    elements of a group. It takes whole groups, column after column, and no other columns.
    """
    if stored.layout.kind != "row" or b.padded or b.rank != 2 or len(panels) != 2:
        return 0
    (steps, columns), (width, size) = b.shape, panels
    if size * itemsize(stored.dtype) != WORD_BYTES:
        return 0
    whole = b.valid == (Index.of(steps), Index.of(columns))
    if not whole or steps % size or columns % width:
        return 0
    group, place = Var("@group"), Var("@place")
    # Of a single group, too, as a second one might lie: `simplify` would put a 0 in its place.
    within = {
        group: (0, max(1, steps // size - 1)),
        place: (0, size - 1),
        axis(1): (0, columns - 1),
    }
    every = {**known, **within}
    at = {axis(0): Index.of(group) * size + place}
    index = [entry.substitute(at).simplify(every) for entry in b.index]
    offset = stored.layout.offset(index, stored.shape).simplify(every)
    strides = {group: offset.coefficient(group), axis(1): size, place: 1}
    rest = offset - sum((Index.of(v) * n for v, n in strides.items()), Index())
    apart = rest.variables().isdisjoint(strides) and offset.coefficient(place) == 1
    return max(0, strides[group]) if apart else 0
