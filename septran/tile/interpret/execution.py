"""Execution of a tile program by a schedule, as hardware would: loops, roles, copies in flight.

The effects of copies and computations are left to `Effects`: the interpreter moves numbers, the
verifier only notes which access comes after which.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from septran.argument_checks import WrongArgumentError, short_repr
from septran.ir.atoms import ElementRangeError
from septran.ir.index import Var
from septran.task.errors import CountRangeError, IndexRangeError
from septran.tile.analyses.scopes import Block, Step, blocks
from septran.tile.interpret.channel_state import (
    ChannelState,
    DeadlockError,
    Fill,
    Flight,
    Thread,
    located,
)
from septran.tile.nodes import (
    Acquire,
    Barrier,
    Channel,
    Commit,
    Compute,
    Copy,
    For,
    Node,
    Release,
    Role,
    TileProgram,
    Wait,
    nodes,
    reads,
)


@dataclass(frozen=True)
class Schedule:
    """The choices that hardware is free to make."""

    landing: str = "early"
    """The time when an asynchronous copy lands: ``early``, ``late`` or ``random``.

    Early is at once, late is when a wait forces it.
    """
    roles: str = "first"
    """The role that runs whenever it can: the ``first``, the ``last``, or a ``random`` one."""
    iterations: str = "forward"
    """The order of parallel iterations: ``forward``, ``reversed`` or ``shuffled``."""
    seed: int = 0

    @staticmethod
    def of(order: str | int | Schedule) -> Schedule:
        """Return the schedule for ``early``, ``late`` or a seed; raises WrongArgumentError."""
        match order:
            case Schedule():
                return order
            case str("early"):
                return Schedule()
            case str("late"):
                return Schedule("late", "last", "reversed")
            case int() if not isinstance(order, bool):
                return Schedule("random", "random", "shuffled", order)
        message = f"an order is 'early', 'late' or a seed, not {short_repr(order)}"
        raise WrongArgumentError(message, hint="write order='late', or order=3")


ADVERSARIES: tuple[Schedule, ...] = tuple(
    Schedule(landing, roles, iterations)
    for landing in ("early", "late")
    for roles in ("first", "last")
    for iterations in ("forward", "reversed")
)
"""The extreme schedules, under all of which a correct program gives the same result."""


@dataclass
class ThreadState:
    """The state that a thread sees: loop indices, buffers, rings."""

    thread: Thread
    values: dict[Var, int] = field(default_factory=dict)
    rings: dict[str, ChannelState] = field(default_factory=dict)
    memory: Any = None
    """The effects' own data, such as the storage of buffers."""

    def fork(self, thread: Thread) -> ThreadState:
        """Return the same frame for another thread, with indices and rings of its own."""
        return replace(self, thread=thread, values=dict(self.values), rings=dict(self.rings))


class Effects(Protocol):
    """The effects of copies, computations and handshakes."""

    def enter(self, block: Block, frame: ThreadState) -> ThreadState:
        """Begin a body, and return the frame in which its buffers exist."""

    def born(self, buffers: tuple[str, ...], frame: ThreadState) -> None:
        """Make the content of buffers undefined just before their first use."""

    def copy(self, node: Copy, frame: ThreadState) -> None:
        """Carry out a synchronous copy."""

    def issue(self, node: Copy, frame: ThreadState, land_now: bool) -> Flight:
        """Start an asynchronous copy, which may happen at any time until it is waited for."""

    def compute(self, node: Compute, frame: ThreadState) -> None:
        """Carry out a primitive or an expression."""

    def trips(self, node: For, extent: int, frame: ThreadState) -> Iterable[int]:
        """Return the iterations to run."""

    def absorb(self, node: For, frame: ThreadState) -> bool:
        """Return whether the effects dealt with a whole loop at once."""

    def unit(self, node: For | Role, frame: ThreadState) -> ThreadState:
        """Return the frame of one more unit of the loop's or role's processor level."""

    def hand_over(self, kind: str, fill: Fill, frame: ThreadState) -> None:
        """Note a ``commit``, ``wait``, ``release`` or ``acquire`` of a fill."""

    def fork(self, parent: Thread, children: list[Thread]) -> None:
        """Note that threads start."""

    def join(self, parent: Thread, children: list[Thread]) -> None:
        """Note that threads have ended."""

    def meet(self, threads: list[Thread]) -> None:
        """Note that threads met at a barrier."""


@dataclass(frozen=True)
class Blocked:
    """A thread that cannot go on: its node, and the event that it waits for."""

    thread: Thread
    node: Node
    what: str


Run = Generator[tuple[Blocked, ...], None, None]
"""A thread as a generator: yields () where others may go first, else the blocked threads."""


@dataclass
class _Team:
    """The iterations that meet at barriers."""

    processor: str | None
    size: int
    threads: list[Thread] = field(default_factory=list)
    arrived: int = 0
    met: int = 0


class Execution:
    """One run of a program under one schedule."""

    def __init__(
        self, program: TileProgram, effects: Effects, schedule: Schedule, top: Block | None = None
    ) -> None:
        """`top` is `blocks(program)` if the caller knows it already."""
        self.program, self.effects, self.schedule = program, effects, schedule
        self.top = top
        self.random = random.Random(schedule.seed)
        self.flying: list[Flight] = []
        self.channels = {c.name: c for c in program.channels}
        self.filled = _filled(program)
        self.handshake = _handshake(program)
        self.meeting = {n.processor for n in nodes(program.body) if isinstance(n, Barrier)}
        self.team: _Team | None = None
        self.shuffled = schedule.roles == "random"
        self.alone = not any(isinstance(n, Role) for n in nodes(program.body))

    def run(self, memory: Any = None, values: Mapping[Var, Any] | None = None) -> None:
        """Run the program to the end; raises TileError.

        `values` are those of variables that no loop counts.
        """
        main = Thread("the program")
        frame = ThreadState(main, memory=memory, values=dict(values or {}))
        for blocked in self._block(self.top or blocks(self.program), frame, None):
            # At the top nobody else is left who could cause the event that a thread waits for.
            if blocked:
                raise _deadlock(blocked)

    def _block(self, block: Block, frame: ThreadState, team: _Team | None) -> Run:
        if block.buffers:
            frame = self.effects.enter(block, frame)
        if block.channels:
            frame = replace(frame, rings=dict(frame.rings))
            for name in block.channels:
                frame.rings[name] = self._ring(self.channels[name])
        for step in block.steps:
            if step.born:
                self.effects.born(step.born, frame)
            yield from self._step(step, frame, team)
        for name in block.channels:
            frame.rings[name].finish()

    def _ring(self, channel: Channel) -> ChannelState:
        releasers, acquires = self.handshake.get(channel.name, (0, False))
        return ChannelState(channel, releasers, acquires)

    def _step(self, step: Step, frame: ThreadState, team: _Team | None) -> Run:
        node = step.nodes[0]
        match node:
            case For():
                if not self.effects.absorb(node, frame):
                    yield from self._loop(node, step.inner[0], frame, team)
                return
            case Role():
                yield from self._roles(step, frame)
                return
            case Copy() | Compute():
                self._check_reads(node, frame)
                try:
                    self._work(node, frame)
                except ElementRangeError as error:
                    where = node.origin.logic or node.origin.mapping
                    raise IndexRangeError.of(error, where) from None
            case Barrier():
                yield from self._barrier(node, frame, team)
            case Acquire() | Commit() | Wait() | Release():
                yield from self._hand_over(node, frame)
        self._tick()
        # Nobody waits for a copy or a computation of another: who has priority is still blocked.
        if not self.alone and (self.shuffled or not isinstance(node, Copy | Compute)):
            yield ()

    def _check_reads(self, node: Node, frame: ThreadState) -> None:
        for region in reads(node):
            for name in self.filled.get(region.buffer, ()):
                ring = frame.rings.get(name)
                if ring is not None:
                    stage = region.stage.evaluate(frame.values)
                    ring.check_read(region, stage, frame.thread, node)

    def _work(self, node: Copy | Compute, frame: ThreadState) -> None:
        if isinstance(node, Copy):
            self._copy(node, frame)
        else:
            self.effects.compute(node, frame)

    def _copy(self, node: Copy, frame: ThreadState) -> None:
        if node.channel is None:
            self.effects.copy(node, frame)
            return
        ring = frame.rings[node.channel]
        flight = self.effects.issue(node, frame, self.schedule.landing == "early")
        ring.issue(flight, node.target.stage.evaluate(frame.values))
        if self.schedule.landing == "early":
            flight.arrive()
        else:
            self.flying.append(flight)

    def _tick(self) -> None:
        """Let time pass: under a random schedule some copies land."""
        if not self.flying or self.schedule.landing != "random":
            return
        for flight in self.flying:
            if self.random.random() < 0.25:
                flight.arrive()
        self.flying = [f for f in self.flying if not f.landed]

    def _hand_over(self, node: Acquire | Commit | Wait | Release, frame: ThreadState) -> Run:
        ring, thread = frame.rings[node.channel], frame.thread
        ring.users.add(thread.name)
        # The verifier skips iterations with their fills, so later fills have smaller numbers in
        # the walk than in the program.
        skipped = sum(ring.shifts.get(t.name, 0) for t in thread.line())
        number = node.index.evaluate(frame.values) - skipped
        match node:
            case Commit():
                self.effects.hand_over("commit", ring.commit(number, node), frame)
            case Release():
                self.effects.hand_over("release", ring.release(number, thread, node), frame)
            # A store waits for the one as many fills before it as there are stages, which the first
            # ones do not have: their numbers are negative.
            case Wait() if number >= 0:
                while number not in ring.fills:
                    what = f"fill {number} of {ring.name} to be committed"
                    yield (Blocked(thread, node, what),)
                fill = ring.fills[number]
                for flight in fill.flights:
                    flight.arrive()
                fill.waited.append(thread)
                self.flying = [f for f in self.flying if not f.landed]
                self.effects.hand_over("wait", fill, frame)
            case Acquire():
                while not ring.free(number):
                    what = f"fill {number - ring.channel.stages} of {ring.name} to be released"
                    yield (Blocked(thread, node, what),)
                before = ring.acquire(number)
                if before is not None:
                    self.effects.hand_over("acquire", before, frame)

    def _loop(self, node: For, block: Block | None, frame: ThreadState, team: _Team | None) -> Run:
        assert block is not None
        try:
            extent = max(0, node.extent.evaluate(frame.values))
        except ElementRangeError as error:
            raise CountRangeError.of(error, node.origin.logic or node.origin.mapping) from None
        trips: Iterable[int] = self.effects.trips(node, extent, frame)
        if node.kind == "parallel":
            trips = self._ordered(trips)
            if node.processor is not None and node.processor in self.meeting:
                yield from self._together(node, block, frame, trips)
                return
        for value in trips:
            inner = frame if node.processor is None else self.effects.unit(node, frame)
            inner.values[node.variable] = value
            yield from self._block(block, inner, team)

    def _ordered(self, trips: Iterable[int]) -> list[int]:
        order = list(trips)
        if self.schedule.iterations == "reversed":
            order.reverse()
        elif self.schedule.iterations == "shuffled":
            self.random.shuffle(order)
        return order

    def _together(self, node: For, block: Block, frame: ThreadState, trips: Iterable[int]) -> Run:
        """Run iterations that have a barrier in common beside each other."""
        values = list(trips)
        team = _Team(node.processor, len(values))
        runs: list[tuple[Thread, Run]] = []
        for value in values:
            thread = Thread(f"{node.variable}={value} of {frame.thread.name}", frame.thread)
            # The threads are interleaved, so each needs loop indices of its own.
            inner = self.effects.unit(node, frame).fork(thread)
            inner.values[node.variable] = value
            runs.append((thread, self._block(block, inner, team)))
        team.threads = [thread for thread, _ in runs]
        yield from self._beside(frame.thread, runs)

    def _roles(self, step: Step, frame: ThreadState) -> Run:
        runs: list[tuple[Thread, Run]] = []
        for node, block in zip(step.nodes, step.inner, strict=True):
            assert isinstance(node, Role)
            assert block is not None
            thread = Thread(node.name, frame.thread)
            inner = self.effects.unit(node, frame).fork(thread)
            runs.append((thread, self._block(block, inner, None)))
        yield from self._beside(frame.thread, runs)

    def _beside(self, parent: Thread, runs: list[tuple[Thread, Run]]) -> Run:
        """Run threads side by side; the one with priority runs whenever it can."""
        children = [thread for thread, _ in runs]
        self.effects.fork(parent, children)
        waiting = [run for _, run in runs]
        if self.schedule.roles == "last":
            waiting.reverse()
        while waiting:
            if self.schedule.roles == "random":
                self.random.shuffle(waiting)
            # A round ends with the first thread that makes progress, so the order of `waiting` is
            # a strict priority. If none does, all are blocked, and the caller decides whether
            # others can go on.
            halted: list[Blocked] = []
            for run in list(waiting):
                try:
                    blocked = next(run)
                except StopIteration:
                    waiting.remove(run)
                    break
                if not blocked:
                    break
                halted += blocked
            else:
                yield tuple(halted)
                continue
            yield ()
        self.effects.join(parent, children)

    def _barrier(self, node: Barrier, frame: ThreadState, team: _Team | None) -> Run:
        # Outside of a loop over its level, and in roles, a barrier has nobody else to meet.
        if team is None or team.processor != node.processor:
            return
        team.arrived += 1
        number = team.met
        if team.arrived == team.size:
            team.arrived, team.met = 0, team.met + 1
            self.effects.meet(team.threads)
        # Barriers are counted, as a fast thread may be at the next one before a slow one leaves
        # this.
        while team.met == number:
            missing = team.size - team.arrived
            yield (Blocked(frame.thread, node, f"{missing} more at the barrier"),)


def _filled(program: TileProgram) -> Mapping[str, tuple[str, ...]]:
    """Return the channels that fill each buffer."""
    found: dict[str, dict[str, None]] = {}
    for node in nodes(program.body):
        if isinstance(node, Copy) and node.channel is not None:
            found.setdefault(node.target.buffer, {})[node.channel] = None
    params = set(program.params)
    return {name: tuple(ch) for name, ch in found.items() if name not in params}


def _handshake(program: TileProgram) -> Mapping[str, tuple[int, bool]]:
    """Return, for each channel, how many threads release it, and whether it is acquired."""
    releasers: dict[str, set[int]] = {}
    acquired: set[str] = set()

    def visit(body: tuple[Node, ...], role: int) -> None:
        for node in body:
            match node:
                case Release(channel=name):
                    # By role, not by node: each fill is released once by each role, wherever that
                    # does it.
                    releasers.setdefault(name, set()).add(role)
                case Acquire(channel=name):
                    acquired.add(name)
                case Role():
                    visit(node.body, id(node))
                case For():
                    visit(node.body, role)

    visit(program.body, 0)
    names = set(releasers) | acquired
    return {n: (len(releasers.get(n, ())), n in acquired) for n in names}


def _deadlock(blocked: tuple[Blocked, ...]) -> Exception:
    lines = [f"{b.thread.name} waits for {b.what}" for b in blocked]
    places = [(b.thread.name, b.node.origin.logic or b.node.origin.mapping) for b in blocked[1:]]
    notes = [(f"{name} waits here", place) for name, place in places if place]
    message = "deadlock: " + "; ".join(lines)
    return located(DeadlockError, message, blocked[0].node.origin, notes=notes)
