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
    """What the control cores have read before they issue some commands."""

    parameters: tuple[int, ...]
    """Positions of the parameters that were read."""
    first: tuple[int, ...]
    """Of each core, the position in the stream of the first command that follows from it."""


def control_reads(before: Array, after: Array, parameters: Sequence[int]) -> ControlReads:
    """Find it by two records of one kernel, between which only those parameters changed."""
    first = []
    for core in np.unique(after["core"]).tolist():
        mine = np.flatnonzero(after["core"] == core)
        old, new = before[before["core"] == core], after[mine]
        count = min(len(old), len(new))
        differ = np.flatnonzero(old[:count] != new[:count])
        at = int(differ[0]) if len(differ) else count
        first += mine[at : at + 1].tolist()
    return ControlReads(tuple(parameters), tuple(first))


def check_control_reads(
    stream: Stream, accesses: Accesses, timing: Timing, reads: ControlReads
) -> None:
    """Raise HazardError where a core has read before the last write has ended."""
    mine = accesses.write & np.isin(accesses.space, reads.parameters)
    writers = np.unique(accesses.command[mine])
    for n in reads.first:
        late = writers[timing.end[writers] > timing.issue[n]]
        if len(late):
            raise HazardError(
                f"{stream.describe(n)} follows from indices that {stream.describe(int(late[0]))} "
                "has not written yet",
                hint="the control core reads them after a sync, or a barrier of all cores",
            )
