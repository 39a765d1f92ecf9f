"""Simulate a recorded stream: results in place, cycles, a trace, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from septran.machine.model import Machine
from septran.simulator.hardware import Hardware
from septran.simulator.hazards.control_reads import ControlReads, check_control_reads
from septran.simulator.hazards.ordering import ordering
from septran.simulator.hazards.races import check_balance, check_hazards, contested, related
from septran.simulator.hazards.temporaries import check_temporaries
from septran.simulator.hazards.validity import check_written
from septran.simulator.operands import operands
from septran.simulator.spaces import Spaces
from septran.simulator.stream import Stream
from septran.simulator.timing.costs import costs
from septran.simulator.timing.random_delays import Delays, delays, seed_of
from septran.simulator.timing.timeline import Timing, time
from septran.simulator.units.execution import Program

Array = np.ndarray[Any, Any]

CAUSES = ("flag", "full", "bandwidth", "sync")
"""Why something took longer: a flag at a queue's head; a queue without room (the control
core waits); main memory's bandwidth, shared; a sync or barrier (the control core waits)."""

TRACE = np.dtype(
    [
        ("command", "i4"), ("queue", "i4"), ("core", "i4"), ("line", "i4"),
        ("issue", "i8"), ("start", "i8"), ("end", "i8"), ("bytes", "i8"), ("flops", "i8"),
        *((cause, "i8") for cause in CAUSES),
    ]
)  # fmt: skip
"""One record a command, in the stream's order: its number in `CODES`, the number of its
queue (-1 for sync and barrier), when it was issued, came to its queue's head with all
before it done, and ended; stall cycles by cause."""


@dataclass(frozen=True)
class Run:
    """One simulated run of a stream."""

    machine: Machine
    cycles: int
    """Until the last command has ended."""
    trace: Array
    """Records of `TRACE`."""
    order: Array = field(repr=False)
    """Positions in the stream in the order in which commands took effect."""

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """Names of a core's queues, by number."""
        return tuple(q.name for q in Hardware(self.machine).queues)

    @cached_property
    def busy(self) -> Mapping[str, int]:
        """Cycles in which each queue works, stalls left out; all cores together."""
        return {name: self._busy(number) for number, name in enumerate(self.queues)}

    @cached_property
    def utilisation(self) -> Mapping[str, float]:
        """Share of all cycles in which each queue works; the mean of the cores."""
        total = max(1, self.cycles * Hardware(self.machine).cores)
        return {name: busy / total for name, busy in self.busy.items()}

    @cached_property
    def stalls(self) -> Mapping[str, int]:
        """Stall cycles by cause, all queues and control cores together."""
        return {cause: int(self.trace[cause].sum()) for cause in CAUSES}

    @cached_property
    def bytes(self) -> Mapping[str, int]:
        """Bytes that each queue moved (copies) or touched (computations)."""
        return self._sum("bytes")

    @cached_property
    def flops(self) -> Mapping[str, int]:
        """Operations of each queue."""
        return self._sum("flops")

    def _sum(self, column: str) -> Mapping[str, int]:
        queue, values = self.trace["queue"], self.trace[column]
        return {name: int(values[queue == n].sum()) for n, name in enumerate(self.queues)}

    def _busy(self, number: int) -> int:
        """The union of the commands' intervals: copies of one queue may overlap."""
        total = 0
        for core in np.unique(self.trace["core"]):
            mine = self.trace[(self.trace["queue"] == number) & (self.trace["core"] == core)]
            works = mine[(mine["bytes"] > 0) | (mine["flops"] > 0)]
            works = works[np.argsort(works["start"], kind="stable")]
            reach = np.maximum.accumulate(np.concatenate([[0], works["end"]]))
            total += int(np.maximum(0, works["end"] - np.maximum(works["start"], reach[:-1])).sum())
        return total


def simulate(
    machine: Machine,
    stream: Array,
    parameters: Sequence[Array] = (),
    *,
    origins: Mapping[int, str] | None = None,
    adversary: int | None = None,
    checks: bool = True,
    fresh: Sequence[int] = (),
    temporaries: Mapping[str, int] | None = None,
    reads: Sequence[ControlReads] = (),
) -> Run:
    """Carry a stream of `RECORD` out on `machine`; outputs are written into `parameters`.

    `origins` names the origin of lines in messages. `adversary` is a seed of random delays
    (else that in ``SEPTRAN_DSA_ADVERSARIAL``). Without `checks` hazards, unwritten bytes and
    forgotten flags are not looked for: they do what they would do on hardware. `fresh` are
    the positions of parameters that hold nothing yet. `temporaries` says from which byte on
    those of the vector unit lie, for each memory that buffers are in, too. `reads` says what
    control cores read of parameters that commands write. Raises SimulationError.
    """
    commands = Stream(stream, Hardware(machine), origins or {})
    spaces = Spaces.of(commands.hardware, parameters)
    work = operands(commands.forms, spaces)
    cost = costs(commands.forms, spaces, work).expanded(commands.form)
    lanes = len(commands.hardware.queues) * commands.hardware.cores
    slips = delays(cost, lanes, seed_of(adversary))
    timing = time(commands, cost, slips)
    spaces.check_writable(np.unique(work.accesses.space[work.accesses.write]))
    accesses = work.accesses.expanded(commands.form)
    if checks:
        check_balance(commands, timing)
        order = ordering(commands, timing)
        pairs = related(accesses, order, contested(accesses, order, spaces.count))
        unwritten = np.arange(spaces.count) >= len(spaces.parameters)
        unwritten[list(fresh)] = True
        # First, as the checks below follow accesses by rank: with a hazard that is chance.
        check_hazards(commands, spaces, accesses, order, timing, pairs)
        check_written(commands, spaces, accesses, order.rank, work.reach, unwritten)
        for each in reads:
            check_control_reads(commands, accesses, each)
        check_temporaries(commands, spaces, accesses, order.rank, temporaries or {})
    program = Program.of(commands, spaces, work, spaces.allocate(work.reach))
    sequence = _sequence(commands, timing, slips)
    program.run(sequence)
    return Run(machine, timing.cycles, _trace(commands, timing, cost.bytes, cost.flops), sequence)


def _sequence(stream: Stream, timing: Timing, slips: Delays) -> Array:
    """Commands by the time at which they take effect."""
    effect = timing.start + slips.effect * (timing.end - timing.start)
    rank = np.empty(len(stream), np.int64)
    rank[timing.order] = np.arange(len(stream))
    queues = len(stream.hardware.queues)
    lane = stream.core * queues + stream.queue
    for number in np.unique(lane):  # data of one queue arrives in order
        mine = np.flatnonzero((lane == number) & (stream.queue >= 0))
        effect[mine] = np.maximum.accumulate(effect[mine])
    result: Array = np.lexsort((rank, effect))
    return result


def _trace(stream: Stream, timing: Timing, moved: Array, flops: Array) -> Array:
    trace = np.zeros(len(stream), TRACE)
    trace["command"], trace["queue"], trace["core"] = stream.code, stream.queue, stream.core
    trace["line"] = stream.records["line"]
    trace["issue"], trace["start"], trace["end"] = timing.issue, timing.start, timing.end
    trace["bytes"], trace["flops"] = moved, flops
    for cause in CAUSES:
        trace[cause] = getattr(timing, cause)
    return trace
