"""Channels as flags: which numbers say that a fill has arrived, and that a slot is free.

Channels that fill the same buffers share one *ring* of slots. A ring's slots are free
before the program begins: whoever fills one counts its flag down, whoever is done with it
counts it up, so that a fill never waits for more than the last user of its own slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.ir.index import Index
from septran.simulator.queues import Queues
from septran.targets.dsa.steps import Handover, MemoryUse, QueuedWork, Step, walk, works
from septran.tile.nodes import Acquire, Channel, Copy, Release, TileProgram

ARRIVED, FREE = "arrived", "free"


@dataclass(frozen=True)
class FlagRing:
    """The slots that one or more channels go round."""

    buffers: tuple[str, ...]
    queue: int
    """Of the engine that copies."""
    stages: int
    peers: tuple[int, ...]
    """Queues that use the buffers, which a fill has to be ordered with."""
    handshake: bool
    """Whether its slots are acquired and released."""
    channels: tuple[Channel, ...] = field(compare=False)


@dataclass(frozen=True)
class Numbers:
    """The flags of one ring between two queues: fill n has number ``base + n % count``."""

    base: int
    count: int

    def of(self, fill: Index) -> Index:
        """The flag of a fill."""
        return fill % self.count + self.base


@dataclass(frozen=True)
class Flags:
    """All numbers of a program."""

    rings: tuple[FlagRing, ...]
    numbers: Mapping[tuple[FlagRing, str, int, int], Numbers]
    """By ring, `ARRIVED` or `FREE`, the queue that sets and the queue that waits."""
    direct: Mapping[tuple[int, int], int]
    """The number for orders that are no channel's, by queues (0 where not listed)."""

    def ring(self, channel: str) -> FlagRing | None:
        """The ring of a channel; None where its queue knows no flags."""
        for ring in self.rings:
            if any(c.name == channel for c in ring.channels):
                return ring
        return None


def flags(program: TileProgram, body: tuple[Step, ...], queues: Queues) -> Flags:
    """The rings of a program and the numbers of their flags."""
    plan = _Plan(_rings(program, body, queues), queues.flags, queues.flag_depth)
    while plan.crowded():
        plan.shrink()
    numbers: dict[tuple[FlagRing, str, int, int], Numbers] = {}
    direct: dict[tuple[int, int], int] = {}
    for (source, target), wanted in plan.demands().items():
        base = 0
        for ring, kind in wanted:
            count = plan.count(ring, kind)
            numbers[ring, kind, source, target] = Numbers(base, count)
            base += count
        # The number behind those of all rings between the two.
        direct[source, target] = base
    return Flags(tuple(plan.rings), numbers, direct)


@dataclass
class _Plan:
    """Rings that share the machine's flags: the last ones get fewer where there are few.

    Arrivals are in order, so that a number may count several of them. All fills of a ring may
    be under way before the first wait is issued: where the numbers together count less far
    than that, the engine stands at a full flag, its queue fills, and the control core never
    comes to the wait. Free slots need one number each. A ring without numbers is left to the
    flags that the dependences ask for, whose wait follows their set at once.
    """

    rings: list[FlagRing]
    limit: int | None
    depth: int
    """How far one number counts."""
    arrivals: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Numbers for arrivals by the rings' buffers, where fewer than their stages."""

    def count(self, ring: FlagRing, kind: str) -> int:
        """Numbers of a ring between one pair of queues."""
        return ring.stages if kind == FREE else self.arrivals.get(ring.buffers, ring.stages)

    def least(self, ring: FlagRing) -> int:
        """Numbers for arrivals with which the engine never stands at a full flag."""
        return -(-ring.stages // self.depth)

    def demands(self) -> dict[tuple[int, int], list[tuple[FlagRing, str]]]:
        """Return what each pair of queues has numbers for."""
        found: dict[tuple[int, int], list[tuple[FlagRing, str]]] = {}
        for ring in self.rings:
            for peer in ring.peers:
                found.setdefault((ring.queue, peer), []).append((ring, ARRIVED))
                if ring.handshake:
                    found.setdefault((peer, ring.queue), []).append((ring, FREE))
        return found

    def crowded(self) -> list[tuple[FlagRing, str]]:
        """The demands of a pair of queues that has too few; one number is for other orders."""
        if self.limit is None:
            return []
        for wanted in self.demands().values():
            # The last number is that of `Flags.direct`.
            if sum(self.count(*one) for one in wanted) > self.limit - 1:
                return wanted
        return []

    def shrink(self) -> None:
        """Take the least useful number away."""
        wanted = self.crowded()
        arrivals = [ring for ring, kind in wanted if kind == ARRIVED]
        largest = max(arrivals, key=lambda r: self.count(r, ARRIVED) - self.least(r), default=None)
        if largest is not None and self.count(largest, ARRIVED) > self.least(largest):
            self.arrivals[largest.buffers] = self.count(largest, ARRIVED) - 1
            return
        # No arrival can be spared: the last ring goes without flags for free slots, or without any.
        last, kind = wanted[-1]
        place = self.rings.index(last)
        rest = [replace(last, handshake=False)] if kind == FREE else []
        self.rings[place : place + 1] = rest


def _rings(program: TileProgram, body: tuple[Step, ...], queues: Queues) -> list[FlagRing]:
    steps = [step.node for step in walk(body) if isinstance(step, Handover)]
    acquired = {n.channel for n in steps if isinstance(n, Acquire)}
    released = {n.channel for n in steps if isinstance(n, Release)}
    grouped: dict[tuple[tuple[str, ...], int, int, bool], list[Channel]] = {}
    for channel in program.channels:
        queue = queues.numbers[program.machine.engine(channel.engine).name]
        if queue not in queues.synchronous:
            # Acquired but never released, or the other way round, a flag would have one end only.
            handshake = channel.name in acquired & released
            key = (channel.buffers, queue, channel.stages, handshake)
            grouped.setdefault(key, []).append(channel)
    return [
        FlagRing(names, queue, stages, _peers(body, queue, channels), handshake, tuple(channels))
        for (names, queue, stages, handshake), channels in grouped.items()
    ]


def _peers(body: tuple[Step, ...], queue: int, channels: Sequence[Channel]) -> tuple[int, ...]:
    names, buffers = {c.name for c in channels}, set(channels[0].buffers)
    mine = [w for w in works(body) if isinstance(w.node, Copy) and w.node.channel in names]
    uses = [use for work in mine for use in work.uses if use.buffer in buffers]
    found = {
        work.queue
        for work in works(body)
        if work.queue != queue and any(_same(use, uses) for use in _local(work))
    }
    return tuple(sorted(found))


def _local(work: QueuedWork) -> Iterator[MemoryUse]:
    return (use for use in work.uses if use.local)


def _same(use: MemoryUse, uses: Sequence[MemoryUse]) -> bool:
    return any(use.buffer == u.buffer and use.conflicts(u) for u in uses)
