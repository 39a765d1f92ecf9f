"""The profile of a simulated run on a DSA: cycles, engines, bytes, stalls, origins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from septran.machine.model import Machine
from septran.simulator import CAUSES, Run
from septran.stage import Displayable, view
from septran.targets.dsa.profiles.lanes import Lane, lanes
from septran.targets.dsa.profiles.movement import CommandTexts, movement
from septran.tile.analyses.cycle_bound import CycleBound, cycle_bound
from septran.tile.nodes import TileProgram


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
            # A product's throughput is in FMA, which are two operations each.
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


Array = np.ndarray[Any, Any]
UNKNOWN = "(no origin)"
"""Where a command's line says nothing of what it came from."""


@dataclass(frozen=True)
class DsaProfile(Displayable):
    """One run, command by command; deterministic, so one run is enough.

    Cycles are the simulator's; a time is cycles at the machine file's clock.
    """

    name: str
    run: Run = field(repr=False)
    stream: Array = field(repr=False)
    """The commands that were carried out, as `commands.RECORD`."""
    origins: Mapping[int, str] = field(default_factory=dict, repr=False)
    """The origin of each line of the generated source."""
    program: TileProgram | None = field(default=None, repr=False)
    """None for a kernel that was loaded from a file: there are no channels and no bound."""

    @property
    def machine(self) -> str:
        """Name of the simulated machine."""
        return self.run.machine.name

    @property
    def cycles(self) -> int:
        """Until the last command has ended."""
        return self.run.cycles

    @property
    def seconds(self) -> float:
        """The cycles at the machine's clock."""
        return self.cycles / ((self.run.machine.clock_mhz or 1) * 1e6)

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """Each queue of each core that was used."""
        return lanes(self.run)

    @cached_property
    def utilisation(self) -> Mapping[str, float]:
        """Share of the cycles in which each queue works: the mean of the cores it is on."""
        cores = {lane.core for lane in self.lanes}
        sums: dict[str, float] = dict.fromkeys(self.run.queues, 0.0)
        for lane in self.lanes:
            sums[lane.queue] += lane.utilisation / len(cores)
        return sums

    @cached_property
    def stalls(self) -> Mapping[str, int]:
        """Stall cycles by cause, all lanes and control cores together."""
        return {cause: int(self.run.trace[cause].sum()) for cause in CAUSES}

    @cached_property
    def flops(self) -> int:
        """Operations that were carried out."""
        return int(self.run.trace["flops"].sum())

    @cached_property
    def movement(self) -> CommandTexts:
        """Edge, tensor and channel of each copy."""
        return movement(self.stream, self.run.machine, self.program)

    @cached_property
    def edge_bytes(self) -> Mapping[str, int]:
        """Bytes that engines moved, by memory edge."""
        return self._bytes_by(self.movement.edge)

    @cached_property
    def tensor_bytes(self) -> Mapping[str, int]:
        """Bytes that engines moved from and to the caller's tensors."""
        return self._bytes_by(self.movement.tensor)

    @cached_property
    def channel_bytes(self) -> Mapping[str, int]:
        """Bytes that went through each channel of the tile program."""
        return self._bytes_by(self.movement.channel)

    @cached_property
    def engine_bytes(self) -> Mapping[str, int]:
        """Bytes that each queue moved (copies) or touched (computations)."""
        return self.run.bytes

    @cached_property
    def main_memory_bytes(self) -> int:
        """Bytes that passed main memory's port."""
        main = self.run.machine.main_memory.name
        return sum(
            moved * edge.split(" -> ").count(main) for edge, moved in self.edge_bytes.items()
        )

    @property
    def flops_per_second(self) -> float:
        """Achieved, at the machine's clock."""
        return self.flops / self.seconds if self.cycles else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Achieved at main memory."""
        return self.main_memory_bytes / self.seconds if self.cycles else 0.0

    @property
    def intensity(self) -> float:
        """Operations for each byte of main memory; the roofline's x axis."""
        return self.flops / self.main_memory_bytes if self.main_memory_bytes else float("inf")

    @cached_property
    def roofs(self) -> tuple[Roof, ...]:
        """The roofline of the machine: its peaks and bandwidths."""
        return roofs(self.run.machine)

    @cached_property
    def bound(self) -> CycleBound | None:
        """The least cycles that the tile program needs on this machine."""
        return None if self.program is None else cycle_bound(self.program)

    @property
    def of_bound(self) -> float | None:
        """Cycles over the bound's; 1 is perfect."""
        if self.bound is None or not self.bound.cycles:
            return None
        return self.cycles / self.bound.cycles

    def origin(self, line: int) -> str:
        """The origin of a line of the generated source."""
        return self.origins.get(line) or UNKNOWN

    def to_pandas(self) -> Any:
        """The timeline as a `pandas.DataFrame`: one row a command, in the order of issue."""
        return view(self, "table")

    def by_origin(self) -> Any:
        """A `pandas.DataFrame` of an origin and queue a row: commands, cycles, bytes, stalls.

        `mapping` is the line of the mapping file that the origin names. Sorted by cycles.
        """
        return view(self, "origins")

    def plot(self, axes: Any = None, *, start: int = 0, end: int | None = None) -> Any:
        """A Gantt chart on Matplotlib axes, one lane a queue and core.

        Pass `start` and `end` (cycles) to look closer.
        """
        return view(self, "plot", axes, start, end)

    def plot_roofline(self, axes: Any = None) -> Any:
        """The achieved rates in the machine's roofline, on Matplotlib axes."""
        return view(self, "roofline", axes)

    def explore(self) -> Any:
        """The timeline as an interactive view: zoom, pan, and why each command is there."""
        return view(self, "live")

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write JSON that Perfetto (https://ui.perfetto.dev) and chrome://tracing open."""
        from septran.targets.dsa.profiles.chrome_trace import write

        return write(self, path)

    def timeline_text(self, width: int = 72) -> str:
        """The lanes as text: each column a part of the run, darker where busier."""
        from septran.targets.dsa.profiles.text import timeline

        return timeline(self, width)

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON-ready data."""
        bound = self.bound
        return {
            "name": self.name,
            "machine": self.machine,
            "cycles": self.cycles,
            "seconds": self.seconds,
            "flops": self.flops,
            "main_memory_bytes": self.main_memory_bytes,
            "flops_per_second": self.flops_per_second,
            "bytes_per_second": self.bytes_per_second,
            "utilisation": dict(self.utilisation),
            "lanes": [
                {
                    "core": lane.core, "queue": lane.queue, "commands": lane.commands,
                    "busy_cycles": lane.busy_cycles, "utilisation": lane.utilisation,
                    "bytes": lane.bytes, "flops": lane.flops, "stalls": dict(lane.stalls),
                }
                for lane in self.lanes
            ],
            "stalls": dict(self.stalls),
            "edge_bytes": dict(self.edge_bytes),
            "tensor_bytes": dict(self.tensor_bytes),
            "channel_bytes": dict(self.channel_bytes),
            "bound": None if bound is None else bound.to_dict(),
            "of_bound": self.of_bound,
        }  # fmt: skip

    def __str__(self) -> str:
        from septran.targets.dsa.profiles.text import summary

        return summary(self)

    def _bytes_by(self, names: Array) -> Mapping[str, int]:
        moved = self.run.trace["bytes"]
        found = dict.fromkeys(name for name in names if name)
        return {name: int(moved[names == name].sum()) for name in found}
