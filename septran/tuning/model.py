"""The performance model: the time of a tile program, and the use of each resource in it.

Of a machine whose units have in-order queues with costs in cycles, a DSA, the time is that of the
schedule (`timing`), which has each command, each flag and each wait of the control program.

Of a machine whose memories are caches, a CPU, `cache_model` estimates it: steps take turns, and
data is found where its last use has left it.

Of others, GPUs, it is that of the busiest resource (a roofline), a lower bound under these
assumptions, which `Prediction.notes` repeats for readers:

- all resources work beside each other (`Prediction.seconds`); `without_overlap` is the
  sum, for a machine that does one thing after the other;
- what is read from a memory and what is written to it share its bandwidth, unless the machine
  file calls it ``duplex``; a memory that several edges share is a resource of its own;
- throughputs are those of one core (one multiprocessor), the level next to the host;
  parallel iterations are spread over them in whole waves;
- matrix units compute ragged tiles in full, vector units what exists of them;
- each call of a primitive reads each operand once;
- of a cache that the hardware fills by itself (``vendor: {cache: ...}``), what blocks of one
  wave read in common comes from main memory once, and so does what a block reads again in the
  same turn of its loops; nothing stays from one wave to the next;
- latencies, synchronisation and launches are free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from septran.backends import Backend, backend_of
from septran.dtypes import itemsize
from septran.errors import SepTranError
from septran.ir.index import Index, Var
from septran.ir.primitives import PRIMITIVES
from septran.machine.model import Instruction, Machine, Memory
from septran.tile.analyses.cycle_bound import CycleBound, cycle_bound
from septran.tile.analyses.indirect import supposed, supposition
from septran.tile.analyses.loops import most_iterations, ranges_of, trips, walk
from septran.tile.analyses.tallies import amount as exact_amount
from septran.tile.interpret.storage import evaluate_index
from septran.tile.nodes import Compute, Copy, For, Region, TileProgram, reads, writes
from septran.timing.schedule import UnitSchedule
from septran.tuning.cache_model import CacheModel, Times, has_caches
from septran.tuning.operations import instruction_of, operations, rate_of, space

MOST_ENUMERATED = 1 << 22
"""The number of iterations up to which they are enumerated; of more, no reuse is counted."""


def distinct_share(region: Region, loops: Sequence[For], units: int, level: str) -> float:
    """Return the share of a region's reads under `loops` that are the first in their wave.

    `level` is the processor level whose `units` run side by side; loops inside of it over no
    processor of their own are the turns of persistent units.
    """
    spread = [loop for loop in loops if loop.processor == level]
    persistent = [loop for loop in loops if loop.kind == "parallel" and loop.processor is None]
    order = [*persistent, *spread]
    known = ranges_of(tuple(loops))
    sizes = [known[loop.variable][1] + 1 for loop in order]
    total = math.prod(sizes)
    if not spread or total > MOST_ENUMERATED:
        return 1.0
    flat = np.arange(total)
    values: dict[Var, Any] = {loop.variable: np.zeros(total, np.int64) for loop in loops}
    for loop, digit in zip(order, np.unravel_index(flat, sizes), strict=True):
        values[loop.variable] = digit
    runs = np.ones(total, bool)
    for loop in order:
        runs &= values[loop.variable] < evaluate_index(loop.extent.at_most(), values)
    width = math.prod(sizes[len(persistent) :])
    # A wave is one turn of all units: its reads of one start come from main memory once.
    waves = flat // width * -(-width // units) + flat % width // units
    keys = [np.broadcast_to(evaluate_index(e, values), (total,)) for e in _starts(region)]
    rows = np.stack([waves, *keys], axis=1)[runs]
    return len(np.unique(rows, axis=0)) / len(rows) if len(rows) else 1.0


def _starts(region: Region) -> list[Index]:
    """Return the start of a region along each axis of its tensor."""
    return list(region.origin())


NOTES = (
    "peak figures of the machine file; every resource busy at the same time",
    "reads and writes of one memory share its bandwidth; caches keep what one wave reads",
    "matrix units compute ragged tiles in full; latencies and synchronisation are free",
)
SCHEDULE_NOTES = (
    "every command, flag and wait of the control program, at the costs of the machine file",
    "cores share main memory's port equally; what a core waits for another one is left out",
)
CACHE_NOTES = (
    "steps one after another; of a step's instructions and data, half of the shorter is hidden",
    "caches keep what fits between two uses, also from the last call; latencies are free",
)


@dataclass(frozen=True)
class Limit:
    """The time for which one resource is busy."""

    kind: str
    """The kind of resource: ``compute``, ``edge``, a ``memory`` that several edges share, or
    ``start`` of work on some processors."""
    name: str
    """An instruction, a memory edge such as ``DRAM -> L2``, or a memory."""
    amount: float
    """The number of operations, of bytes, or of starts."""
    seconds: float

    @property
    def rate(self) -> float | None:
        """Operations or bytes a second that the mapping can draw from it."""
        return self.amount / self.seconds if self.seconds else None


@dataclass(frozen=True)
class Prediction:
    """The limits of a program, the busiest resource first."""

    limits: tuple[Limit, ...]
    units: int
    """The number of cores (multiprocessors) of the machine."""
    units_used: int
    """The number of those that have work."""
    notes: tuple[str, ...] = NOTES
    schedule: UnitSchedule | None = None
    """When each unit works, on machines whose units have queues (DSAs), else None."""
    bound: CycleBound | None = None
    """The cycles that no schedule of the program goes below, on these machines."""
    hertz: float = 0.0
    """Cycles a second, where there are cycles: times are then those of the cycles."""
    computing: frozenset[str] = frozenset()
    """The units that compute, of those of the schedule and the bound."""
    total: float | None = None
    """The time of all steps in turn, on a machine with caches (`cache_model`); None of others."""

    @property
    def cycles(self) -> int | None:
        """The predicted cycles; None on machines that are not counted in cycles."""
        if self.schedule is not None:
            return self.schedule.cycles
        return None if self.bound is None else self.bound.cycles

    @property
    def seconds(self) -> float:
        """The predicted time."""
        if self.cycles is not None and self.hertz:
            return self.cycles / self.hertz
        if self.total is not None:
            return self.total
        return max((limit.seconds for limit in self.limits), default=0.0)

    @property
    def without_overlap(self) -> float:
        """The time in seconds if nothing overlaps."""
        if self.bound is not None and self.hertz:
            busy = sum(unit.busy for unit in self.bound.units)
            return max(self.seconds, busy / self.hertz)
        # A memory is busy while the edges at it are.
        steps = sum(limit.seconds for limit in self.limits if limit.kind != "memory")
        return max(self.total or 0.0, steps)

    @property
    def operations(self) -> float:
        """The number of operations of all instructions; a multiply-add is two."""
        return sum(limit.amount for limit in self.limits if limit.kind == "compute")

    @property
    def bytes_moved(self) -> float:
        """The number of bytes over all memory edges."""
        return sum(limit.amount for limit in self.limits if limit.kind == "edge")

    @property
    def bound_by(self) -> Limit | None:
        """The busiest resource; None for a program that does nothing."""
        if self.bound is not None and self.hertz:
            by = self.bound.by
            kind = "compute" if by.name in self.computing else "edge"
            return Limit(kind, by.name, by.total, self.seconds)
        return self.limits[0] if self.limits else None


def predict(program: TileProgram) -> Prediction:
    """Return the model's prediction for one program.

    Where tensors choose rows or count iterations, it is that of `supposed`, and a note says so.
    """
    even = has_caches(program.machine)
    said = supposition(program, even)
    found = _predicted(supposed(program, even), program)
    return replace(found, notes=(*found.notes, said)) if said else found


def _predicted(program: TileProgram, original: TileProgram) -> Prediction:
    """The prediction of a program without indirect views, which stands for `original`."""
    if has_caches(program.machine):
        return _in_caches(program)
    usage = _Usage(program)
    for node, loops in walk(program.body):
        if isinstance(node, Compute):
            usage.compute(node, loops)
        elif isinstance(node, Copy):
            usage.copy(node, loops)
    units, used, unknown = usage.units, usage.most_used, _left_out(usage.unknown)
    backend = backend_of(program.machine.backend)
    if not backend.simulated:
        usage.share_memories()
        return Prediction(_limits(usage.times), units, used, NOTES + unknown)
    limits = _limits(usage.times)
    hertz = (program.machine.clock_mhz or 0.0) * 1e6
    schedule, notes = _schedule(backend, original)
    bound = least_cycles(program)
    computing = frozenset(one.queue for one in program.machine.instructions)
    return Prediction(limits, units, used, notes + unknown, schedule, bound, hertz, computing)


def least_cycles(program: TileProgram) -> CycleBound | None:
    """The cycles that no schedule of a program goes below; None where units have no cycles."""
    simulated = backend_of(program.machine.backend).simulated
    return cycle_bound(supposed(program)) if simulated else None


def _schedule(
    backend: Backend, program: TileProgram
) -> tuple[UnitSchedule | None, tuple[str, ...]]:
    """The schedule with what it assumes; none where it cannot be worked out, with the reason."""
    if backend.schedule is None:
        return None, NOTES
    try:
        return backend.schedule(program), SCHEDULE_NOTES
    except SepTranError as error:
        return None, (f"the least cycles, as no schedule is known: {error.message}", *NOTES)


def _in_caches(program: TileProgram) -> Prediction:
    """The answer for a machine with caches, whose steps take turns."""
    model = CacheModel(program)
    times = model.run()
    limits, notes = _limits(times), CACHE_NOTES + _left_out(model.unknown)
    total = times.total if limits else 0.0
    return Prediction(limits, model.units, model.most_used, notes, total=total)


def _limits(times: Times) -> tuple[Limit, ...]:
    """The resources with what they do, the busiest first."""
    found = (Limit(*key, times.amounts[key], seconds) for key, seconds in times.seconds.items())
    return tuple(sorted(found, key=lambda limit: (-limit.seconds, limit.kind, limit.name)))


def _left_out(unknown: set[str]) -> tuple[str, ...]:
    return tuple(f"no figure for {what}: left out" for what in sorted(unknown))


@dataclass
class _Usage:
    """The sums of amounts and seconds by resource."""

    program: TileProgram
    times: Times = field(default_factory=Times)
    unknown: set[str] = field(default_factory=set)
    most_used: int = 1
    ports: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """By memory (of a duplex one, by side) and edge, the bytes and seconds of its being busy."""
    known: set[tuple[Any, ...]] = field(default_factory=set)
    """What is read from main memory, by where it starts and in which loops."""

    @property
    def machine(self) -> Machine:
        return self.program.machine

    @property
    def units(self) -> int:
        """The number of units next to the host, over which parallel loops are spread."""
        inner = self.machine.processors[1:2]
        return max(1, inner[0].count) if inner else 1

    def busiest(self, loops: tuple[For, ...]) -> float:
        """Return the share of all iterations that the unit with the most of them runs."""
        tops = most_iterations(loops)
        spread = math.prod(n for n, loop in zip(tops, loops, strict=True) if self._spreads(loop))
        if spread <= 0:
            return 0.0
        self.most_used = max(self.most_used, min(spread, self.units))
        # Whole waves: the last one takes as long as the others, however few units have work.
        return math.ceil(spread / self.units) / spread

    def _spreads(self, loop: For) -> bool:
        return loop.processor is not None and self.machine.depth(loop.processor) == 1

    def compute(self, node: Compute, loops: tuple[For, ...]) -> None:
        instruction = instruction_of(self.machine, node)
        work = sum(
            each * _total(space, loops, full=bool(instruction and instruction.tile))
            for each, space in _spaces(node, instruction)
        )
        rate = rate_of(self.machine, instruction, self._dtype(node))
        if rate is None:
            self.unknown.add(f"the throughput of {node.instruction}")
        else:
            seconds = work * self.busiest(loops) / rate
            self.times.add("compute", node.instruction, work, seconds)
        for region in reads(node):
            self._direct(region, loops, "{} -> compute")
        for region in writes(node):
            self._direct(region, loops, "compute -> {}")

    def _dtype(self, node: Compute) -> str:
        return self.program.buffer(node.operands[0].buffer).dtype

    def _direct(self, region: Region, loops: tuple[For, ...], name: str) -> None:
        """Add operands used in place, which also move between their memory and the instruction."""
        place = self._memory(region)
        reading = name.endswith("compute")
        sides = (place, None) if reading else (None, place)
        self._edge(name.format(place.name), region, loops, sides)

    def copy(self, node: Copy, loops: tuple[For, ...]) -> None:
        engine = self.machine.engine(node.engine)
        speed = None
        if engine.bytes_per_cycle and self.machine.clock_mhz:
            speed = engine.bytes_per_cycle * self.machine.clock_mhz * 1e6
        source, target = self._memory(node.source), self._memory(node.target)
        inwards = target.name != self.machine.main_memory.name
        region = node.source if inwards else node.target
        name = f"{source.name} -> {target.name}"
        self._edge(name, region, loops, (source, target), speed)

    def _memory(self, region: Region) -> Memory:
        return self.machine.memory(self.program.buffer(region.buffer).memory)

    def _first(self, region: Region, loops: tuple[For, ...], *, reading: bool) -> float:
        """Return the share of a region's accesses that no cache of the hardware answers."""
        if "cache" not in self.machine.vendor or not any(loop.processor for loop in loops):
            return 1.0
        key = (region.buffer, *_starts(region), region.shape, *(loop.variable for loop in loops))
        if reading and key in self.known:
            return 0.0
        if reading:
            self.known.add(key)
        return distinct_share(region, loops, self.units, self.machine.processors[1].name)

    def _edge(
        self,
        name: str,
        region: Region,
        loops: tuple[For, ...],
        sides: tuple[Memory | None, Memory | None],
        speed: float | None = None,
    ) -> None:
        """Add a region's bytes along an edge, at the rate of its narrowest part.

        `sides` are the memories that are read and written; None where the instruction is.
        """
        width = itemsize(self.program.buffer(region.buffer).dtype)
        size = exact_amount(region, loops)[1] * width
        share = self.busiest(loops)
        main = self.machine.main_memory
        at_main = float(size)
        if main in sides:
            at_main = size * self._first(region, loops, reading=sides[0] == main)
        busy = []
        for place, rate, side in zip(sides, _rates(sides), ("reads", "writes"), strict=True):
            if place is not None and rate:
                amount = at_main if place == main else size
                port = f"{place.name} {side}" if place.duplex else place.name
                # What each unit has for itself is as busy as the unit with most iterations.
                alone = self.machine.depth(place.visible_to) > 0
                busy.append(amount * (share if alone else 1.0) / rate)
                self._at_port(port, name, amount, busy[-1])
        if speed:
            busy.append(at_main * share / speed)
        if size and not busy and None not in sides:
            self.unknown.add(f"the bandwidth of {name}")
        if at_main and busy:
            within = sides[0] is not None and sides[0] == sides[1] and not sides[0].duplex
            self.times.add("edge", name, at_main, sum(busy) if within else max(busy))

    def _at_port(self, port: str, edge: str, size: float, seconds: float) -> None:
        """Note for how long an edge keeps a memory busy."""
        edges = self.ports.setdefault(port, {})
        before = edges.get(edge, (0.0, 0.0))
        edges[edge] = (before[0] + size, before[1] + seconds)

    def share_memories(self) -> None:
        """Add each memory that several edges keep busy, for as long as all of them do."""
        for name, edges in self.ports.items():
            if len(edges) > 1:
                sizes, seconds = zip(*edges.values(), strict=True)
                self.times.add("memory", name, sum(sizes), sum(seconds))


def _rates(sides: tuple[Memory | None, Memory | None]) -> tuple[float | None, float | None]:
    """Bytes a second at which the one is read and the other is written."""
    source, target = sides
    reads = source.bytes_per_second if source else None
    writes = (target.write_bytes_per_second or target.bytes_per_second) if target else None
    return reads, writes


def _spaces(node: Compute, instruction: Instruction | None) -> Iterator[tuple[float, Region]]:
    """Yield the work of one call: operations a point, and the points as a region's extents."""
    if node.expression is not None:
        yield from operations(node, instruction, code=False)
        return
    contract = PRIMITIVES.get(node.primitive)
    target = node.operands[0]
    if contract is None or not contract.reduction:
        yield 1, target
        return
    extents: dict[str, tuple[int, Index]] = {}
    for letters, region in zip(contract.axes, node.operands, strict=True):
        extents |= dict(zip(letters, zip(region.shape, region.valid, strict=True), strict=True))
    shape, valid = zip(*extents.values(), strict=True)
    yield contract.flops({a: 1 for a in extents}), space(shape, valid)


def _total(space: Region, loops: tuple[For, ...], *, full: bool) -> float:
    """The points of all calls: those that exist, or of full tiles, as matrix units compute."""
    if full:
        return float(trips(loops) * math.prod(space.shape))
    return float(exact_amount(space, loops)[1])
