"""The resolved mapping: one instance for each task of a tree, every field with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from septran.location import Location
from septran.machine.model import NONE, Machine
from septran.stage import Stage
from septran.task.tree import TaskTree, TunableValue

T = TypeVar("T", covariant=True)


@dataclass(frozen=True)
class Setting(Generic[T]):
    """A value and who decided it."""

    value: T
    reason: str = ""
    """``rule 2``, ``instance gemm_block_gpu``, ``default of cpu-x86``, ``as its caller``."""
    where: Location | None = field(default=None, compare=False)
    """The line that says so; None for defaults."""
    optional: bool = False
    """Of a memory: left where it is if a copy takes longer than it saves, ``[NONE, L2]``."""

    @property
    def said(self) -> object:
        """The value as a mapping file says it."""
        return [NONE, self.value] if self.optional else self.value

    def __str__(self) -> str:
        return str(self.value)


def _empty() -> Mapping[str, Setting[str]]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Instance:
    """How one task of the tree runs."""

    path: str
    """The task's path in the tree."""
    name: str
    """The mapping author's name for it, or one made from the rule."""
    task: str
    variant: str
    proc: Setting[str]
    mems: Mapping[str, Setting[str]]
    """Memory of each parameter and temporary as mapped; ``NONE`` when passed through,
    `optional` where a copy may be left out."""
    placed: Mapping[str, str]
    """Memory where each parameter and temporary really is, with ``NONE`` resolved."""
    tunables: Mapping[str, Setting[TunableValue]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    bindings: Mapping[str, Setting[str]] = field(default_factory=_empty)
    """Instruction for each primitive of a leaf (``map`` for tensor expressions)."""
    rounded: Mapping[str, Setting[str]] = field(default_factory=_empty)
    """For primitives a faster one, if their tiles can be rounded up to the sizes it takes."""
    layouts: Mapping[str, Setting[str]] = field(default_factory=_empty)
    """Layouts that the author asks for, by tensor."""
    copy: Mapping[str, Setting[str]] = field(default_factory=_empty)
    """Engines that the author asks for, by tensor."""
    pipeline: Setting[int] = Setting(1, "default")
    warpspecialize: Setting[bool] = Setting(False, "default")
    consumers: Setting[int] = Setting(1, "default")
    registers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Registers a thread by role."""
    schedule: Mapping[str, Setting[object]] = field(default_factory=lambda: MappingProxyType({}))
    """``order``, ``persistent``, ``cluster``, ``raster`` where given."""
    where: Location | None = field(default=None, compare=False)
    """The instance's or rule's line."""


@dataclass(frozen=True)
class Decision:
    """Something that resolution decided by itself or refused, with the reason."""

    kind: str
    """``decision``, ``missed`` or ``no-effect``."""
    about: str
    message: str
    hint: str | None = None
    where: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ResolvedMapping(Stage):
    """Every task of `tree` with its instance."""

    tree: TaskTree
    machine: Machine
    instances: tuple[Instance, ...]
    """In the tree's order, callers first."""
    decisions: tuple[Decision, ...] = ()
    file: str = field(default="", compare=False)
    """The mapping file, for display."""

    def instance(self, path: str) -> Instance:
        """The instance of the task at `path`; KeyError where there is none."""
        for instance in self.instances:
            if instance.path == path:
                return instance
        raise KeyError(path)

    def to_yaml(self) -> str:
        """The explicit form: a mapping file that resolves to the same."""
        from septran.mapping.printer import to_yaml

        return to_yaml(self)

    def __str__(self) -> str:
        from septran.mapping.printer import resolved_text

        return resolved_text(self)
