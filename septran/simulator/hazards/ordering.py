"""The order of commands that is certain: vector clocks over the queues of all cores.

Time alone does not show that a wait is missing: a copy may happen to be early enough. Two
commands are ordered where they are in one queue, where a flag leads from one to the other,
or where a sync lies between them, whatever the time each takes.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.simulator.stream import BARRIER, SET, SYNC, WAIT, Stream
from septran.simulator.timing.timeline import Timing

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Ordering:
    """For each command its queue, its place in it, and what is before it elsewhere."""

    lane: Array
    """Core * queues + queue; -1 for sync and barrier."""
    place: Array
    """Number among its queue's."""
    known: Array
    """Row of `clocks`."""
    clocks: Array
    """How many commands of each lane are certainly before."""
    rank: Array
    """Place of each by its start; of commands at one time first what others waited for."""

    def before(self, first: Array, second: Array) -> Array:
        """Whether `first` is certainly before `second`, of different lanes."""
        counts = self.clocks[self.known[second], self.lane[first]]
        result: Array = counts > self.place[first]
        return result


def ordering(stream: Stream, timing: Timing) -> Ordering:
    """The order that queues, flags and syncs of a stream guarantee."""
    queues = len(stream.hardware.queues)
    lane = np.where(stream.queue < 0, -1, stream.core * queues + stream.queue)
    lanes = queues * stream.hardware.cores
    place = _places(lane, lanes)
    rank = np.empty(len(stream), np.int64)
    rank[timing.order[np.argsort(timing.start[timing.order], kind="stable")]] = np.arange(
        len(stream)
    )
    clocks = _Clocks(stream, timing, lane.tolist(), place.tolist(), lanes)
    known = np.zeros(len(stream), np.int64)
    for number in range(lanes):
        mine = np.flatnonzero(lane == number)
        places, rows = clocks.breaks[number]
        # The clock of a command is that of the last break at its place or before it.
        known[mine] = np.array(rows)[np.searchsorted(places, place[mine], side="right") - 1]
    return Ordering(lane, place, known, np.array(clocks.rows, np.int64), rank)


def _places(lane: Array, lanes: int) -> Array:
    place = np.zeros(lane.size, np.int64)
    for number in range(lanes):
        mine = lane == number
        place[mine] = np.arange(np.count_nonzero(mine))
    return place


class _Clocks:
    """Vector clocks of all lanes, followed over the flags and syncs in order."""

    def __init__(
        self, stream: Stream, timing: Timing, lane: list[int], place: list[int], lanes: int
    ) -> None:
        self.lane, self.place, self.lanes = lane, place, lanes
        self.queues = len(stream.hardware.queues)
        self.rows: list[list[int]] = [[0] * lanes]
        self.now = [[0] * lanes for _ in range(lanes)]
        """Clock of each lane; its own component is not kept up."""
        self.breaks: list[tuple[list[int], list[int]]] = [([0], [0]) for _ in range(lanes)]
        """Of each lane: from which places on which row holds."""
        self.at: dict[int, tuple[list[int], int, int]] = {}
        """Of each flag command its lane's clock, its lane, and how many are done with it."""
        self.core: list[int] = stream.core.tolist()
        self.members: list[list[int]] = [[] for _ in range(lanes)]
        for command, number in enumerate(lane):
            if number >= 0:
                self.members[number].append(command)
        sources: Mapping[int, int] = {b: a for a, b in timing.pairs}
        flags = np.isin(stream.code, (SET, WAIT, SYNC, BARRIER))
        cores = stream.hardware.cores
        meeting: list[int] = []
        for n in timing.order[flags[timing.order]].tolist():
            if lane[n] >= 0:
                self._flag(n, sources.get(n))
            elif stream.code[n] == SYNC or cores == 1:
                self._meet([n])
            else:
                # A barrier is a command of each core: it is passed when the last core's has come.
                meeting.append(n)
                if len(meeting) == cores:
                    self._meet(meeting)
                    meeting = []

    def _flag(self, n: int, source: int | None) -> None:
        lane = self.lane[n]
        if source is not None:
            seen, other, count = self.at[source]
            clock = self.now[lane]
            # Who knows of a command knows all that its queue knew by then.
            if clock[other] < count:
                clock = [a if a > b else b for a, b in zip(clock, seen, strict=True)]
                clock[other] = count
                self.now[lane] = clock
                self.breaks[lane][0].append(self.place[n])
                self.breaks[lane][1].append(len(self.rows))
                self.rows.append(clock)
        self.at[n] = self.now[lane], lane, self.place[n] + 1

    def _meet(self, syncs: list[int]) -> None:
        """All lanes of these cores know of each other all that was issued before."""
        lanes = [self.core[n] * self.queues + q for n in syncs for q in range(self.queues)]
        clock = [0] * self.lanes
        for lane in lanes:
            clock = [max(a, b) for a, b in zip(clock, self.now[lane], strict=True)]
        for n in syncs:
            for q in range(self.queues):
                lane = self.core[n] * self.queues + q
                clock[lane] = self._issued_before(lane, n)
        for lane in lanes:
            self.now[lane] = clock
            self.breaks[lane][0].append(clock[lane])
            self.breaks[lane][1].append(len(self.rows))
        self.rows.append(clock)

    def _issued_before(self, lane: int, n: int) -> int:
        """Commands of a lane that its core issued before command `n`."""
        return bisect.bisect_left(self.members[lane], n)
