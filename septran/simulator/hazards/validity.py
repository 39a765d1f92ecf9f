"""Reads of bytes that nobody has written: memory is fresh when a kernel starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from septran.simulator.errors import UnwrittenBytesError
from septran.simulator.hazards.accesses import Accesses
from septran.simulator.spaces import Spaces
from septran.simulator.stream import NAMES, Stream

Array = np.ndarray[Any, Any]


def check_written(
    stream: Stream, spaces: Spaces, accesses: Accesses, rank: Array, used: Array, fresh: Array
) -> None:
    """Raise UnwrittenBytesError for the first read, by `rank`, of what is fresh.

    `fresh` says for each space whether it begins as poison, `used` how far it is used.

    What is written once stays written, so only the first write and the first read of each
    region matter. A copy may move what nobody has written; where one does, all accesses are
    followed, as what it fills is then as fresh as its source.
    """
    local = fresh[accesses.space]
    events: list[tuple[int, int, int]] = []
    for write in (False, True):
        chosen = np.flatnonzero(local & (accesses.write == write))
        ranks = rank[accesses.command[chosen]]
        order = chosen[np.argsort(ranks, kind="stable")]
        _, first = np.unique(accesses.region[order], return_index=True)
        found = order[first]
        at = rank[accesses.command[found]]
        events += [(int(r), int(write), int(n)) for r, n in zip(at, found, strict=True)]
    valid = {int(space): np.zeros(int(used[space]), bool) for space in np.flatnonzero(fresh)}
    for _, writes, n in sorted(events):  # a command reads before it writes
        region = accesses.regions[accesses.region[n]]
        tile = _tile(valid[int(region[0])], region)
        if writes:
            tile[...] = True
        elif not tile.all():
            _follow(stream, spaces, accesses, rank, used, fresh)
            return


def _moves(stream: Stream, spaces: Spaces, accesses: Accesses, n: int) -> bool:
    """Whether an access is a copy's, and not of a tensor that the caller ought to fill."""
    if accesses.space[n] < len(spaces.parameters):
        return False
    return NAMES[int(stream.code[accesses.command[n]])] == "dsa.dma_copy"


def _follow(
    stream: Stream, spaces: Spaces, accesses: Accesses, rank: Array, used: Array, fresh: Array
) -> None:
    """All accesses in their order; a copy hands on what is valid of its source."""
    valid = {int(space): np.zeros(int(used[space]), bool) for space in np.flatnonzero(fresh)}
    moved: dict[int, Array] = {}
    # A command's reads before its writes: `lexsort` takes the last key first.
    for n in np.lexsort((accesses.write, rank[accesses.command])).tolist():
        region = accesses.regions[accesses.region[n]]
        command, space = int(accesses.command[n]), int(region[0])
        tile = _tile(valid[space], region) if fresh[space] else None
        if not accesses.write[n]:
            if tile is None or tile.all():
                continue
            if not _moves(stream, spaces, accesses, n):
                raise _unwritten(stream, spaces, accesses, n, tile)
            moved[command] = tile.reshape(-1).copy()
            continue
        source = moved.pop(command, None)
        if tile is not None:
            tile[...] = True if source is None else source.reshape(tile.shape)
        elif source is not None:  # a parameter gets what nobody has written
            raise _unwritten(stream, spaces, accesses, _source(accesses, command), source)


def _source(accesses: Accesses, command: int) -> int:
    """The access of a copy that reads."""
    return int(np.flatnonzero((accesses.command == command) & ~accesses.write)[0])


def _tile(space: Array, region: Array) -> Array:
    _, offset, rows, stride, columns, step, run = region.tolist()
    return np.ndarray((rows, columns, run), bool, space, offset, (stride, step, 1))


def _unwritten(
    stream: Stream, spaces: Spaces, accesses: Accesses, n: int, tile: Array
) -> UnwrittenBytesError:
    region = accesses.regions[accesses.region[n]]
    tile = tile.reshape(region[[2, 4, 6]])
    missing = np.argwhere(~tile)
    byte = int(region[1] + missing[0] @ np.array([region[3], region[5], 1]))
    operand = stream.operand(int(accesses.command[n]), int(accesses.role[n]))
    return UnwrittenBytesError(
        f"{operand} reads {len(missing)} of {tile.size} bytes that "
        f"nobody has written, the first at byte {byte} of {spaces.name(int(region[0]))}"
    )
