"""Reads by control cores of what queues write: indices that the same kernel computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.simulator.errors import HazardError
from septran.simulator.hazards.accesses import Accesses
from septran.simulator.stream import Stream
from septran.simulator.timing.timeline import Timing

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ControlReads:
    """What control cores have read before they issue some commands."""

    parameter: int
    """Its position."""
    first: tuple[int, ...]
    """Of each core, the position in the stream of the first command that follows from it."""


def without(parameters: Sequence[Array], number: int) -> list[Array]:
    """Return parameters of which one holds zeros."""
    return [np.zeros_like(x) if n == number else x for n, x in enumerate(parameters)]


def control_reads(parameter: int, zeros: Array, stream: Array) -> ControlReads:
    """Find it by a record of the same kernel for which the parameter holds `zeros`."""
    first = []
    for core in np.unique(stream["core"]).tolist():
        mine = np.flatnonzero(stream["core"] == core)
        other, own = zeros[zeros["core"] == core], stream[mine]
        count = min(len(other), len(own))
        differ = np.flatnonzero(other[:count] != own[:count])
        at = int(differ[0]) if len(differ) else count
        first += mine[at : at + 1].tolist()
    return ControlReads(parameter, tuple(first))


def check_control_reads(
    stream: Stream, accesses: Accesses, timing: Timing, reads: ControlReads
) -> None:
    """Raise HazardError where a core has read before the last write has ended."""
    mine = accesses.write & (accesses.space == reads.parameter)
    writers = np.unique(accesses.command[mine])
    for n in reads.first:
        late = writers[timing.end[writers] > timing.issue[n]]
        if len(late):
            raise HazardError(
                f"{stream.describe(n)} follows from indices that {stream.describe(int(late[0]))} "
                "has not written yet",
                hint="the control core reads them after a sync, or a barrier of all cores",
            )
