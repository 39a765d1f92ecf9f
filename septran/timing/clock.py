"""In-order queues, the flags between them, and the control core that fills them.

The rules are those of the simulated machines (docs/dsa.md): a control core issues one command after
the other, and waits while a queue is full; a queue starts its commands in order; copies of one
engine over one edge follow each other without waiting for the latency; a flag is set when all
before it in its queue has ended. Steps come in the order in which the control core issues them.
Whatever can be worked out is, at once. Only transfers over main memory's port depend on what else
happens at that time. They go on when the control core cannot: then the next one to end is certain.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from septran.simulator.errors import SimulatedDeadlockError, SimulationError
from septran.simulator.timing.memory_port import Port


@dataclass(frozen=True)
class Cost:
    """What one command takes."""

    cycles: float
    """Cycles from its start to its end; of a transfer over the port those that follow it."""
    lead: float = 0.0
    """Cycles before its end at which the next command of the same `pipe` may start."""
    pipe: int = -1
    """Number of an engine's edge, whose copies overlap; -1 for what does not overlap its like."""
    shared: float = 0.0
    """Bytes that go over main memory's port."""
    rate: float = math.inf
    """Bytes a cycle of these at most."""


@dataclass(frozen=True)
class Signal:
    """A flag that a queue sets, or waits for, when the command comes to its head."""

    key: tuple[int, int, int]
    """The queue that sets, the queue that waits, and a number."""
    sets: bool


MOST_COMMANDS = 500_000
"""Commands, those of skipped iterations left out, up to which a schedule is worked out."""
UNLIMITED = 64
"""Commands that wait in a queue of which the machine file gives no depth."""


@dataclass(slots=True)
class TimedQueue:
    """One in-order queue."""

    name: str
    number: int
    depth: int
    """Commands that wait in it at most."""
    pending: deque[tuple[float, Cost | Signal]] = field(default_factory=deque)
    """Commands that have not started, with when they were issued."""
    starts: deque[float] = field(default_factory=deque)
    """When the last commands left their places, as far as the control core may ask."""
    done: float = 0.0
    """When all that started has ended."""
    free: float = 0.0
    """When the next command of `pipe` may start."""
    pipe: int = -1
    moving: tuple[float, Cost] | None = None
    """What is on the port, with its start."""
    busy: float = 0.0
    first: float = math.inf
    """When its first work began."""
    last: float = 0.0
    """When its last work ended."""
    waits: dict[int, float] = field(default_factory=dict)
    """Cycles at its head for each other queue."""
    crowded: float = 0.0
    """Cycles that its transfers took longer than alone on the port."""


class Clock:
    """The times of all queues of one core, of its control core, and of the port."""

    def __init__(
        self, lanes: Sequence[tuple[str, int | None]], bandwidth: float, issue: float = 1.0
    ) -> None:
        self.lanes = [
            TimedQueue(name, n, depth or UNLIMITED) for n, (name, depth) in enumerate(lanes)
        ]
        self.bandwidth = bandwidth
        self.port = Port(bandwidth)
        self.issue = issue
        self.time = 0.0
        """When the control core may issue its next command."""
        self.flags: dict[tuple[int, int, int], deque[float]] = {}
        """When each flag was set that nobody has waited for yet."""
        self.blocked: dict[tuple[int, int, int], TimedQueue] = {}
        """The queues at whose head a flag is missing."""
        self.fruitless: dict[int, int] = {}
        """For each loop, by its identity, how often in turn it was seen not to repeat itself."""
        self.commands = 0
        self.full = 0.0
        """Cycles that the control core waited for room in queues."""
        self.synced = 0.0
        """Cycles that the control core waited for all queues."""

    @property
    def cycles(self) -> int:
        """The time at which all has ended."""
        self._drain()
        return math.ceil(max(self.time, *(lane.done for lane in self.lanes)) - 1e-6)

    # ---- the control core -------------------------------------------------------------

    def work(self, number: int, cost: Cost) -> None:
        """Give a command to a queue."""
        self._put(self.lanes[number], cost)

    def set(self, source: int, target: int, flag: int) -> None:
        """Set a flag when all before it in `source` has ended."""
        self._put(self.lanes[source], Signal((source, target, flag), sets=True))

    def wait(self, source: int, target: int, flag: int) -> None:
        """Let `target` wait at its head until `source` has set a flag."""
        self._put(self.lanes[target], Signal((source, target, flag), sets=False))

    def meet(self) -> None:
        """Let the control core wait until all its queues are empty."""
        self._drain()
        at = self.time + self.issue
        end = max(at, *(lane.done for lane in self.lanes))
        self.synced += end - at
        self.time = end

    def share(self, cores: int) -> None:
        """Leave this core its part of the port that so many cores use."""
        self.port.bytes_per_cycle = self.bandwidth / cores

    def _put(self, lane: TimedQueue, command: Cost | Signal) -> None:
        self.commands += 1
        if self.commands > MOST_COMMANDS:
            raise SimulationError(f"more than {MOST_COMMANDS:,} commands that do not repeat")
        # A queue of depth d takes entry k once entry k - d has left its place.
        while len(lane.pending) >= lane.depth:
            self._transfer()
        if len(lane.pending) + len(lane.starts) >= lane.depth:
            freed = lane.starts.popleft()
            if freed > self.time:
                self.full += freed - self.time
                self.time = freed
        self.time += self.issue
        lane.pending.append((self.time, command))
        if len(lane.pending) == 1 and lane.moving is None:
            self._advance(lane)

    def _drain(self) -> None:
        while any(lane.pending or lane.moving for lane in self.lanes):
            self._transfer()

    # ---- queues -----------------------------------------------------------------------

    def _advance(self, lane: TimedQueue) -> None:
        """Start commands of a queue until it is empty or must wait."""
        while lane.pending:
            issued, command = lane.pending[0]
            if isinstance(command, Signal):
                if not self._signal(lane, issued, command):
                    return
            elif not self._start(lane, issued, command):
                return

    def _start(self, lane: TimedQueue, issued: float, cost: Cost) -> bool:
        """Start the work at a queue's head; whether its end is known."""
        at = lane.free if cost.pipe >= 0 and cost.pipe == lane.pipe else lane.done
        start = issued if issued > at else at
        lane.pipe = cost.pipe
        lane.pending.popleft()
        lane.starts.append(start)
        if cost.shared:
            lane.moving = start, cost
            self.port.ask(start, lane.number, cost.shared, cost.rate)  # type: ignore[arg-type]
            return False
        self._ended(lane, start, start, cost)
        return True

    def _ended(self, lane: TimedQueue, start: float, at: float, cost: Cost) -> None:
        end = max(lane.done, at + cost.cycles)
        # Copies that overlap keep their engine busy without the latency that they share.
        lane.busy += max(0.0, end - max(start, lane.last))
        lane.first = min(lane.first, start)
        lane.last = lane.done = end
        lane.free = max(lane.free, end - cost.lead)

    def _transfer(self) -> None:
        """Let the next transfer over the port end."""
        ended = self.port.next()
        if ended is None:
            waiting = ", ".join(lane.name for lane in self.lanes if lane.pending)
            raise SimulatedDeadlockError(f"deadlock: {waiting} wait for flags that nobody sets")
        number, _, at = ended
        lane = self.lanes[number]
        assert lane.moving is not None
        start, cost = lane.moving
        lane.moving = None
        # Rates are fractions, and a third of a byte is no reason for one more cycle.
        finish = math.ceil(at - 1e-6)
        alone = math.ceil(start + cost.shared / cost.rate - 1e-6)
        lane.crowded += max(0, finish - alone)
        self._ended(lane, start, finish, cost)
        self._advance(lane)

    def _signal(self, lane: TimedQueue, issued: float, signal: Signal) -> bool:
        """Set a flag or wait for one at a queue's head; whether it could."""
        at = max(lane.free, issued)
        times = self.flags.setdefault(signal.key, deque())
        if not signal.sets:
            if not times:
                self.blocked[signal.key] = lane
                return False
            opened = times.popleft()
            if opened > at:
                source = signal.key[0]
                lane.waits[source] = lane.waits.get(source, 0.0) + opened - at
                at = opened
        lane.pending.popleft()
        lane.starts.append(at)
        lane.free = at
        lane.done = max(lane.done, at)
        if signal.sets:
            times.append(lane.done)
            waiting = self.blocked.pop(signal.key, None)
            if waiting is not None:
                self._advance(waiting)
        return True

    # ---- what a loop repeats ----------------------------------------------------------

    def form(self) -> tuple[object, ...]:
        """What must be the same again where a loop is in a steady state."""
        lanes = tuple(
            (lane.pipe, tuple(command for _, command in lane.pending), len(lane.starts),
             lane.moving and lane.moving[1], tuple(lane.waits))
            for lane in self.lanes
        )  # fmt: skip
        flags = tuple((key, len(times)) for key, times in sorted(self.flags.items()))
        active = tuple((t.command, round(t.left, 4), t.rate) for t in self.port.active)
        return lanes, flags, active, tuple(number for _, number, _, _ in self.port.asking)

    def times(self) -> list[float]:
        """All that is a time, in an order that follows from `form`."""
        found = [self.time, self.port.now, *(t.asked for t in self.port.active)]
        found += (at for at, _, _, _ in self.port.asking)
        for lane in self.lanes:
            found += (lane.done, lane.free, lane.last, *lane.starts)
            found += (at for at, _ in lane.pending)
            if lane.moving:
                found.append(lane.moving[0])
        for _, times in sorted(self.flags.items()):
            found += times
        return found

    def sums(self) -> list[float]:
        """All that is a sum of times, likewise."""
        found = [self.full, self.synced]
        for lane in self.lanes:
            found += (lane.busy, lane.crowded, *lane.waits.values())
        return found

    def move(self, times: Sequence[float], sums: Sequence[float]) -> None:
        """Let times and sums be those of a later iteration of the same form."""
        at = iter(times)
        port = self.port
        self.time, port.now = next(at), next(at)
        for transfer in port.active:
            transfer.asked = next(at)  # type: ignore[assignment]
        port.asking = [(next(at), *rest) for _, *rest in port.asking]  # type: ignore[misc]
        for lane in self.lanes:
            lane.done, lane.free, lane.last = next(at), next(at), next(at)
            lane.starts = deque(next(at) for _ in lane.starts)
            lane.pending = deque((next(at), command) for _, command in lane.pending)
            if lane.moving:
                lane.moving = next(at), lane.moving[1]
        for _, flag in sorted(self.flags.items()):
            for n in range(len(flag)):
                flag[n] = next(at)
        total = iter(sums)
        self.full, self.synced = next(total), next(total)
        for lane in self.lanes:
            lane.busy, lane.crowded = next(total), next(total)
            lane.waits = {n: next(total) for n in lane.waits}
