"""The tile program as its control core runs it: work on queues, hand-overs, loops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Union

from septran.dtypes import itemsize
from septran.ir.index import Var
from septran.simulator.queues import Queues
from septran.targets.dsa.context import unsupported
from septran.tile.analyses.temporaries import shared_with_buffers
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Release,
    Role,
    TileProgram,
    Wait,
    reads,
    tables,
    writes,
)

Hand = Union[Acquire, Commit, Wait, Release]


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of a memory (or a whole buffer of main memory) that something reads or writes."""

    space: str
    """The memory; for main memory the buffer's own name, behind a colon if it is a
    parameter's and behind an @ if it is a temporary's."""
    first: int
    last: int
    written: bool
    buffer: str

    @property
    def local(self) -> bool:
        """Whether iterations of a parallel loop may use the same bytes: not of parameters."""
        return not self.space.startswith(":")

    def conflicts(self, other: MemoryUse) -> bool:
        """Whether the order of the two matters."""
        overlap = self.first < other.last and other.first < self.last
        return self.space == other.space and overlap and (self.written or other.written)


@dataclass(frozen=True, eq=False)
class QueuedWork:
    """A copy or a computation: commands on one queue."""

    number: int
    """Position in program order."""
    node: Copy | Compute
    queue: int
    uses: tuple[MemoryUse, ...]


@dataclass(frozen=True, eq=False)
class Handover:
    """An acquire, commit, wait or release."""

    node: Hand


@dataclass(frozen=True, eq=False)
class Fence:
    """All cores meet: what follows may use what any of them wrote."""

    node: Node


@dataclass(frozen=True, eq=False)
class StepLoop:
    """A loop of the program."""

    node: For
    body: tuple[Step, ...]


Step = Union[QueuedWork, Handover, Fence, StepLoop]


def walk(body: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, loops before what is in them."""
    for step in body:
        yield step
        if isinstance(step, StepLoop):
            yield from walk(step.body)


def works(body: tuple[Step, ...]) -> Iterator[QueuedWork]:
    """All work in program order."""
    return (step for step in walk(body) if isinstance(step, QueuedWork))


@dataclass
class Stepper:
    """Turns nodes into steps."""

    program: TileProgram
    queues: Queues
    count: int = 0

    def body(self, body: tuple[Node, ...]) -> tuple[Step, ...]:
        """The steps of a body."""
        return tuple(self.step(node) for node in body)

    def step(self, node: Node) -> Step:
        """One node's."""
        match node:
            case Copy() | Compute():
                self.count += 1
                return QueuedWork(self.count, node, self.queues.of(node), self.uses(node))
            case For():
                return StepLoop(node, self.body(node.body))
            case Role():
                raise unsupported(
                    node.origin,
                    f"{self.program.machine.name} has one thread of control a core, "
                    f"so there is no {node.name} beside the others",
                    "leave out `specialize`: its queues already run beside each other",
                )
            case Barrier():
                return Fence(node)
            case _:
                return Handover(node)

    def uses(self, node: Copy | Compute) -> tuple[MemoryUse, ...]:
        """Return what a node reads and writes, with the memory of its temporaries."""
        found = [self._use(r.buffer, written=False) for r in reads(node)]
        found += [self._use(r.buffer, written=True) for r in writes(node)]
        if isinstance(node, Compute):
            memory = self.program.machine.instruction(node.instruction).options.get("temporaries")
            if memory is not None:
                name = self.program.machine.memory(str(memory)).name
                found.append(
                    # Where temporaries end is known only when code is written.
                    MemoryUse(name, self._starts.get(name, 0), 1 << 62, written=True, buffer="")
                )
        return tuple(dict.fromkeys(found))

    def _use(self, name: str, *, written: bool) -> MemoryUse:
        place = self._places.get(name)
        if place is None:
            mark = ":" if name in self.program.params else "@"
            # Buffers of main memory do not overlap, so each is a space of its own, of one byte.
            return MemoryUse(f"{mark}{name}", 0, 1, written, name)
        return MemoryUse(place[0], place[1], place[1] + place[2], written, name)

    @cached_property
    def _starts(self) -> Mapping[str, int]:
        """The offset of temporaries in each memory that holds buffers, too."""
        return shared_with_buffers(self.program)

    @cached_property
    def _places(self) -> Mapping[str, tuple[str, int, int]]:
        """Memory, offset and size of every buffer outside of main memory."""
        main = self.program.machine.main_memory.name
        return {
            p.buffer: (p.memory, p.offset_bytes, p.size_bytes)
            for p in self.program.plan
            if p.memory != main
        }


def workspaces(program: TileProgram) -> tuple[tuple[str, int], ...]:
    """Buffers in main memory that the caller does not pass, with how many bytes each has.

    They are parameters of the generated function behind the program's own. One that is
    made for one core has a part for every core.
    """
    main = program.machine.main_memory.name
    cores = core_count(program)
    found = []
    for buffer in program.buffers:
        if buffer.memory == main and buffer.name not in program.params:
            size = buffer.layout.elements(buffer.shape) if buffer.shape else 1
            parts = cores if private(program, buffer.name) else 1
            found.append((buffer.name, size * buffer.stages * itemsize(buffer.dtype) * parts))
    return tuple(found)


def private(program: TileProgram, name: str) -> bool:
    """Whether each core has a part of its own of a buffer in main memory.

    It has if the buffer is made inside of a loop over cores, and all uses are in such loops.
    One that is made outside is common to the cores, even if all its uses are in one loop over
    them: with a sequential loop around that, one core reads what another one wrote an
    iteration before.
    """
    around = set(_around_cores(program.body))
    made_inside = not set(program.buffer(name).own) <= around
    return made_inside and not any(_uses_outside(node, name) for node in program.body)


def _around_cores(body: tuple[Node, ...]) -> Iterator[Var]:
    """The indices of the loops outside of those over cores."""
    for node in body:
        if isinstance(node, For) and node.processor is None:
            yield node.variable
            yield from _around_cores(node.body)


def _uses_outside(node: Node, name: str) -> bool:
    """Whether a buffer is used outside of the loops over cores."""
    if isinstance(node, For):
        return node.processor is None and any(_uses_outside(n, name) for n in node.body)
    return name in {r.buffer for r in (*reads(node), *writes(node))} | set(tables(node))


def core_count(program: TileProgram) -> int:
    """Control cores of the machine."""
    return math.prod(p.count for p in program.machine.processors)
