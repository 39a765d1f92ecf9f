"""The roofs of a DSA: what each of its units and edges can do in a second."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from septran.machine.model import Machine


@dataclass(frozen=True)
class Roof:
    """The most there can be of one thing."""

    name: str
    """An instruction, an engine, or the main memory."""
    kind: str
    """``compute`` (operations) or ``memory`` (bytes of main memory)."""
    per_second: float
    """Of the whole machine."""


def roofs(machine: Machine) -> tuple[Roof, ...]:
    """Every instruction with a throughput, main memory, and engines that are narrower."""
    return tuple(_roofs(machine))


def _roofs(machine: Machine) -> Iterator[Roof]:
    hertz = (machine.clock_mhz or 0) * 1e6
    cores = math.prod(processor.count for processor in machine.processors)
    for one in machine.instructions:
        if one.throughput and hertz and one.primitive in ("gemm", "map"):
            each = 2 if one.primitive == "gemm" else 1
            yield Roof(one.name, "compute", one.throughput * each * hertz * cores)
    main = machine.main_memory
    if main.bytes_per_second:
        yield Roof(main.name, "memory", main.bytes_per_second)
    for engine in machine.engines:
        if engine.bytes_per_cycle and any(main.name in edge for edge in engine.moves):
            rate = engine.bytes_per_cycle * hertz * cores
            if not main.bytes_per_second or rate < main.bytes_per_second:
                yield Roof(engine.name, "memory", rate)
