"""What a tile program holds beside its nodes: the mapping's requests, and where buffers lie."""

from __future__ import annotations

from dataclasses import dataclass, field

from septran.location import Location
from septran.task.tree import TunableValue


@dataclass(frozen=True)
class Request:
    """What the mapping asks for the loops of one task instance."""

    task: str
    """Path of the task."""
    pipeline: int = 1
    specialize: bool = False
    consumers: int = 1
    registers: tuple[tuple[str, int], ...] = ()
    where: Location | None = field(default=None, compare=False)
    """The mapping line of `pipeline`."""
    tunables: tuple[tuple[str, TunableValue], ...] = ()
    """For hints that name what to change."""
    persistent: bool = False
    """Whether units stay and walk over the parallel iterations."""
    raster: int = 0
    """Rows of a grid that are taken together; 0 for row by row."""
    cluster: tuple[int, ...] = ()
    """Blocks of a cluster along the innermost parallel loops; one number: along the best."""
    overlap: bool = False
    """Whether asynchronous products of neighbouring iterations run beside each other."""
    turns: bool = False
    """Whether consumers take turns in issuing them."""
    rounded: tuple[tuple[str, str], ...] = ()
    """For primitives a faster instruction, if tiles are rounded up to the sizes it takes."""


@dataclass(frozen=True)
class Placement:
    """Where in its memory a buffer lies, and over which nodes it must stay."""

    buffer: str
    memory: str
    offset_bytes: int
    size_bytes: int
    """All stages together."""
    first: int
    """Number of the first node (in program order) that uses it."""
    last: int
