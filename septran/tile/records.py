"""What a tile program holds beside its nodes: the mapping's requests, and where buffers lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from septran.location import Location
from septran.mapping.keys import Key
from septran.mapping.resolved import Settings
from septran.task.tree import TunableValue

T = TypeVar("T")


@dataclass(frozen=True)
class LoopSchedule:
    """The schedule that the mapping asks of the loops of one task instance."""

    task: str
    """Path of the task."""
    settings: Settings = field(default_factory=Settings)
    tunables: tuple[tuple[str, TunableValue], ...] = ()
    """Values of the task's tunables, for hints that name what to change."""
    rounded: tuple[tuple[str, str], ...] = ()
    """Primitives with a faster instruction that tiles are to be rounded up for."""

    def get(self, key: Key[T]) -> T:
        """The value of a key with one value."""
        return self.settings.get(key).value

    def where(self, key: Key[Any]) -> Location | None:
        """The mapping's line that gives it."""
        return self.settings.get(key).where


@dataclass(frozen=True)
class Placement:
    """The place of a buffer in its memory, and the nodes over which it must stay."""

    buffer: str
    memory: str
    offset_bytes: int
    size_bytes: int
    """All stages together."""
    first: int
    """Number of the first node (in program order) that uses it."""
    last: int
