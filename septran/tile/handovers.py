"""What tasks hand to each other through main memory, and what one task for both would save."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from septran.dtypes import itemsize
from septran.tile.analyses.loops import walk
from septran.tile.analyses.tallies import amount
from septran.tile.nodes import Buffer, Compute, Copy, Node, Region, TileProgram, reads, writes


@dataclass(frozen=True)
class TaskHandover:
    """A temporary that one task writes to main memory and another one reads from there."""

    tensor: str
    bytes: int
    """Its size."""
    writers: tuple[str, ...]
    """The tasks that write it, as the one that launches them calls them."""
    readers: tuple[str, ...]
    saved_bytes: int
    """What is written and read of it in main memory, which one task in their place would save."""


@dataclass(frozen=True)
class _Use:
    """A node that writes or reads a temporary."""

    path: tuple[str, ...]
    """The path of its task."""
    copied: int | None
    """The bytes that it copies; None for an access in place."""


def handovers(program: TileProgram) -> tuple[TaskHandover, ...]:
    """Return the temporaries in main memory that one task writes and another one reads."""
    main = program.machine.main_memory.name
    held = [b for b in program.buffers if b.memory == main and b.name not in program.params]
    return tuple(found for buffer in held if (found := _handover(program, buffer)) is not None)


def _handover(program: TileProgram, buffer: Buffer) -> TaskHandover | None:
    written, read = (list(_uses(program, buffer, way)) for way in (writes, reads))
    # Tasks are told apart below the one that launches them all.
    paths = zip(*(use.path for use in (*written, *read)), strict=False)
    depth = len(list(takewhile(lambda names: len(set(names)) == 1, paths)))
    writers, readers = _names(written, depth), _names(read, depth)
    others = tuple(name for name in readers if name not in writers)
    if not writers or not others:
        return None
    size = math.prod(buffer.shape) * itemsize(buffer.dtype)
    moved = _moved(written, size) + _moved(read, size)
    return TaskHandover(buffer.tensor or buffer.name, size, writers, others, moved)


def _uses(
    program: TileProgram, buffer: Buffer, way: Callable[[Node], tuple[Region, ...]]
) -> Iterator[_Use]:
    width = itemsize(buffer.dtype)
    for node, loops in walk(program.body):
        regions = [r for r in way(node) if r.buffer == buffer.name]
        if regions and isinstance(node, Copy | Compute):
            path = tuple(node.origin.task.split("/"))
            moved = sum(amount(r, loops)[1] for r in regions) * width
            yield _Use(path, moved if isinstance(node, Copy) else None)


def _names(uses: Iterable[_Use], depth: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(use.path[min(depth, len(use.path) - 1)] for use in uses))


def _moved(uses: list[_Use], size: int) -> int:
    """Return the bytes of one way: those of all copies, and the tensor once if used in place."""
    copies = sum(use.copied for use in uses if use.copied is not None)
    return copies + (size if any(use.copied is None for use in uses) else 0)
