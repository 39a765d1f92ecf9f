"""When each command is issued, starts and ends.

Control cores, queues and flags are worked out eagerly, each as far as it can go: none of
them depends on anything but what comes before it. Only copies over main memory's port
depend on what else happens at that time, so when nothing else can go on, the next thing
that happens on the port is certain, and it is next in time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.simulator.errors import SimulatedDeadlockError
from septran.simulator.stream import BARRIER, SET, Stream
from septran.simulator.timing.costs import Costs
from septran.simulator.timing.memory_port import Port
from septran.simulator.timing.random_delays import Delays


def deadlock(stream: Stream, controls: Sequence[Control]) -> SimulatedDeadlockError:
    """The report: every queue and control core that waits, and for what."""
    lines = []
    for control in controls:
        for lane in control.lanes:
            if lane.head < len(lane.entries):
                n = lane.entries[lane.head]
                lines.append(f"{stream.describe(n)} waits for {_reason(stream, n)}")
        if control.next < len(control.commands):
            n = control.commands[control.next]
            what = "the other cores" if control.at_barrier else "its queues to be done"
            if stream.queue[n] >= 0:
                what = "a place in that queue"
            lines.append(f"core {control.core} at {stream.describe(n)} waits for {what}")
    return SimulatedDeadlockError(
        "deadlock: " + "; ".join(lines),
        hint="every wait_flag needs one set_flag of the same queues and number before it",
    )


def _reason(stream: Stream, n: int) -> str:
    what = stream.flag_name(n)
    return f"room in {what}, which is full" if stream.code[n] == SET else what


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Timing:
    """Cycles of each command, and what it waited for."""

    issue: Array
    start: Array
    end: Array
    flag: Array
    """Stall at its queue's head for a flag."""
    full: Array
    """Stall of the control core for a place in its queue."""
    bandwidth: Array
    """Longer on the port than alone."""
    sync: Array
    """Stall of the control core in sync and barrier."""
    order: Array
    """The commands in an order in which each comes after all that it waited for."""
    pairs: tuple[tuple[int, int], ...]
    """``(a, b)``: a flag command `b` that could not go on before flag command `a`."""
    left: tuple[int, ...]
    """For each flag that stays set, the first set_flag that nobody waits for."""
    cycles: int


@dataclass(slots=True)
class CountingFlag:
    """One counting flag: when it was set and taken, by whom."""

    sets: list[tuple[int, int]] = field(default_factory=list)
    """(time, command)."""
    waits: list[tuple[int, int]] = field(default_factory=list)
    blocked: list[RunningQueue] = field(default_factory=list)
    """Queues at whose head it cannot be set or waited for yet."""


@dataclass(slots=True)
class RunningQueue:
    """One queue of one core while it runs."""

    control: Control
    depth: float
    done: int
    """When all that started has ended."""
    free: int
    """When the next copy of `pipe` may start."""
    pipe: int = -1
    entries: list[int] = field(default_factory=list)
    head: int = 0
    """Entries that have started."""
    on_port: bool = False


@dataclass(slots=True)
class Control:
    """One control core while it runs."""

    core: int
    commands: list[int]
    lanes: list[RunningQueue] = field(default_factory=list)
    next: int = 0
    time: int = 0
    waits_for: RunningQueue | None = None
    """The queue that is full."""
    syncs: bool = False
    """Whether it waits for all its queues."""
    at_barrier: bool = False


def time(stream: Stream, cost: Costs, delays: Delays) -> Timing:
    """Work out the whole schedule; raises SimulatedDeadlockError where it has no end."""
    return _Clockwork(stream, cost, delays).run()


class _Clockwork:
    """The state of all control cores, queues, flags and of the port."""

    def __init__(self, stream: Stream, cost: Costs, delays: Delays) -> None:
        self.stream, self.size = stream, len(stream)
        hardware = stream.hardware
        self.controls = [
            Control(n, np.flatnonzero(stream.core == n).tolist()) for n in range(hardware.cores)
        ]
        self.port = Port(hardware.bytes_per_cycle(hardware.machine.main_memory))
        self.flag_depth, self.issue_cycles = hardware.flag_depth, hardware.issue_cycles
        self.lane_of = self._lanes(delays)
        self.code: list[int] = stream.code.tolist()
        self.flag_of = self._flags()
        self.cycles: list[int] = (cost.cycles + delays.ends).tolist()
        self.shared: list[int] = cost.shared_bytes.tolist()
        self.rate: list[float] = cost.rate.tolist()
        # A copy that an adversary lets arrive later does not keep the next one from starting.
        self.lead: list[int] = (cost.lead + np.where(cost.pipe >= 0, delays.ends, 0)).tolist()
        self.pipe: list[int] = cost.pipe.tolist()
        self.late: list[int] = delays.starts.tolist()
        self.issue, self.start, self.end = ([0] * self.size for _ in range(3))
        self.flag, self.full, self.bandwidth, self.sync = ([0] * self.size for _ in range(4))
        self.order: list[int] = []
        self.pairs: list[tuple[int, int]] = []
        self.ready: list[RunningQueue | Control] = list(self.controls)
        self.met = 0

    def _lanes(self, delays: Delays) -> list[RunningQueue | None]:
        """The queue of each command; None for what the control core does itself."""
        queues = self.stream.hardware.queues
        lanes: list[RunningQueue | None] = []
        for control in self.controls:
            for queue in queues:
                late = delays.lanes[len(lanes)] if delays.lanes else 0
                depth = math.inf if queue.depth is None else queue.depth
                lane = RunningQueue(control, depth, late, late)
                control.lanes.append(lane)
                lanes.append(lane)
        queue_of = self.stream.queue
        number = np.where(queue_of < 0, len(lanes), self.stream.core * len(queues) + queue_of)
        lanes.append(None)
        return [lanes[n] for n in number.tolist()]

    def _flags(self) -> list[CountingFlag | None]:
        """The flag of each flag command."""
        forms = self.stream.forms
        known: dict[tuple[int, ...], CountingFlag] = {}
        found: list[CountingFlag | None] = [None] * len(forms)
        for group in forms.externs:
            if group.command.name in ("set_flag", "wait_flag"):
                for at, row in zip(group.at.tolist(), group.arguments.tolist(), strict=True):
                    # Two queues of one core and a number: what names a flag.
                    key = (int(forms.core[at]), *row[:3])
                    found[at] = known.setdefault(key, CountingFlag())
        self.flags = list(known.values())
        return [found[n] for n in self.stream.form.tolist()]

    def run(self) -> Timing:
        """Go on until all is done or nothing can."""
        ready = self.ready
        while True:
            while ready:
                agent = ready.pop()
                if isinstance(agent, RunningQueue):
                    self._advance(agent)
                else:
                    self._issue(agent)
            if self.met == len(self.controls):
                self._barrier()
                continue
            done = self.port.next()
            if done is None:
                break
            self._arrived(*done)
        if len(self.order) < self.size:
            raise deadlock(self.stream, self.controls)
        clock = max((control.time for control in self.controls), default=0)
        left = tuple(flag.sets[len(flag.waits)][1] for flag in self.flags if _left(flag))
        return Timing(
            issue=np.array(self.issue, np.int64),
            start=np.array(self.start, np.int64),
            end=np.array(self.end, np.int64),
            flag=np.array(self.flag, np.int64),
            full=np.array(self.full, np.int64),
            bandwidth=np.array(self.bandwidth, np.int64),
            sync=np.array(self.sync, np.int64),
            order=np.array(self.order, np.int64),
            pairs=tuple(self.pairs),
            left=left,
            cycles=max(clock, *self.end, 0),
        )

    def _issue(self, control: Control) -> None:
        """Issue commands until a queue is full or a sync must wait."""
        commands, lane_of, step = control.commands, self.lane_of, self.issue_cycles
        start, flag, count = self.start, self.flag, len(commands)
        while control.next < count:
            n = commands[control.next]
            lane = lane_of[n]
            if lane is None:
                if control.at_barrier or not self._synchronise(control, n):
                    return
                continue
            entries = lane.entries
            # A queue of depth d takes entry k once entry k - d has started.
            place = len(entries) - lane.depth
            if place >= 0:
                if place >= lane.head:
                    control.waits_for = lane
                    return
                oldest = entries[int(place)]
                # An entry leaves its place when it starts, which a flag at the head delays.
                freed = start[oldest] + flag[oldest]
                if freed > control.time:
                    self.full[n] = freed - control.time
                    control.time = freed
            control.time = self.issue[n] = control.time + step
            control.next += 1
            entries.append(n)
            # Others before it wait for a flag or the port, which advance the queue themselves.
            if lane.head == len(entries) - 1 and not lane.on_port:
                self._advance(lane)

    def _synchronise(self, control: Control, n: int) -> bool:
        """Wait for the core's queues; whether the core may go on."""
        control.syncs = True
        # Asked again by the lane that ends last.
        if any(lane.head < len(lane.entries) or lane.on_port for lane in control.lanes):
            return False
        control.syncs = False
        at = control.time + self.issue_cycles
        self.issue[n] = self.start[n] = at
        self.end[n] = max([at, *(lane.done for lane in control.lanes if lane.entries)])
        if self.code[n] == BARRIER:
            control.at_barrier = True
            self.met += 1
            return False
        self._passed(control, n)
        return True

    def _passed(self, control: Control, n: int) -> None:
        self.sync[n] = self.end[n] - self.start[n]
        control.time = self.end[n]
        control.next += 1
        self.order.append(n)

    def _barrier(self) -> None:
        """All cores are at a barrier: let them go on."""
        here = [control.commands[control.next] for control in self.controls]
        last = max(self.end[n] for n in here)
        for control, n in zip(self.controls, here, strict=True):
            control.at_barrier = False
            self.end[n] = last
            self._passed(control, n)
        self.met = 0
        self.ready.extend(self.controls)

    def _advance(self, lane: RunningQueue) -> None:
        """Start entries of a queue until it is empty or must wait."""
        entries, before = lane.entries, lane.head
        while lane.head < len(entries):
            n = entries[lane.head]
            if self.flag_of[n] is not None:
                if not self._flag(lane, n):
                    break
                continue
            pipe = self.pipe[n]
            # Commands of one pipe overlap: the next starts `lead` before the last one ends.
            at = lane.free if pipe >= 0 and pipe == lane.pipe else lane.done
            issued = self.issue[n]
            self.start[n] = at = (issued if issued > at else at) + self.late[n]
            lane.pipe = pipe
            lane.head += 1
            if self.shared[n]:
                lane.on_port = True
                self.port.ask(at, n, self.shared[n], self.rate[n])
                break
            self._ended(lane, n, at + self.cycles[n])
        control = lane.control
        if control.waits_for is lane and lane.head > before:
            control.waits_for = None
            self.ready.append(control)
        elif control.syncs and lane.head == len(entries) and not lane.on_port:
            self.ready.append(control)

    def _ended(self, lane: RunningQueue, n: int, end: int) -> None:
        # In order, even where an adversary lets an earlier copy arrive late.
        if end < lane.done:
            end = lane.done
        self.end[n] = lane.done = end
        free = end - self.lead[n]
        if free > lane.free:
            lane.free = free
        self.order.append(n)

    def _arrived(self, n: int, asked: int, at: float) -> None:
        """A copy's last byte has passed the port."""
        lane = self.lane_of[n]
        assert lane is not None
        # Rates are fractions, and a third of a byte is no reason for one more cycle.
        finish = math.ceil(at - 1e-6)
        alone = math.ceil(asked + self.shared[n] / self.rate[n] - 1e-6)
        if finish > alone:
            self.bandwidth[n] = finish - alone
        self._ended(lane, n, finish + self.cycles[n])
        lane.on_port = False
        self._advance(lane)

    def _flag(self, lane: RunningQueue, n: int) -> bool:
        """Set or wait at the head of a queue; whether it could."""
        flag = self.flag_of[n]
        assert flag is not None
        sets = self.code[n] == SET
        mine, others = (flag.sets, flag.waits) if sets else (flag.waits, flag.sets)
        # A set needs room: the wait `flag_depth` before it. A wait needs the set of its number.
        number = len(mine) - self.flag_depth if sets else len(mine)
        at, issued = lane.free, self.issue[n]
        self.start[n] = at = (issued if issued > at else at) + self.late[n]
        if number >= 0:
            if number >= len(others):
                flag.blocked.append(lane)
                return False
            open_at, other = others[number]
            self.pairs.append((other, n))
            if open_at > at:
                self.flag[n] = open_at - at
                at = open_at
        lane.free = at
        # A flag is set when all before it has arrived; what follows it need not wait for that.
        end = lane.done if sets and lane.done > at else at
        self.end[n] = end
        if end > lane.done:
            lane.done = end
        mine.append((end, n))
        lane.head += 1
        self.order.append(n)
        if flag.blocked:
            # Who still cannot go on puts itself on the list again.
            self.ready += flag.blocked
            flag.blocked.clear()
        return True


def _left(flag: CountingFlag) -> bool:
    return len(flag.sets) > len(flag.waits)
