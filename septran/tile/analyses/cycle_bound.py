"""A lower bound on the cycles of a tile program on a machine with costs in whole cycles.

No schedule of the program is faster than its busiest unit, which can begin only when its first
operands have arrived, and whose last results have a way to go:

- the units are the engines, the queues of the instructions, and main memory's port;
- an engine moves its bytes at its rate, and all of them share the port;
- a matrix unit takes ``cycles`` for each `tile` it touches, a vector unit one cycle for
  ``lanes`` elements (times ``exp_factor``), each ``startup_cycles`` for a call;
- the prologue is the time that the first operands take to the unit, the epilogue that of the last
  results from it, both in the program's first and last iterations.

Delays that are not counted, such as a unit that waits for another in each iteration, are what a
run may lose against the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.machine.model import Instruction, Machine
from septran.tile.analyses.loops import trips, walk
from septran.tile.analyses.tallies import amount, tally
from septran.tile.nodes import (
    Compute,
    Copy,
    For,
    Node,
    Region,
    Role,
    TileProgram,
    reads,
    writes,
)

COSTLY = frozenset(("exp", "exp2", "log", "log2", "tanh", "sigmoid", "erf", "sin", "cos", "power"))
"""The functions that take ``exp_factor`` times as long as others."""


@dataclass(frozen=True)
class UnitCycles:
    """A lower bound on the time for which one unit is busy, in cycles."""

    name: str
    """The name of an engine, a queue of instructions, or the main memory (its port)."""
    busy: int
    prologue: int
    """Cycles before its first work can begin."""
    epilogue: int
    """Cycles after its last work until the results have arrived."""

    @property
    def total(self) -> int:
        """Cycles from the start of the run to its end."""
        return self.busy + self.prologue + self.epilogue


@dataclass(frozen=True)
class CycleBound:
    """A lower bound on the cycles of a run, with its parts."""

    units: tuple[UnitCycles, ...]
    """The units, the busiest first."""

    @property
    def by(self) -> UnitCycles:
        """The unit with the longest time, which bounds the program."""
        return max(self.units, key=lambda unit: unit.total)

    @property
    def cycles(self) -> int:
        """The cycles of that unit with prologue and epilogue."""
        return self.by.total

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready data."""
        units = [asdict(unit) for unit in self.units]
        return {"cycles": self.cycles, "by": self.by.name, "units": units}

    def __str__(self) -> str:
        by = self.by
        parts = [f"{by.busy:,} {by.name}"]
        parts += [f"{by.prologue:,} before it"] if by.prologue else []
        parts += [f"{by.epilogue:,} after it"] if by.epilogue else []
        others = [f"{unit.name} {unit.busy:,}" for unit in self.units if unit != by]
        return f"bound: {self.cycles:,} cycles ({' + '.join(parts)})" + "".join(
            f"; {other}" for other in others
        )


def cycle_bound(program: TileProgram) -> CycleBound | None:
    """Return the bound of `program`; None where its machine or its body has nothing to count."""
    costs = _Costs(program)
    busy: dict[str, float] = {}
    for node, loops in walk(program.body):
        for unit, cycles in costs.busy(node, loops):
            busy[unit] = busy.get(unit, 0.0) + cycles
    if not busy:
        return None
    first, last = (list(_path(program.body, {}, at_end)) for at_end in (False, True))
    units = [
        UnitCycles(unit, math.ceil(n), costs.prologue(unit, first), costs.epilogue(unit, last))
        for unit, n in busy.items()
    ]
    return CycleBound(tuple(sorted(units, key=lambda unit: -unit.busy)))


@dataclass(frozen=True)
class _Step:
    """A copy or computation in one iteration."""

    node: Copy | Compute
    values: Mapping[Var, int]

    def keys(self, regions: tuple[Region, ...]) -> Iterator[tuple[str, int]]:
        """Yield the buffers of regions with their stage."""
        for region in regions:
            yield region.buffer, region.stage.substitute(self.values).constant


def _path(body: tuple[Node, ...], values: Mapping[Var, int], at_end: bool) -> Iterator[_Step]:
    """Yield the nodes of each loop's first (last) iteration, in program order."""
    for node in body:
        match node:
            case For():
                extent = node.extent.at_most().substitute(values).constant
                if extent > 0:
                    now = {**values, node.variable: extent - 1 if at_end else 0}
                    yield from _path(node.body, now, at_end)
            case Role():
                yield from _path(node.body, values, at_end)
            case Copy() | Compute():
                yield _Step(node, values)


@dataclass(frozen=True)
class _Costs:
    """The cycles of nodes on the program's machine."""

    program: TileProgram

    @property
    def machine(self) -> Machine:
        return self.program.machine

    def busy(self, node: Node, loops: tuple[For, ...]) -> Iterator[tuple[str, float]]:
        """The units that a node keeps busy, with the cycles of all its iterations on one core."""
        share = self._share(loops)
        if isinstance(node, Compute):
            unit = self._instruction(node)
            if unit is not None:
                yield unit.queue, share * self._computing(node, unit, loops, {})
        elif isinstance(node, Copy):
            moved = amount(node.source, loops)[1] * self._width(node.source)
            rate = self.machine.engine(node.engine).bytes_per_cycle
            if rate:
                yield node.engine, share * moved / rate
            # All cores share main memory's port, so the bytes of all of them count.
            port = self._port_rate
            if port and self._over_port(node):
                yield self.machine.main_memory.name, moved / port

    def prologue(self, unit: str, path: list[_Step]) -> int:
        """Return when the first work of `unit` can begin, if only its operands delay it."""
        # A list schedule of the path: a node starts when its operands are ready and its units
        # free. Only the first iteration of each loop is in it, which keeps it a lower bound.
        ready: dict[tuple[str, int], float] = {}
        free: dict[str, float] = {}
        for step in path:
            node = step.node
            names = self._names(node)
            start = max((ready.get(key, 0.0) for key in step.keys(reads(node))), default=0.0)
            start = max(start, *(free.get(name, 0.0) for name in names)) if names else start
            cycles, latency = self._once(step)
            if unit in names:
                return math.floor(start + latency)
            for name in names:
                free[name] = start + cycles
            for key in step.keys(writes(node)):
                ready[key] = start + cycles + latency
        return 0

    def epilogue(self, unit: str, path: list[_Step]) -> int:
        """The time from the last work of `unit` to the end of all work that depends on it."""
        mine = [n for n, step in enumerate(path) if unit in self._names(step.node)]
        if not mine:
            return 0
        step = path[mine[-1]]
        # Time counts from the end of that work. No node waits for its unit here, and what does not
        # depend on it is left out: both can only make the bound lower.
        ready = dict.fromkeys(step.keys(writes(step.node)), 0.0)
        latest = 0.0
        for step in path[mine[-1] + 1 :]:
            before = [ready[key] for key in step.keys(reads(step.node)) if key in ready]
            if before:
                end = max(before) + sum(self._once(step))
                latest = max(latest, end)
                ready |= dict.fromkeys(step.keys(writes(step.node)), end)
        return math.floor(latest)

    def _names(self, node: Copy | Compute) -> list[str]:
        """Return the units that a node uses."""
        if isinstance(node, Copy):
            port = [self.machine.main_memory.name] if self._over_port(node) else []
            return [node.engine, *port]
        unit = self._instruction(node)
        return [unit.queue] if unit else []

    def _once(self, step: _Step) -> tuple[float, float]:
        """The cycles for which a node keeps its unit busy in one iteration, and its latency."""
        node = step.node
        if isinstance(node, Copy):
            engine = self.machine.engine(node.engine)
            here = node.source.substitute(step.values)
            points = math.prod(max(0, extent.constant) for extent in here.valid)
            moved = points * self._width(here)
            return moved / engine.bytes_per_cycle if engine.bytes_per_cycle else 0.0, (
                engine.latency_cycles
            )
        unit = self._instruction(node)
        if unit is None:
            return 0.0, 0.0
        return self._computing(node, unit, (), step.values), 0.0

    def _computing(
        self, node: Compute, unit: Instruction, loops: tuple[For, ...], values: Mapping[Var, int]
    ) -> float:
        """Return the cycles of all runs of a computation under `loops`."""
        cycles = 0.0
        startup = float(unit.options.get("startup_cycles", 0))
        for piece in _pieces(node, unit):
            valid = tuple(extent.substitute(values) for extent in piece.valid)
            calls, points = tally(valid, piece.shape, loops, piece.steps)
            cycles += calls * startup + points * piece.cycles
        return cycles

    def _instruction(self, node: Compute) -> Instruction | None:
        try:
            return self.machine.instruction(node.instruction)
        except KeyError:
            return None

    def _share(self, loops: tuple[For, ...]) -> float:
        """Return the least share of all iterations that the core with the most of them runs."""
        cores = math.prod(processor.count for processor in self.machine.processors)
        spread = tuple(loop for loop in loops if loop.processor is not None)
        around = {loop.variable for loop in loops} - {loop.variable for loop in spread}
        if any(around & loop.extent.variables() for loop in spread):
            return 1 / cores  # each time another number of iterations: an even share at best
        many = trips(spread) if spread else 0
        return math.ceil(many / cores) / many if many else 1.0

    @property
    def _port_rate(self) -> float:
        """The rate of main memory in bytes a cycle; 0 where the machine file does not say."""
        hertz = (self.machine.clock_mhz or 0) * 1e6
        return (self.machine.main_memory.bytes_per_second or 0) / hertz if hertz else 0.0

    def _over_port(self, copy: Copy) -> bool:
        ends = (copy.source.buffer, copy.target.buffer)
        main = self.machine.main_memory.name
        return any(self.program.buffer(end).memory == main for end in ends)

    def _width(self, region: Region) -> int:
        return itemsize(self.program.buffer(region.buffer).dtype)


@dataclass(frozen=True)
class _Piece:
    """The work of one command, at least, of a computation."""

    valid: tuple[Index, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    """The number of points along each axis that the unit takes at a time."""
    cycles: float
    """The cycles for each of those blocks."""


def _pieces(node: Compute, unit: Instruction) -> Iterator[_Piece]:
    """Yield the pieces of work that a computation gives to its unit."""
    if node.primitive == "gemm":
        (m, n), (_, k) = node.operands[0].valid, node.operands[1].valid
        rows, columns = node.operands[0].shape
        tile = unit.tile or (1, 1, 1)
        each = math.prod(tile) / (unit.throughput or math.inf)
        cycles = float(unit.options.get("cycles", each))
        yield _Piece((m, n, k), (rows, columns, node.operands[1].shape[1]), tile, cycles)
        return
    lanes = float(unit.options.get("lanes", unit.throughput or math.inf))
    slow = float(unit.options.get("exp_factor", 1))
    # Equal parts count once, as code may compute them once: a lower bound must allow for that.
    parts = list(dict.fromkeys(ex.walk(node.expression))) if node.expression else []
    found = False
    for part in parts:
        # A reduction takes each element of its operand; other parts make each of their own.
        space: ex.Expr = part.operand if isinstance(part, ex.Reduce) else part
        if isinstance(part, ex.Unary | ex.Binary | ex.Select | ex.Reduce):
            found = True
            function = part.function if isinstance(part, ex.Unary | ex.Binary) else ""
            cycles = (slow if function in COSTLY else 1.0) / lanes
            yield _Piece(space.valid, space.shape, (1,) * len(space.shape), cycles)
    if not found:
        target = node.operands[0]
        yield _Piece(target.valid, target.shape, (1,) * len(target.shape), 1 / lanes)
