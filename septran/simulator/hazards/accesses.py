"""The bytes that each command reads and writes, as arrays: bounds, overlaps, order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.simulator.errors import CommandError, SimulatedBoundsError
from septran.simulator.spaces import Spaces
from septran.simulator.stream import COLUMNS, Commands, Stream

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


RAW = ("at", "role", "write", "noted", "live", "space", "offset", "n", "s", "m", "t", "run")
"""What is collected of each operand before all of them are checked at once."""


@dataclass
class AccessTable:
    """Collects the operands of all commands, and checks them."""

    stream: Stream
    spaces: Spaces
    _parts: list[Array] = field(default_factory=list)

    def add(
        self,
        group: Commands,
        name: str,
        outer: tuple[Any, Any],
        inner: tuple[Any, Any],
        item: Any,
        *,
        write: bool,
        where: Array | None = None,
        shift: Any = 0,
        noted: bool = True,
    ) -> Array:
        """Note one operand of all of a group's commands; gives its space for each.

        `outer` and `inner` are (extent, byte stride); `where` leaves out some commands;
        `shift` is added to the address. What is not `noted` is only checked.
        """
        space, offset = self.spaces.locate(group[name], self.stream.core[group.at])
        part = np.empty((len(RAW), group.at.size), np.int64)
        part[0], part[1] = group.at, COLUMNS[group.command.name][name]
        part[2], part[3], part[4] = write, noted, True if where is None else where
        part[5], part[6] = space, offset + shift
        part[7], part[8], part[9], part[10], part[11] = *outer, *inner, item
        self._parts.append(part)
        return space

    def finish(self) -> tuple[Accesses, Array]:
        """All of them, regions numbered; and for each space the end of what is used of it."""
        reach = np.zeros(self.spaces.count + 1, np.int64)
        if not self._parts:
            none = np.zeros(0, np.int64)
            return Accesses(none, none > 0, none, none, np.zeros((0, 7), np.int64)), reach
        raw = np.concatenate(self._parts, axis=1)
        # In the stream's order, so that the first mistake is the one that is reported.
        raw = raw[:, np.lexsort((raw[1], raw[0]))]
        at, role, write, noted, live, space, offset, n, s, m, t, run = raw
        self._refuse(at, role, (n < 0) | (m < 0) | (run < 0), "has a negative extent")
        exists = (live != 0) & (n > 0) & (m > 0) & (run > 0)
        self._refuse(at, role, exists & (space < 0), "is an address in no memory")
        for extent, stride in ((n, s), (m, t)):  # backwards: the same bytes from their start
            offset += np.where(stride < 0, (extent - 1) * stride, 0)
        s, t = np.abs(s), np.abs(t)
        rows = np.stack([space, offset, *_normal(n, s, m, t, run)], axis=1)
        end = offset + span(rows)
        self._inside(at, role, rows, end, exists)
        np.maximum.at(reach, space[exists], end[exists])
        exists &= noted != 0
        twice = exists & (write != 0) & _overlaps_itself(n, s, m, t, run)
        self._refuse(at, role, twice, "writes the same bytes twice")
        regions, region = _unique_rows(rows[exists])
        found = Accesses(at[exists], write[exists] != 0, role[exists], region, regions)
        return found, reach

    def _refuse(self, at: Array, role: Array, bad: Array, why: str) -> None:
        if bad.any():
            first = np.flatnonzero(bad)[0]
            raise CommandError(f"{self.stream.operand(at[first], role[first])} {why}")

    def _inside(self, at: Array, role: Array, rows: Array, end: Array, exists: Array) -> None:
        start, size = rows[:, 1], self.spaces.sizes[rows[:, 0]]
        bad = np.flatnonzero(exists & ((start < 0) | (end > size)))
        if bad.size:
            n = bad[0]
            raise SimulatedBoundsError(
                f"{self.stream.operand(at[n], role[n])} is bytes {start[n]} to {end[n]} of "
                f"{self.spaces.name(int(rows[n, 0]))}, which has {size[n]}"
            )


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
    # A stride of 0 is the same bytes again.
    n, m = np.where(s == 0, np.minimum(n, 1), n), np.where(t == 0, np.minimum(m, 1), m)
    for _ in range(2):  # once for each of the two levels
        swap = (n > 1) & (s == run) & ~((m > 1) & (t == run)) | (m == 1)
        n, s, m, t = (np.where(swap, a, b) for a, b in ((m, n), (t, s), (n, m), (s, t)))
        dense = (m > 1) & (t == run)
        run, m = np.where(dense, run * m, run), np.where(dense, 1, m)
    swap = (n == 1) & (m > 1) | (t == n * s)
    n, s, m, t = (np.where(swap, a, b) for a, b in ((m, n), (t, s), (n, m), (s, t)))
    # Rows that go on in the steps of their runs are one row, as of one place of all windows.
    even = (m > 1) & (s == m * t)
    n, s, m = np.where(even, n * m, n), np.where(even, t, s), np.where(even, 1, m)
    return n, np.where(n > 1, s, 0), m, np.where(m > 1, t, 0), run
