"""The cost of each command on its unit: cycles, bytes, operations.

- A copy: the engine's latency (or its memories', where longer), then its bytes at the
  engine's rate, shared with others where main memory is the narrower.
- ``mma``: ``startup_cycles`` and ``cycles`` for each `tile` it touches; edges are masked.
- Vector commands: ``startup_cycles`` and one cycle for every ``lanes`` elements, times
  ``exp_factor`` for transcendental functions.
- No command is faster than its on-chip operands' bytes at their memories' bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from septran.machine.model import Engine, Instruction
from septran.simulator.hardware import Hardware
from septran.simulator.hazards.accesses import Accesses
from septran.simulator.operands import CommandOperands
from septran.simulator.spaces import Spaces
from septran.simulator.stream import Commands, Stream

Array = np.ndarray[Any, Any]

TRANSCENDENTAL = frozenset(
    ("exp", "exp2", "log", "log2", "tanh", "sigmoid", "erf", "sin", "cos", "power")
)
"""Functions that take ``exp_factor`` as long."""


@dataclass(frozen=True)
class Costs:
    """One number a command."""

    cycles: Array
    """From start to end; of a copy from or to main memory only the latency."""
    shared_bytes: Array
    """Bytes that go over main memory's port; 0 for all but copies."""
    rate: Array
    """Bytes a cycle of the engine alone, where `shared_bytes` are not 0."""
    lead: Array
    """Cycles before the end at which the next copy of the same `pipe` may start."""
    pipe: Array
    """Number of a copy's engine and edge; -1 for what does not overlap its like."""
    bytes: Array
    flops: Array

    def expanded(self, form: Array) -> Costs:
        """Those of commands of which each has one of these, by number."""
        return Costs(*(getattr(self, f.name)[form] for f in fields(self)))


def costs(stream: Stream, spaces: Spaces, work: CommandOperands) -> Costs:
    """Cycles, bytes and operations of every command."""
    size = len(stream)
    cycles, lead, flops = (np.zeros(size, np.int64) for _ in range(3))
    pipe, rate = np.full(size, -1, np.int64), np.ones(size)
    traffic = _Traffic.of(stream.hardware, spaces, work.accesses, size)
    moved = traffic.total
    for batch in work.batches:
        at, unit = batch.group.at, batch.unit
        match unit:
            case Engine():
                # What a copy moves counts once, though it is read and written.
                moved[at] = traffic.written[at]
                alone = traffic.written[at] / (unit.bytes_per_cycle or math.inf)
                alone = np.maximum(alone, traffic.local_cycles[at])
                with np.errstate(divide="ignore", invalid="ignore"):
                    # Its pace on main memory's port where nothing else is on it.
                    rate[at] = np.where(alone > 0, traffic.shared[at] / alone, np.inf)
                lead[at] = cycles[at] = _latency(stream.hardware, unit, batch.edge)
                cycles[at] += np.where(traffic.shared[at] > 0, 0, np.ceil(alone).astype(np.int64))
                pipe[at] = _pipe(stream.hardware, unit, batch.edge)
            case Instruction():
                count, flops[at] = _compute(batch.group, unit)
                startup = int(unit.options.get("startup_cycles", 0))
                busy = np.ceil(np.maximum(count, traffic.local_cycles[at]))
                cycles[at] = startup + busy.astype(np.int64)
    shared = np.where(_copies(work, size), traffic.shared, 0)
    return Costs(cycles, shared, rate, lead, pipe, moved, flops)


def _copies(work: CommandOperands, size: int) -> Array:
    """Return which commands an engine carries out."""
    copies = np.zeros(size, bool)
    for batch in work.batches:
        copies[batch.group.at] = isinstance(batch.unit, Engine)
    return copies


@dataclass(frozen=True)
class _Traffic:
    """Bytes that each command touches."""

    total: Array
    written: Array
    shared: Array
    """Of main memory."""
    local_cycles: Array
    """Of the on-chip memory that is busy longest."""

    @staticmethod
    def of(hardware: Hardware, spaces: Spaces, accesses: Accesses, size: int) -> _Traffic:
        _, _, rows, _, columns, _, run = accesses.regions.T
        amount = (rows * columns * run)[accesses.region]
        memory = spaces.memory[accesses.space]
        count = len(hardware.machine.memories)
        key = accesses.command * count + memory
        table = np.bincount(key, amount, size * count).reshape(size, count)
        rates = np.array([hardware.bytes_per_cycle(m) for m in hardware.machine.memories])
        write = accesses.write
        written = np.bincount(accesses.command[write], amount[write], size)
        # Memory 0 is main memory, whose time is the port's matter.
        local = (table[:, 1:] / rates[1:]).max(axis=1, initial=0.0)
        return _Traffic(
            table.sum(axis=1).astype(np.int64),
            written.astype(np.int64),
            table[:, 0].astype(np.int64),
            local,
        )


def _latency(hardware: Hardware, engine: Engine, edge: tuple[int, int]) -> int:
    memories = [hardware.machine.memories[n] for n in edge if n >= 0]
    return max(engine.latency_cycles, *(hardware.latency(m) for m in memories))


def _pipe(hardware: Hardware, engine: Engine, edge: tuple[int, int]) -> int:
    """Copies of one direction follow each other closely: none can read what one writes."""
    if edge[0] == edge[1]:
        return -1
    # Memory -1 is nothing, where zeros come from: one more number, counted from 1.
    width = len(hardware.machine.memories) + 1
    number = hardware.machine.engines.index(engine)
    return (number * width + edge[0] + 1) * width + edge[1] + 1


def _compute(group: Commands, unit: Instruction) -> tuple[Array, Array]:
    """Cycles but for the start, and operations."""
    if group.command.name == "mma":
        extents = [group[name] for name in ("m", "n", "k")]
        tile = unit.tile or (1, 1, 1)
        issues = np.ones(group.at.size, np.int64)
        for extent, step in zip(extents, tile, strict=True):
            issues = issues * -(-extent // step)
        cycles = issues * float(unit.options.get("cycles", _cycles_of_tile(unit)))
        return cycles, 2 * extents[0] * extents[1] * extents[2]
    elements = group["rows"] * group["cols"]
    lanes = int(unit.options.get("lanes", unit.throughput or 1))
    factor = 1.0
    if group.function.removesuffix("_imm") in TRANSCENDENTAL:
        factor = float(unit.options.get("exp_factor", 1))
    # Moves and conversions are no operations.
    works = group.command.name not in ("vec_copy", "vec_fill", "vec_iota", "vec_cast")
    return -(-elements // lanes) * factor, elements * works


def _cycles_of_tile(unit: Instruction) -> float:
    return math.prod(unit.tile or (1,)) / (unit.throughput or 1)
