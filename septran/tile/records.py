"""The records of a tile program beside its nodes: the mapping's requests, and buffers' places."""

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
    """The schedule that the mapping asks for in the loops of one task instance."""

    task: str
    """The path of the task."""
    settings: Settings = field(default_factory=Settings)
    tunables: tuple[tuple[str, TunableValue], ...] = ()
    """The values of the task's tunables, for hints that name what to change."""
    rounded: tuple[tuple[str, str], ...] = ()
    """The primitives with a faster instruction for which tiles are to be padded."""

    def get(self, key: Key[T]) -> T:
        """Return the value of a key with one value."""
        return self.settings.get(key).value

    def where(self, key: Key[Any]) -> Location | None:
        """Return the mapping's line that gives the value, None for a default."""
        return self.settings.get(key).where


@dataclass(frozen=True)
class Placement:
    """The place of a buffer in its memory, and the nodes over which it is live."""

    buffer: str
    memory: str
    offset_bytes: int
    size_bytes: int
    """The bytes of all stages together."""
    first: int
    """The number of the first node (in program order) that uses it."""
    last: int
