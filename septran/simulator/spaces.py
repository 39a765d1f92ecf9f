"""The memories of a run: the kernel's parameters and each instance of each scratchpad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from septran.dtypes import POISON
from septran.simulator.commands import LOCAL_BITS, PARAMETER_BITS
from septran.simulator.errors import CommandError
from septran.simulator.hardware import Hardware

Array = np.ndarray[Any, Any]

_OFFSET = (1 << PARAMETER_BITS) - 1


@dataclass(frozen=True)
class Spaces:
    """The address spaces, numbered with the parameters first."""

    hardware: Hardware
    parameters: tuple[Array, ...]
    """Flat bytes of each."""

    @staticmethod
    def of(hardware: Hardware, parameters: Sequence[Array]) -> Spaces:
        """The parameters as flat bytes, without a copy."""
        flat = []
        for n, parameter in enumerate(parameters):
            if not parameter.flags.c_contiguous:
                raise CommandError(f"parameter {n} is not contiguous")
            flat.append(parameter.reshape(-1).view(np.uint8))
        return Spaces(hardware, tuple(flat))

    @cached_property
    def _first(self) -> list[int]:
        """Space of the first instance of each memory."""
        first, count = [], len(self.parameters)
        for memory in self.hardware.machine.memories:
            first.append(count)
            count += self.hardware.cores // self.hardware.cores_sharing(memory)
        return [*first, count]

    @property
    def count(self) -> int:
        """The number of spaces."""
        return self._first[-1]

    def locate(self, address: Array, core: Array) -> tuple[Array, Array]:
        """Space (-1 where there is none) and offset of each address."""
        top, offset = address >> PARAMETER_BITS, address & _OFFSET
        # The bit LOCAL_BITS is that of the core's own memories, with their number below it.
        local = top - (1 << (LOCAL_BITS - PARAMETER_BITS))
        first, sharing = self._local
        here = (local >= 0) & (local < first.size)
        # Any number that there is, where it is none: `here` decides below.
        number = np.where(here, local, 0)
        parameter = np.where((top > 0) & (top <= len(self.parameters)), top - 1, -1)
        return np.where(here, first[number] + core // sharing[number], parameter), offset

    @cached_property
    def _local(self) -> tuple[Array, Array]:
        """For each memory its first space, and how many cores share one."""
        memories = self.hardware.machine.memories
        sharing = [self.hardware.cores_sharing(memory) for memory in memories]
        return np.array(self._first[:-1]), np.array(sharing)

    @cached_property
    def memory(self) -> Array:
        """Number of the machine's memory that each space is in (and one more for -1)."""
        numbers = [0] * len(self.parameters)
        for n in range(len(self.hardware.machine.memories)):
            numbers += [n] * (self._first[n + 1] - self._first[n])
        return np.array([*numbers, -1])

    @cached_property
    def sizes(self) -> Array:
        """Bytes of each; effectively infinite where the machine file has no capacity."""
        sizes = [p.size for p in self.parameters]
        for space in range(len(self.parameters), self.count):
            capacity = self.hardware.machine.memories[self.memory[space]].capacity_bytes
            sizes.append(capacity if capacity is not None else _OFFSET)
        return np.array([*sizes, 0], np.int64)

    def name(self, space: int) -> str:
        """``parameter 2`` or ``SPM`` or ``SPM of core 1``."""
        if space < 0:
            return "no memory"
        if space < len(self.parameters):
            return f"parameter {space}"
        number = int(self.memory[space])
        memory = self.hardware.machine.memories[number]
        instance = space - self._first[number]
        shared = self.hardware.cores_sharing(memory)
        if self._first[number + 1] - self._first[number] == 1:
            return memory.name
        return f"{memory.name} of core {instance * shared}"

    def check_writable(self, written: Array) -> None:
        """Raise CommandError where a written space is a parameter that may only be read."""
        for n in written[written < len(self.parameters)].tolist():
            if not self.parameters[n].flags.writeable:
                raise CommandError(f"parameter {n} is written, and its array is read-only")

    def allocate(self, used: Array) -> tuple[Array, ...]:
        """Bytes of every space: the parameters, and fresh poison; `used` bytes at least."""
        found = list(self.parameters)
        for space in range(len(found), self.count):
            capacity = self.hardware.machine.memories[self.memory[space]].capacity_bytes
            size = int(used[space]) if capacity is None else capacity
            # Nothing reads the rest: a stream is checked before it runs.
            found.append(np.full(min(size, int(used[space])), POISON, np.uint8))
        return tuple(found)
