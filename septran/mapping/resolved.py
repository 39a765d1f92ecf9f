"""The resolved mapping: one instance for each task of a tree, every field with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from septran.location import Location
from septran.machine.model import NONE, Machine
from septran.mapping.keys import BINDING, MEMS, PROC, SINGLE, TUNABLES, Key
from septran.stage import Stage
from septran.task.tree import TaskTree, TunableValue

T = TypeVar("T", covariant=True)
INHERITED = "as its caller"
"""The reason of a value that no mapping gives, which a task takes over from its caller."""


@dataclass(frozen=True)
class Setting(Generic[T]):
    """A value, with its reason and the line that gives it."""

    value: T
    reason: str = ""
    """``rule 2``, ``instance gemm_block_gpu``, ``default of cpu-x86`` or ``as its caller``."""
    where: Location | None = field(default=None, compare=False)
    """The line that gives it; None for defaults."""
    optional: bool = False
    """For a memory: whether the tensor may stay in place if a copy costs more than it saves."""
    exact: bool = field(default=False, compare=False)
    """For a tunable: whether it is never made smaller."""

    @property
    def said(self) -> object:
        """The value as a mapping file writes it."""
        return [NONE, self.value] if self.optional else self.value

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class TensorMemory(Setting[str]):
    """The memory of a tensor: its value is what is mapped, ``NONE`` when passed through."""

    memory: str = ""
    """The memory that the tensor is really in, with ``NONE`` resolved."""

    @staticmethod
    def of(setting: Setting[str], memory: str) -> TensorMemory:
        """Return the mapped memory together with the real one."""
        return TensorMemory(
            setting.value, setting.reason, setting.where, setting.optional, memory=memory
        )


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Settings:
    """Values of keys (`septran.mapping.keys`), each with its reason."""

    values: Mapping[str, Setting[Any]] = field(default_factory=_empty)
    """The given values of keys with one value, by path: ``proc``, ``pipeline``."""
    tables: Mapping[str, Mapping[str, Setting[Any]]] = field(default_factory=_empty)
    """Keys with a value for each tensor or role, by path: ``layouts``, ``roles.registers``."""

    def get(self, key: Key[T]) -> Setting[T]:
        """Return the value of a key with one value, else its default."""
        return self.values.get(key.path, Setting(key.default, "default"))

    def table(self, key: Key[Any]) -> Mapping[str, Setting[Any]]:
        """Return the values of a key with one for each tensor or role."""
        return self.tables.get(key.path, _empty())

    def changed(self, key: Key[Any], value: Any) -> Settings:
        """Return the settings with another value, or another table, for a key."""
        if key in SINGLE:
            return replace(self, values=MappingProxyType({**self.values, key.path: value}))
        return replace(self, tables=MappingProxyType({**self.tables, key.path: value}))


@dataclass(frozen=True)
class Instance:
    """The way in which one task of the tree runs."""

    path: str
    """The task's path in the tree."""
    name: str
    """The mapping author's name for it, or one made from the rule."""
    task: str
    variant: str
    mems: Mapping[str, TensorMemory]
    """The memory of each parameter and temporary."""
    settings: Settings
    tunables: Mapping[str, Setting[TunableValue]] = field(default_factory=_empty)
    bindings: Mapping[str, Setting[str]] = field(default_factory=_empty)
    """The instruction for each primitive of a leaf (``map`` for tensor expressions)."""
    rounded: Mapping[str, Setting[str]] = field(default_factory=_empty)
    """The faster instruction for primitives whose tiles would have to be padded to its sizes."""
    where: Location | None = field(default=None, compare=False)
    """The instance's or rule's line."""

    @property
    def proc(self) -> Setting[str]:
        """The processor level that runs it."""
        return self.settings.get(PROC)

    def rows(self) -> Iterator[tuple[str, str, Setting[Any]]]:
        """Yield all its settings: the key, the entry of a table (else ``""``), and the value."""
        yield PROC.path, "", self.proc
        groups = {
            MEMS.path: self.mems, TUNABLES.path: self.tunables, BINDING.path: self.bindings,
            "rounded": self.rounded, **self.settings.tables,
        }  # fmt: skip
        for path, entries in groups.items():
            yield from ((path, name, setting) for name, setting in entries.items())
        for key in SINGLE:
            if key is not PROC and (setting := self.settings.get(key)).value != key.default:
                yield key.path, "", setting


@dataclass(frozen=True)
class Decision:
    """A decision of the resolution itself, or a refusal, with the reason."""

    kind: str
    """The kind: ``decision``, ``missed`` or ``no-effect``."""
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
    """The instances in the tree's order, callers first."""
    decisions: tuple[Decision, ...] = ()
    file: str = field(default="", compare=False)
    """The path of the mapping file, for display."""

    def instance(self, path: str) -> Instance:
        """Return the instance of the task at `path`; raises KeyError where there is none."""
        for instance in self.instances:
            if instance.path == path:
                return instance
        raise KeyError(path)

    def to_yaml(self) -> str:
        """Return the explicit form: a mapping file that resolves to the same."""
        from septran.mapping.printer import to_yaml

        return to_yaml(self)

    def __str__(self) -> str:
        from septran.mapping.printer import resolved_text

        return resolved_text(self)
