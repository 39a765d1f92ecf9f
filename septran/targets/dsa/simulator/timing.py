"""When each command is issued, starts and ends.

Control cores, queues and flags are worked out eagerly, each as far as it can go: none of
them depends on anything but what comes before it. Only copies over main memory's port
depend on what else happens at that time, so when nothing else can go on, the next thing
that happens on the port is certain, and it is next in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.targets.dsa.simulator.adversary import Delays
from septran.targets.dsa.simulator.costs import Costs
from septran.targets.dsa.simulator.port import Port
from septran.targets.dsa.simulator.stream import BARRIER, SET, WAIT, Stream
from septran.targets.dsa.simulator.stuck import stuck

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
    cycles: int


@dataclass(slots=True)
class Lane:
    """One queue of one core while it runs."""

    number: int
    core: int
    depth: float
    entries: list[int] = field(default_factory=list)
    head: int = 0
    """Entries that have started."""
    free: int = 0
    """When the next copy of `pipe` may start."""
    done: int = 0
    """When all that started has ended."""
    pipe: int = -1
    waits_for: tuple[int, ...] | None = None
    """The flag at which it is stuck."""
    on_port: bool = False


@dataclass(slots=True)
class Control:
    """One control core while it runs."""

    core: int
    commands: list[int]
    next: int = 0
    time: int = 0
    at_barrier: bool = False


@dataclass(slots=True)
class Flag:
    """One counting flag: when it was set and taken, by whom."""

    sets: list[tuple[int, int]] = field(default_factory=list)
    """(time, command)."""
    waits: list[tuple[int, int]] = field(default_factory=list)


def time(stream: Stream, cost: Costs, delays: Delays) -> Timing:
    """Work out the whole schedule; raises StuckError where it has no end."""
    return _Clockwork(stream, cost, delays).run()


class _Clockwork:
    """The state of all control cores, queues, flags and of the port."""

    def __init__(self, stream: Stream, cost: Costs, delays: Delays) -> None:
        self.stream, self.size = stream, len(stream)
        hardware = stream.hardware
        queues = hardware.queues
        self.lanes = [
            Lane(q.number, core, math.inf if q.depth is None else q.depth)
            for core in range(hardware.cores)
            for q in queues
        ]
        for lane, late in zip(self.lanes, delays.lanes, strict=False):
            lane.free = lane.done = late
        self.queues = len(queues)
        self.code: list[int] = stream.code.tolist()
        self.lane_of: list[int] = np.where(
            stream.queue < 0, -1, stream.core * len(queues) + stream.queue
        ).tolist()
        self.flag_of = self._flag_keys()
        self.cycles: list[int] = (cost.cycles + delays.ends).tolist()
        self.shared: list[int] = cost.shared_bytes.tolist()
        self.rate: list[float] = cost.rate.tolist()
        self.lead: list[int] = (cost.lead + np.where(cost.pipe >= 0, delays.ends, 0)).tolist()
        self.pipe: list[int] = cost.pipe.tolist()
        self.late: list[int] = delays.starts.tolist()
        self.port = Port(hardware.bytes_per_cycle(hardware.machine.main_memory))
        self.flag_depth = hardware.flag_depth
        self.issue_cycles = hardware.issue_cycles
        self.controls = self._controls()
        self.flags: dict[tuple[int, ...], Flag] = {}
        self.waiting: dict[tuple[int, ...], list[Lane]] = {}
        for name in ("issue", "start", "end", "flag", "full", "bandwidth", "sync"):
            setattr(self, name, [0] * self.size)
        self.issue: list[int]
        self.start: list[int]
        self.end: list[int]
        self.flag: list[int]
        self.full: list[int]
        self.bandwidth: list[int]
        self.sync: list[int]
        self.order: list[int] = []
        self.pairs: list[tuple[int, int]] = []

    def _controls(self) -> list[Control]:
        core = self.stream.core
        return [
            Control(n, np.flatnonzero(core == n).tolist())
            for n in range(self.stream.hardware.cores)
        ]

    def _flag_keys(self) -> dict[int, tuple[int, ...]]:
        """Core, source, target and number of the flag of each flag command."""
        found: dict[int, tuple[int, ...]] = {}
        for group in self.stream.externs:
            if group.command.name in ("set_flag", "wait_flag"):
                core = self.stream.core[group.at].tolist()
                rows = group.arguments[:, :3].tolist()
                keys = ((c, *row) for c, row in zip(core, rows, strict=True))
                found.update(zip(group.at.tolist(), keys, strict=True))
        return found

    def run(self) -> Timing:
        """Go on until all is done or nothing can."""
        ready: list[Control | Lane] = list(self.controls)
        while True:
            while ready:
                agent = ready.pop()
                if isinstance(agent, Lane):
                    self._lane(agent, ready)
                else:
                    self._control(agent, ready)
            self._barrier(ready)
            if ready:
                continue
            done = self.port.next()
            if done is None:
                break
            self._arrived(*done, ready)
        if len(self.order) < self.size:
            raise stuck(self.stream, self.controls, self.lanes, self.flag_of)
        arrays = [
            np.array(getattr(self, name), np.int64)
            for name in ("issue", "start", "end", "flag", "full", "bandwidth", "sync", "order")
        ]
        last = max(self.end, default=0)
        clock = max((control.time for control in self.controls), default=0)
        return Timing(*arrays, tuple(self.pairs), max(last, clock))

    def _control(self, control: Control, ready: list[Control | Lane]) -> None:
        """Issue commands until a queue is full or a sync must wait."""
        commands, count = control.commands, len(control.commands)
        while control.next < count:
            n = commands[control.next]
            number = self.lane_of[n]
            if number < 0:
                if control.at_barrier or not self._synchronise(control, n):
                    return
                continue
            lane = self.lanes[number]
            entries = lane.entries
            place = len(entries) - lane.depth
            if place >= 0:
                if place >= lane.head:
                    return  # the queue is full; it wakes this core when it moves
                oldest = entries[int(place)]
                freed = self.start[oldest] + self.flag[oldest]
                if freed > control.time:
                    self.full[n] = freed - control.time
                    control.time = freed
            control.time += self.issue_cycles
            self.issue[n] = control.time
            entries.append(n)
            control.next += 1
            if lane.head == len(entries) - 1 and not lane.on_port:
                self._lane(lane, ready, False)

    def _synchronise(self, control: Control, n: int) -> bool:
        """Wait for the core's queues; whether the core may go on."""
        first = control.core * self.queues
        lanes = self.lanes[first : first + self.queues]
        if any(lane.head < len(lane.entries) or lane.on_port for lane in lanes):
            return False
        if self.issue[n] == 0:
            self.issue[n] = control.time + self.issue_cycles
        used = [lane.done for lane in lanes if lane.entries]
        self.start[n] = self.issue[n]
        self.end[n] = max(self.issue[n], *used) if used else self.issue[n]
        if self.code[n] == BARRIER:
            control.at_barrier = True
            return False
        self._passed(control, n)
        return True

    def _passed(self, control: Control, n: int) -> None:
        self.sync[n] = self.end[n] - self.start[n]
        control.time = self.end[n]
        control.next += 1
        self.order.append(n)

    def _barrier(self, ready: list[Control | Lane]) -> None:
        """Let all cores go on where all of them are at a barrier."""
        if not all(control.at_barrier for control in self.controls):
            return
        here = [control.commands[control.next] for control in self.controls]
        last = max(self.end[n] for n in here)
        for control, n in zip(self.controls, here, strict=True):
            control.at_barrier = False
            self.end[n] = last
            self._passed(control, n)
        ready.extend(self.controls)

    def _lane(self, lane: Lane, ready: list[Control | Lane], wake: bool = True) -> None:
        """Start entries of a queue until it is empty or must wait."""
        entries, before = lane.entries, lane.head
        while lane.head < len(entries) and not lane.on_port:
            n = entries[lane.head]
            code = self.code[n]
            if code == SET or code == WAIT:
                if not self._flag(lane, n, code, ready):
                    break
                continue
            piped = self.pipe[n] >= 0 and self.pipe[n] == lane.pipe
            at = lane.free if piped else lane.done
            at = max(at, self.issue[n]) + self.late[n]
            self.start[n] = at
            lane.pipe = self.pipe[n]
            if self.shared[n]:
                lane.on_port = True
                self.port.ask(at, n, self.shared[n], self.rate[n])
                lane.head += 1
                break
            self._ended(lane, n, at + self.cycles[n])
            lane.head += 1
        if wake and (lane.head > before or lane.head == len(entries)):
            ready.append(self.controls[lane.core])

    def _ended(self, lane: Lane, n: int, end: int) -> None:
        # In order, even where an adversary lets an earlier copy arrive late.
        self.end[n] = end = max(end, lane.done)
        lane.free = max(end - self.lead[n], lane.free)
        lane.done = end
        self.order.append(n)

    def _arrived(self, n: int, asked: float, at: float, ready: list[Control | Lane]) -> None:
        """A copy's last byte has passed the port."""
        lane = self.lanes[self.lane_of[n]]
        alone = asked + self.shared[n] / self.rate[n]
        # Rates are fractions, and a third of a byte is no reason for one more cycle.
        finish = math.ceil(at - 1e-6)
        self.bandwidth[n] = max(0, finish - math.ceil(alone - 1e-6))
        self._ended(lane, n, finish + self.cycles[n])
        lane.on_port = False
        ready.append(self.controls[lane.core])
        ready.append(lane)

    def _flag(self, lane: Lane, n: int, code: int, ready: list[Control | Lane]) -> bool:
        """Set or wait at the head of a queue; whether it could."""
        key = self.flag_of[n]
        flag = self.flags.get(key)
        if flag is None:
            flag = self.flags[key] = Flag()
        mine, others = (flag.sets, flag.waits) if code == SET else (flag.waits, flag.sets)
        number = len(mine) - self.flag_depth if code == SET else len(mine)
        at = max(lane.free, self.issue[n]) + self.late[n]
        self.start[n] = at
        if number >= 0:
            if number >= len(others):
                lane.waits_for = key
                self.waiting.setdefault(key, []).append(lane)
                return False
            open_at, other = others[number]
            self.pairs.append((other, n))
            if open_at > at:
                self.flag[n] = open_at - at
                at = open_at
        lane.waits_for = None
        lane.free = at
        # A flag is set when all before it has arrived; what follows it need not wait for that.
        end = max(at, lane.done) if code == SET else at
        self.end[n] = end
        lane.done = max(lane.done, end)
        mine.append((end, n))
        lane.head += 1
        self.order.append(n)
        woken = self.waiting.pop(key, None)
        if woken:
            ready.extend(woken)
        return True
