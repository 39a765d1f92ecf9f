"""Temporaries of the vector unit in a memory that also holds buffers: who else is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from septran.simulator.errors import TemporaryOverlapError
from septran.simulator.hazards.accesses import Accesses, span
from septran.simulator.spaces import Spaces
from septran.simulator.stream import NAMES, Stream

Array = np.ndarray[Any, Any]


def check_temporaries(
    stream: Stream, spaces: Spaces, accesses: Accesses, rank: Array, starts: Mapping[str, int]
) -> None:
    """Raise TemporaryOverlapError where what is not a temporary lies from a memory's start on.

    A temporary is written and read by the vector unit, for one node of the program: whatever
    another unit uses there, or a command of another node has written, is somebody's data.
    """
    ends = accesses.regions[:, 1] + span(accesses.regions)
    for number, memory in enumerate(spaces.hardware.machine.memories):
        if memory.name not in starts:
            continue
        start = starts[memory.name]
        here = (spaces.memory[accesses.space] == number) & (ends[accesses.region] > start)
        for space in np.unique(accesses.space[here]).tolist():
            chosen = np.flatnonzero(here & (accesses.space == space))
            order = np.lexsort((accesses.write[chosen], rank[accesses.command[chosen]]))
            size = int(ends[accesses.region[chosen]].max())
            _follow(stream, spaces, accesses, chosen[order], start, size)


def _follow(
    stream: Stream, spaces: Spaces, accesses: Accesses, order: Array, start: int, size: int
) -> None:
    """Go through the accesses of one space in their order; a command reads before it writes."""
    writer = np.full(size, -1, np.int64)
    # What lies before `start` are buffers, which anybody may have written.
    kept = np.arange(size) >= start
    nodes: dict[str, int] = {}
    for n in order.tolist():
        command = int(accesses.command[n])
        region = accesses.regions[accesses.region[n]]
        if not NAMES[stream.code[command]].startswith("dsa.vec"):
            raise _overlap(stream, spaces, accesses, n, start, "it is no vector command")
        line = int(stream.records["line"][command])
        node = nodes.setdefault(stream.origins.get(line, str(line)), len(nodes))
        tile = _tile(writer, region)
        if accesses.write[n]:
            tile[...] = node
        elif ((tile != node) & _tile(kept, region)).any():
            raise _overlap(stream, spaces, accesses, n, start, "it was written for something else")


def _tile(space: Array, region: Array) -> Array:
    _, offset, rows, stride, columns, step, run = region.tolist()
    item = space.itemsize
    shape, strides = (rows, columns, run), (stride * item, step * item, item)
    return np.ndarray(shape, space.dtype, space, offset * item, strides)


def _overlap(
    stream: Stream, spaces: Spaces, accesses: Accesses, n: int, start: int, why: str
) -> TemporaryOverlapError:
    operand = stream.operand(int(accesses.command[n]), int(accesses.role[n]))
    name = spaces.name(int(accesses.space[n]))
    does = "writes" if accesses.write[n] else "reads"
    return TemporaryOverlapError(
        f"{operand} {does} bytes of {name} from byte {start} on, where temporaries of the vector "
        f"unit lie, and {why}",
        hint="a buffer and a temporary share bytes: give them memories of their own by "
        "options.temporaries of the machine file",
    )
