"""Which bytes each command reads and writes, as arrays: bounds, overlaps, who is first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.targets.dsa.simulator.errors import BoundsError, CommandError
from septran.targets.dsa.simulator.spaces import Spaces
from septran.targets.dsa.simulator.stream import Commands, Stream

Array = np.ndarray[Any, Any]

FIELDS = ("space", "offset", "rows", "stride", "columns", "step", "run")
"""A region: `rows`, `stride` bytes apart, of `columns` runs, `step` apart, of `run` bytes."""


@dataclass(frozen=True)
class Accesses:
    """One row for each operand of each command."""

    command: Array
    """Position in the stream."""
    write: Array
    role: Array
    """Place of the argument among its command's."""
    region: Array
    """Row of `regions`."""
    regions: Array
    """Each different region once; columns are `FIELDS`."""

    @property
    def space(self) -> Array:
        """Space of each access."""
        column: Array = self.regions[self.region, 0]
        return column

    def expanded(self, form: Array) -> Accesses:
        """Those of commands of which each has one of these, by number."""
        count = np.bincount(self.command, minlength=int(form.max(initial=-1)) + 1)
        low = np.cumsum(count) - count
        each = count[form]
        command = np.repeat(np.arange(form.size), each)
        step = np.arange(command.size) - np.repeat(np.cumsum(each) - each, each)
        at = np.repeat(low[form], each) + step
        return Accesses(command, self.write[at], self.role[at], self.region[at], self.regions)


def span(regions: Array) -> Array:
    """Bytes from the first to behind the last."""
    _, _, rows, stride, columns, step, run = regions.T
    result: Array = (rows - 1) * stride + (columns - 1) * step + run
    return result


@dataclass
class AccessTable:
    """Collects accesses command by command, and checks them."""

    stream: Stream
    spaces: Spaces
    reach: Array = field(init=False)
    """For each space the end of what is used of it."""
    _parts: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reach = np.zeros(self.spaces.count, np.int64)

    def add(
        self,
        group: Commands,
        name: str,
        outer: tuple[Any, Any],
        inner: tuple[Any, Any],
        item: Any,
        write: bool,
        where: Array | None = None,
        shift: Any = 0,
        noted: bool = True,
    ) -> Array:
        """Note one operand of all of a group's commands; gives its space for each.

        `outer` and `inner` are (extent, byte stride); `where` leaves out some commands;
        `shift` is added to the address. What is not `noted` is only checked.
        """
        size = group.at.size
        wide = [np.broadcast_to(np.asarray(x, np.int64), size) for x in (*outer, *inner, item)]
        n, s, m, t, run = wide
        space, offset = self.spaces.locate(group[name], self.stream.core[group.at])
        negative = (n < 0) | (m < 0) | (run < 0)
        self._refuse(group, name, negative, "has a negative extent")
        offset = offset + shift
        for extent, stride in ((n, s), (m, t)):  # backwards: the same bytes from their start
            offset = offset + np.where(stride < 0, np.maximum(extent - 1, 0) * stride, 0)
        s, t = np.abs(s), np.abs(t)
        live = (n > 0) & (m > 0) & (run > 0)
        live = live if where is None else live & where
        self._refuse(group, name, live & (space < 0), "is an address in no memory")
        rows = np.stack([space, offset, *_normal(n, s, m, t, run)], axis=1)
        end = offset + span(rows)
        outside = live & ((offset < 0) | (end > self.spaces.sizes[space]))
        if outside.any():
            self._outside(group, name, outside, rows)
        np.maximum.at(self.reach, space[live], end[live])
        if not noted:
            return space
        if write:
            twice = live & _overlaps_itself(n, s, m, t, run)
            self._refuse(group, name, twice, "writes the same bytes twice")
        column = next(i for i, a in enumerate(group.command.arguments) if a.name == name)
        at = group.at[live]
        self._parts.append((at, np.full(at.size, write), np.full(at.size, column), rows[live]))
        return space

    def _refuse(self, group: Commands, name: str, bad: Array, why: str) -> None:
        if bad.any():
            at = group.at[np.flatnonzero(bad)[0]]
            raise CommandError(f"{self.stream.describe(at)}: {name} {why}")

    def _outside(self, group: Commands, name: str, bad: Array, rows: Array) -> None:
        n = np.flatnonzero(bad)[0]
        space, first = int(rows[n, 0]), int(rows[n, 1])
        end = first + int(span(rows[n : n + 1])[0])
        raise BoundsError(
            f"{self.stream.describe(group.at[n])}: {name} is bytes {first} to {end} of "
            f"{self.spaces.name(space)}, which has {self.spaces.sizes[space]}"
        )

    def finish(self) -> Accesses:
        """All of them, regions numbered."""
        if not self._parts:
            none = np.zeros(0, np.int64)
            return Accesses(none, none.astype(bool), none, none, np.zeros((0, 7), np.int64))
        command, write, role, rows = (
            np.concatenate([part[n] for part in self._parts]) for n in range(4)
        )
        order = np.lexsort((role, command))
        regions, region = _unique_rows(rows[order])
        return Accesses(command[order], write[order], role[order], region, regions)


def _unique_rows(rows: Array) -> tuple[Array, Array]:
    """`np.unique(axis=0)`, in a tenth of its time: sorts integers, not structures."""
    order = np.lexsort(rows.T[[6, 5, 4, 3, 2, 1, 0]])
    ordered = rows[order]
    new = np.ones(len(rows), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return ordered[new], inverse


def _overlaps_itself(n: Array, s: Array, m: Array, t: Array, run: Array) -> Array:
    """Whether elements of a tile share bytes; exact for any two strides."""
    inner = (m > 1) & (t < run)
    outer = (n > 1) & (s < run)
    wide, narrow = np.maximum(s, t), np.minimum(s, t)
    few = np.where(s > t, m, n)
    # Rows of the wider stride must lie apart by all that the narrower one covers.
    both = (n > 1) & (m > 1) & (wide < (few - 1) * narrow + run)
    result: Array = inner | outer | both
    return result


def _normal(n: Array, s: Array, m: Array, t: Array, run: Array) -> tuple[Array, ...]:
    """The same bytes with as few rows and as long runs as can be."""
    n, m = np.where(s == 0, np.minimum(n, 1), n), np.where(t == 0, np.minimum(m, 1), m)
    for _ in range(2):  # once for each of the two levels
        swap = (n > 1) & (s == run) & ~((m > 1) & (t == run)) | (m == 1)
        n, s, m, t = (np.where(swap, a, b) for a, b in ((m, n), (t, s), (n, m), (s, t)))
        dense = (m > 1) & (t == run)
        run, m = np.where(dense, run * m, run), np.where(dense, 1, m)
    swap = (n == 1) & (m > 1)
    n, s, m, t = (np.where(swap, a, b) for a, b in ((m, n), (t, s), (n, m), (s, t)))
    return n, np.where(n > 1, s, 0), m, np.where(m > 1, t, 0), run
