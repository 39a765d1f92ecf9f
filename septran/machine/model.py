"""What hardware is: processors, memories, engines that move, instructions that compute."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from septran.location import Location

NONE = "NONE"
"""The memory of a tensor that a task does not materialise: the view is passed through."""


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_HasName)


@dataclass(frozen=True)
class FormerKey:
    """A key of a file by the name that it had in an earlier version."""

    name: str
    now: str
    where: Location

    @property
    def message(self) -> str:
        """One sentence."""
        return f"`{self.name}` is called `{self.now}` now"

    @property
    def hint(self) -> str:
        """What to write."""
        return f"write {self.now}; a later version will not know {self.name}"


@dataclass(frozen=True)
class Processor:
    """A level of the machine that runs tasks."""

    name: str
    count: int = 1
    """How many there are in one `of`."""
    of: str | None = None
    """The level that holds it; None for the outermost."""
    display_name: str = ""
    """The vendor's name, for display."""


@dataclass(frozen=True)
class Memory:
    """A memory that tasks can place tensors in."""

    name: str
    visible_to: str
    """The processor level that shares one instance; that level and those inside see it."""
    capacity_bytes: int | None = None
    """Bytes of one instance; None when effectively unbounded."""
    bytes_per_second: float | None = None
    """Peak bandwidth of one instance; None when unknown."""
    latency_ns: float | None = None
    alignment: int = 1
    """Bytes that each buffer's start is a multiple of."""
    cached: bool = False
    """Whether hardware fills it by itself (a cache level): placement is then a copy into
    a compact buffer that stays there, and the capacity a limit of good speed."""


@dataclass(frozen=True)
class Engine:
    """What carries out copies along some memory edges."""

    name: str
    moves: tuple[tuple[str, str], ...]
    """Memory edges ``(from, to)``."""
    asynchronous: bool = False
    completes_by: str = "return"
    """How completion is seen: ``return``, ``mbarrier``, ``group``, ``event``, ..."""
    bytes_per_cycle: float | None = None
    latency_cycles: int = 0
    alignment: int = 1
    """Bytes that addresses and row lengths must be a multiple of."""
    queue_depth: int | None = None
    layouts: tuple[str, ...] = ("row",)
    """Kinds of layout that it can write while it copies (layouts.py)."""
    transposes: bool = True
    """Whether it can gather elements in any order, or only contiguous rows."""
    location: Location | None = field(default=None, compare=False, repr=False)
    """Where the machine file names it; not shown, as kernels are known by what is."""


@dataclass(frozen=True)
class Instruction:
    """A unit that a leaf's primitive can be bound to: its contract, as data."""

    name: str
    primitive: str
    """``gemm``, ``copy``, ``fill``, or ``map`` (any tensor expression)."""
    dtypes: tuple[tuple[str, ...], ...] = ()
    """Accepted dtypes, one tuple an option, operands in the primitive's order."""
    tile: tuple[int, ...] = ()
    """Extents of one issue, in order of the primitive's axes (gemm: m, n, k)."""
    multiple_of: tuple[int, ...] = ()
    """What the operands' extents must be multiples of; () when any will do."""
    operands: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Memories that each operand may be in; missing when any will do."""
    layouts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Layout that each operand must have, as text of `Layout.parse`; missing when any."""
    panels: tuple[int, ...] = ()
    """Rows or columns of the panels that an operand is packed in, and how many elements along
    the sum lie side by side where it is not one; () when any will do."""
    requires: tuple[str, ...] = ()
    """Features of the processor that it needs, in the words of the code generator."""
    issued_by: str = ""
    """Processor level; empty for whichever runs the leaf."""
    throughput: float | None = None
    """Multiply-adds (or elements) a cycle of one issuing unit."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What only its emitter reads, such as a register tile."""
    location: Location | None = field(default=None, compare=False, repr=False)
    """As that of an `Engine`."""


@dataclass(frozen=True)
class Machine:
    """One piece of hardware, as its YAML file describes it."""

    name: str
    backend: str
    """Which target generates code: the name of a folder of `septran/targets`."""
    arch: str = ""
    clock_mhz: float | None = None
    processors: tuple[Processor, ...] = ()
    """Outermost first."""
    memories: tuple[Memory, ...] = ()
    """Largest first."""
    engines: tuple[Engine, ...] = ()
    """The first that fits an edge is the default."""
    instructions: tuple[Instruction, ...] = ()
    """Preferred first."""
    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Other words that mappings may use for its processors, memories, instructions; a ``*``
    in one stands for any letters. The machine's own names are never aliases."""
    vendor: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The vendor library's names and limits (DSAs)."""
    location: Location | None = field(default=None, compare=False)
    former_keys: tuple[FormerKey, ...] = field(default=(), compare=False)
    """Where its file has a key by a name that the key had before."""

    def canonical(self, name: str) -> str:
        """The machine's own word for a name or alias; unknown words stay as they are."""
        if name in self.aliases:
            return self.aliases[name]
        for pattern, own in self._patterns:
            if pattern.match(name):
                return own
        return name

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """Aliases with a ``*``, and what they stand for."""
        return tuple(
            (re.compile(fnmatch.translate(alias)), own)
            for alias, own in self.aliases.items()
            if "*" in alias
        )

    def processor(self, name: str) -> Processor:
        """The level of that name or alias; KeyError where there is none."""
        return _named(self.processors, self.canonical(name))

    def memory(self, name: str) -> Memory:
        """The memory of that name or alias; KeyError where there is none."""
        return _named(self.memories, self.canonical(name))

    def engine(self, name: str) -> Engine:
        """The engine of that name or alias; KeyError where there is none."""
        return _named(self.engines, self.canonical(name))

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name or alias; KeyError where there is none."""
        return _named(self.instructions, self.canonical(name))

    @property
    def host(self) -> Processor:
        """The outermost level."""
        return self.processors[0]

    @property
    def main_memory(self) -> Memory:
        """Where the caller's tensors are: the first memory."""
        return self.memories[0]

    def depth(self, processor: str) -> int:
        """How far inside a level is; 0 for the outermost."""
        return self.processors.index(self.processor(processor))

    def sees(self, processor: str, memory: str) -> bool:
        """Whether code at a level can use a memory."""
        return self.depth(processor) >= self.depth(self.memory(memory).visible_to)

    def engines_for(self, source: str, target: str) -> tuple[Engine, ...]:
        """Engines that move along an edge, the default first."""
        return tuple(e for e in self.engines if (source, target) in e.moves)


def _named(things: tuple[N, ...], name: str) -> N:
    for thing in things:
        if thing.name == name:
            return thing
    raise KeyError(name)
