"""Reads by control cores of what queues write: indices that the same kernel computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.simulator.errors import HazardError
from septran.simulator.hazards.accesses import Accesses
from septran.simulator.stream import BARRIER, SYNC, Stream

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ControlReads:
    """What control cores have read before they issue some commands."""

    parameter: int
    """Its position."""
    first: tuple[int, ...]
    """Of each core, the position in the stream of the first command that follows from it."""


def filled(tables: Sequence[Array], place: int, value: int) -> list[Array]:
    """Return tables of indices of which that at `place` holds `value` everywhere.

    Any number will do: a control program takes one beyond the last index for the last.
    """
    return [np.full_like(x, value) if n == place else x for n, x in enumerate(tables)]


def control_reads(parameter: int, others: Sequence[Array], stream: Array) -> ControlReads:
    """Find it by `others`, records of the same kernel with the parameter filled otherwise.

    There are two, of different numbers, as an index may be what one of them was filled with.
    """
    first = []
    for core in np.unique(stream["core"]).tolist():
        mine = np.flatnonzero(stream["core"] == core)
        at = min(_same_until(other[other["core"] == core], stream[mine]) for other in others)
        first += mine[at : at + 1].tolist()
    return ControlReads(parameter, tuple(first))


def _same_until(one: Array, other: Array) -> int:
    count = min(len(one), len(other))
    differ = np.flatnonzero(one[:count] != other[:count])
    return int(differ[0]) if len(differ) else count


def check_control_reads(stream: Stream, accesses: Accesses, reads: ControlReads) -> None:
    """Raise HazardError where no sync lies between a write and a core's read.

    By the order in which commands are issued, not by time (`septran.simulator.hazards.ordering`):
    a sync of the core that reads, or for what another core writes a barrier.
    """
    mine = accesses.write & (accesses.space == reads.parameter)
    writers = np.unique(accesses.command[mine])
    for n in reads.first:
        late = writers[~_ended(stream, writers, n)]
        if len(late):
            raise HazardError(
                f"{stream.describe(n)} follows from indices that {stream.describe(int(late[0]))} "
                "has not written yet",
                hint="the control core reads them after a sync, or a barrier of all cores",
            )


def _ended(stream: Stream, writers: Array, n: int) -> Array:
    """Whether each of some commands has certainly ended when the core of `n` issues `n`."""
    core = stream.core[n]
    syncs = np.flatnonzero(np.isin(stream.code, (SYNC, BARRIER)) & (stream.core == core))
    last = max(syncs[syncs < n].tolist(), default=-1)
    # Barriers are numbered: one is passed by all cores or by none.
    passed = _barriers(stream, int(core), np.array([n]))[0]
    ended: Array = writers < last
    for other in np.unique(stream.core[writers]).tolist():
        if other != core:
            theirs = stream.core[writers] == other
            ended[theirs] = _barriers(stream, other, writers[theirs]) < passed
    return ended


def _barriers(stream: Stream, core: int, commands: Array) -> Array:
    """How many barriers a core issues before each of its commands."""
    barriers = np.flatnonzero((stream.code == BARRIER) & (stream.core == core))
    count: Array = np.searchsorted(barriers, commands)
    return count
