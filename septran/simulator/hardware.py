"""The machine file, as the simulator wants it: numbers in cycles and bytes, by position."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from septran.machine.model import Engine, Instruction, Machine, Memory
from septran.simulator.queues import Queues

ISSUE_CYCLES = 1
"""Cycles of the control core a command, where ``vendor: {issue_cycles: n}`` says nothing."""
QUEUE_DEPTH = 8
"""Entries of the queue of an instruction whose options have no ``queue_depth``."""


@dataclass(frozen=True)
class Queue:
    """One in-order queue of a core, and what feeds from it."""

    name: str
    number: int
    engines: tuple[Engine, ...] = ()
    instructions: tuple[Instruction, ...] = ()

    @property
    def depth(self) -> int | None:
        """Entries that wait at most; None where there is no limit."""
        engines = [e.queue_depth for e in self.engines]
        others = [int(i.options.get("queue_depth", QUEUE_DEPTH)) for i in self.instructions]
        known = [depth for depth in (*engines, *others) if depth is not None]
        return min(known, default=None)


@dataclass(frozen=True)
class Hardware:
    """A machine and the figures that follow from its file."""

    machine: Machine

    @cached_property
    def queues(self) -> tuple[Queue, ...]:
        """The queues by number, each with the units that take commands from it."""
        numbers = Queues(self.machine).numbers
        found: dict[int, Queue] = {}
        for engine in self.machine.engines:
            number = numbers[engine.name]
            old = found.get(number, Queue(engine.name, number))
            found[number] = Queue(old.name, number, (*old.engines, engine), old.instructions)
        for one in self.machine.instructions:
            name = one.queue
            number = numbers[name]
            old = found.get(number, Queue(name, number))
            # Where engines share it with instructions, it has the name of the first instruction's.
            label = old.name if old.instructions else name
            found[number] = Queue(label, number, old.engines, (*old.instructions, one))
        return tuple(found.get(n, Queue(f"{n}", n)) for n in range(max(found, default=-1) + 1))

    @cached_property
    def cores(self) -> int:
        """Control cores: units of the innermost processor level."""
        return math.prod(p.count for p in self.machine.processors)

    def cores_sharing(self, memory: Memory) -> int:
        """Return how many cores see one instance of a memory."""
        inner = self.machine.processors[self.machine.depth(memory.visible_to) + 1 :]
        return math.prod(p.count for p in inner)

    @property
    def issue_cycles(self) -> int:
        """Cycles of the control core for each command."""
        return int(self.machine.vendor.get("issue_cycles", ISSUE_CYCLES))

    @property
    def flag_depth(self) -> int:
        """The greatest count of a flag."""
        return Queues(self.machine).flag_depth

    @property
    def flags(self) -> int | None:
        """Flag numbers for each pair of queues; None where there is no limit."""
        return Queues(self.machine).flags

    def bytes_per_cycle(self, memory: Memory) -> float:
        """Bandwidth of one instance; infinite where the file says nothing."""
        if not memory.bytes_per_second:
            return math.inf
        return memory.bytes_per_second / self._hertz

    def latency(self, memory: Memory) -> int:
        """Cycles to the first byte."""
        return round((memory.latency_ns or 0) * self._hertz / 1e9)

    @property
    def _hertz(self) -> float:
        return (self.machine.clock_mhz or 1) * 1e6
