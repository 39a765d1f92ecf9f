"""The model of hardware: processors, memories, engines that copy, instructions that compute."""

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
        """The remark in one sentence."""
        return f"`{self.name}` is called `{self.now}` now"

    @property
    def hint(self) -> str:
        """The hint: what to write."""
        return f"write {self.now}; a later version will not know {self.name}"


@dataclass(frozen=True)
class Processor:
    """A level of the machine that runs tasks."""

    name: str
    count: int = 1
    """The number of these in one `of`."""
    of: str | None = None
    """The level that contains it; None for the outermost."""
    display_name: str = ""
    """The vendor's name, for display."""
    launch_ns: float | None = None
    """Time to give work to all units and to wait for the last; of the host, of a call."""


@dataclass(frozen=True)
class Memory:
    """A memory in which tasks can place tensors."""

    name: str
    visible_to: str
    """The processor level that shares one instance; that level and those inside see it."""
    capacity_bytes: int | None = None
    """Bytes of one instance; None when effectively unbounded."""
    bytes_per_second: float | None = None
    """Peak bandwidth of one instance; None when unknown."""
    latency_ns: float | None = None
    """Nanoseconds from a request to its data; None when unknown."""
    write_bytes_per_second: float | None = None
    """Bandwidth of stores, where it differs."""
    stream_bytes_per_second: float | None = None
    """Bandwidth of stores past the caches; None where there are none."""
    unit_bytes_per_second: float | None = None
    """What one unit of the next level draws at most of an instance that several share."""
    duplex: bool = False
    """Whether reads and writes each have all of the bandwidth, instead of sharing it."""
    alignment: int = 1
    """The number of bytes of which each buffer's start is a multiple."""
    row_alignment: int = 1
    """The number of bytes of which the start of each row of a buffer is a multiple."""
    cached: bool = False
    """Whether hardware fills it by itself (a cache level).

    Placement is then a copy into a compact buffer that stays there, and the capacity a limit of
    good speed.
    """


@dataclass(frozen=True)
class Engine:
    """A unit that carries out copies along some memory edges."""

    name: str
    moves: tuple[tuple[str, str], ...]
    """The memory edges ``(from, to)``."""
    asynchronous: bool = False
    """Whether it goes on by itself once a copy is issued, so that somebody has to wait for it."""
    completes_by: str = "return"
    """The way in which completion is seen: ``return``, ``mbarrier``, ``group``, ``event``, ..."""
    bytes_per_cycle: float | None = None
    """Bandwidth in bytes a cycle of the machine's clock; None when unknown."""
    latency_cycles: int = 0
    """The latency of a copy in cycles, beside the time that its bytes take."""
    alignment: int = 1
    """The number of bytes of which addresses and row lengths must be a multiple."""
    queue_depth: int | None = None
    """How many copies may be under way at once; None for any number."""
    layouts: tuple[str, ...] = ("row",)
    """The kinds of layout that it can write while it copies (layouts.py)."""
    transposes: bool = True
    """Whether it can gather elements in any order, or only contiguous rows."""
    location: Location | None = field(default=None, compare=False, repr=False)
    """The place in the machine file; not in the repr, by which kernels are identified."""


@dataclass(frozen=True)
class Instruction:
    """A unit that a leaf's primitive can be bound to: its contract, as data."""

    name: str
    primitive: str
    """The primitive: ``gemm``, ``copy``, ``fill``, or ``map`` (any tensor expression)."""
    dtypes: tuple[tuple[str, ...], ...] = ()
    """Accepted dtypes, one tuple for each option, operands in the primitive's order."""
    tile: tuple[int, ...] = ()
    """The extents of one issue, in order of the primitive's axes (gemm: m, n, k)."""
    multiple_of: tuple[int, ...] = ()
    """The numbers of which the operands' extents must be multiples; () when any will do."""
    operands: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The memories that each operand may be in; missing when any will do."""
    layouts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The layout of each operand, as text of `Layout.parse`; missing when any will do."""
    panels: tuple[int, ...] = ()
    """The rows or columns of a panel in which an operand is packed; () when any will do.

    A second number, where it is not one, says how many elements along the sum lie side by side.
    """
    requires: tuple[str, ...] = ()
    """The features of the processor that it needs, in the words of the code generator."""
    issued_by: str = ""
    """The processor level that issues it; empty for whichever runs the leaf."""
    throughput: float | None = None
    """Multiply-adds (or elements) a cycle of one issuing unit; None when unknown."""
    costs: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """How many operations a function of one element counts as."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Options that only its emitter reads, such as a register tile."""
    location: Location | None = field(default=None, compare=False, repr=False)
    """The place in the machine file, as that of an `Engine`."""

    @property
    def queue(self) -> str:
        """The name of the queue that it is issued to on a DSA: its option, or its own name."""
        return str(self.options.get("queue", self.name))


@dataclass(frozen=True)
class Machine:
    """One piece of hardware, as its YAML file describes it."""

    name: str
    backend: str
    """The target that generates code: the name of a folder of `septran/targets`."""
    arch: str = ""
    clock_mhz: float | None = None
    processors: tuple[Processor, ...] = ()
    """The levels, outermost first."""
    memories: tuple[Memory, ...] = ()
    """The memories, largest first."""
    engines: tuple[Engine, ...] = ()
    """The engines; the first that fits an edge is the default."""
    instructions: tuple[Instruction, ...] = ()
    """The instructions, preferred ones first."""
    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Other words that mappings may use for its processors, memories, instructions.

    A ``*`` in one stands for any letters. The machine's own names are never aliases.
    """
    vendor: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The vendor library's names and limits (DSAs)."""
    location: Location | None = field(default=None, compare=False)
    former_keys: tuple[FormerKey, ...] = field(default=(), compare=False)
    """The keys that its file has under a former name."""

    def canonical(self, name: str) -> str:
        """The machine's own word for a name or alias; unknown words are returned as they are."""
        if name in self.aliases:
            return self.aliases[name]
        for pattern, own in self._patterns:
            if pattern.match(name):
                return own
        return name

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """The aliases with a ``*``, each with its own name."""
        return tuple(
            (re.compile(fnmatch.translate(alias)), own)
            for alias, own in self.aliases.items()
            if "*" in alias
        )

    def processor(self, name: str) -> Processor:
        """Return the level of that name or alias; raises KeyError where there is none."""
        return _named(self.processors, self.canonical(name))

    def memory(self, name: str) -> Memory:
        """Return the memory of that name or alias; raises KeyError where there is none."""
        return _named(self.memories, self.canonical(name))

    def engine(self, name: str) -> Engine:
        """Return the engine of that name or alias; raises KeyError where there is none."""
        return _named(self.engines, self.canonical(name))

    def instruction(self, name: str) -> Instruction:
        """Return the instruction of that name or alias; raises KeyError where there is none."""
        return _named(self.instructions, self.canonical(name))

    @property
    def host(self) -> Processor:
        """The outermost level."""
        return self.processors[0]

    @property
    def main_memory(self) -> Memory:
        """The memory of the caller's tensors, which is the first one."""
        return self.memories[0]

    def depth(self, processor: str) -> int:
        """Return the number of levels around a level; 0 for the outermost."""
        return self.processors.index(self.processor(processor))

    def sees(self, processor: str, memory: str) -> bool:
        """Return whether code at a level can use a memory."""
        return self.depth(processor) >= self.depth(self.memory(memory).visible_to)

    def engines_for(self, source: str, target: str) -> tuple[Engine, ...]:
        """Return the engines that move along an edge, the default first."""
        return tuple(e for e in self.engines if (source, target) in e.moves)


def frozen(value: Any) -> Any:
    """Return plain data that cannot be changed: tuples for lists, read-only mappings for dicts."""
    if isinstance(value, dict):
        return MappingProxyType({k: frozen(v) for k, v in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def _named(things: tuple[N, ...], name: str) -> N:
    for thing in things:
        if thing.name == name:
            return thing
    raise KeyError(name)
