"""Caches and main memory, measured: where a level ends, how long a load waits, bytes a second."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from septran.backends import HostLoops, LinkLoops
from septran.machine.model import Machine
from septran.tuning.probes import ROUNDS, Figure, Probe, sample

SMALLEST, LARGEST = 4 << 10, 256 << 20
"""Bytes of the buffers in which caches are looked for."""
MOST_STEPS = 40_000
"""Links of a way through lines; no level of caches needs more for a steady time."""
LATENCY_STEP = 1.6
"""A latency that is so many times that of a level is of the next one."""
SETTLED = 1.2
"""A latency that grows by less, from one size to half as much again, is that of one level."""
AGREEMENT = 1.6
"""Where what is found differs from what the system says by less, the system's size counts."""
OWN_AGREEMENT = 3.0
"""The same of a cache of one core. Who else runs on it, as another guest on its second thread, has
a part of it, and pages lie anywhere: a Zen 4's 1 MiB was 384 KiB and 768 KiB within a minute."""
LARGEST_OF_ONE_CORE = 8 << 20
"""Bytes that no cache of one core is larger than."""
BANDWIDTH_STEP = 1.3
"""How many times as fast a shared cache must be as main memory to be distinguished from it."""
KINDS = ("read", "write", "copy")
STREAM = "stream"
SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Rates:
    """Bytes a second of one level, by one core alone and by all at once."""

    read: Figure
    write: Figure
    copy: Figure
    stream: Figure | None = None
    """Stores past the caches, of main memory."""


@dataclass(frozen=True)
class Level:
    """One level of memory."""

    name: str
    size: int | None
    """Bytes, of a cache; None of main memory."""
    found: int | None
    """The size that the times of this survey show."""
    reported: int | None
    """The size that the system reports."""
    latency: Figure
    """Seconds from one load to the next that waits for it."""
    one: Rates
    all: Rates


@dataclass(frozen=True)
class Size:
    """Where a cache ends."""

    name: str
    found: int | None
    reported: int | None
    shared: bool = False
    """By several cores."""

    @property
    def bytes(self) -> int | None:
        """The system's size where the times do not speak against it, else that of the times."""
        if self.found is None or self.reported is None:
            return self.found or self.reported
        most = AGREEMENT if self.shared else OWN_AGREEMENT
        near = max(self.found, self.reported) <= most * min(self.found, self.reported)
        return self.reported if near else self.found


def cache_sizes(machine: Machine, loops: HostLoops, largest: int) -> list[Size]:
    """The caches that the file names, the smallest first.

    Those of one core end where a chain of loads waits longer; the one that cores share where
    copying gets slower, as a way through random lines may miss long before, and what is written is
    kept for less long than what is read (a Cascade Lake's 35 MiB: 10 MiB of that, 28 of this).
    """
    reported = reported_sizes()
    caches = [m for m in reversed(machine.memories) if m.cached]
    own = [m for m in caches if machine.depth(m.visible_to) > 0]
    latencies = _latencies(
        loops, [n for n in sizes_between(SMALLEST, largest) if n <= LARGEST_OF_ONE_CORE]
    )
    ends = ends_of_plateaus(latencies, len(own))
    found = [
        Size(m.name, e, reported.get(n)) for n, (m, e) in enumerate(zip(own, ends, strict=True), 1)
    ]
    for memory in caches[len(own) :][:1]:
        start = 2 * max((size.bytes or 0 for size in found), default=SMALLEST)
        rates = _copies(loops, [n for n in sizes_between(SMALLEST, largest) if n >= start])
        end, level = end_of_slope(rates), len(own) + 1
        found.append(Size(memory.name, end, reported.get(level), shared=True))
    return found


def sizes_between(least: int, most: int) -> Iterator[int]:
    """Two sizes an octave: powers of two, and half as much again."""
    size = least
    while size <= most:
        yield size
        if size * 3 // 2 <= most:
            yield size * 3 // 2
        size *= 2


def ends_of_plateaus(latencies: dict[int, float], count: int) -> list[int | None]:
    """The last size of each of the first levels, by the seconds that a load takes there.

    That is half-way, by ratio, to what a load takes in the next one: where pages lie anywhere, some
    lines of what a level could hold are not in it.
    """
    found: list[int | None] = []
    sizes, waits = list(latencies), list(latencies.values())
    start = 0
    for _ in range(count):
        following = _next_plateau(waits, start)
        if following is None:
            found.append(None)
            start = len(sizes)
            continue
        middle = math.sqrt(waits[start] * waits[following])
        found.append(sizes[max(n for n in range(start, following) if waits[n] <= middle)])
        start = following
    return found


def _next_plateau(waits: Sequence[float], start: int) -> int | None:
    """The number of the first size that is all of the next level: the next one takes no longer."""
    for n in range(start + 1, len(waits)):
        settled = n + 1 == len(waits) or waits[n + 1] <= SETTLED * waits[n]
        if waits[n] > LATENCY_STEP * waits[start] and settled:
            return n
    return None


def end_of_slope(found: dict[int, float]) -> int | None:
    """The last size of which more than half comes as fast as the first, the rest as the last.

    Where some are slower before it and some faster behind it, as other programs may have taken
    their part meanwhile, as few and as little as can be.
    """
    sizes, rates = list(found), list(found.values())
    if rates[0] < rates[-1] * BANDWIDTH_STEP:
        return None
    middle = 2 / (1 / rates[0] + 1 / rates[-1])

    def wrong(count: int) -> float:
        slow = sum(math.log(middle / rate) for rate in rates[:count] if rate < middle)
        return slow + sum(math.log(rate / middle) for rate in rates[count:] if rate > middle)

    return sizes[min(range(1, len(sizes)), key=wrong) - 1]


def reported_sizes(folder: Path = SYSTEM) -> dict[int, int]:
    """Bytes of each level of caches for data, as the system reports; empty where it does not."""
    found: dict[int, int] = {}
    units = {"K": 1 << 10, "M": 1 << 20}
    for index in sorted(folder.glob("index*")):
        try:
            kind, level, size = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("type", "level", "size")
            )
            if kind != "Instruction":
                found[int(level)] = int(size[:-1]) * units[size[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return found


def _latencies(loops: HostLoops, sizes: Sequence[int]) -> dict[int, float]:
    """Seconds of a load that waits for the one before it, by the bytes of the way.

    The least of some rounds over all sizes: what is compared is not from a quick minute of the host
    here and from a slow one there.
    """
    links = loops.links(sizes[-1])
    rounds = [{s: _latency(loops, links, s, 1).value for s in sizes} for _ in range(ROUNDS)]
    return {size: min(found[size] for found in rounds) for size in sizes}


def _latency(loops: HostLoops, links: LinkLoops, size: int, rounds: int = ROUNDS) -> Figure:
    count = links.lay(size)
    # Once before it is timed, so that lines are where they will be found again.
    links.follow(min(MOST_STEPS * 4, count))

    def follow(times: int) -> float:
        links.follow(times * 64)
        return times * 64.0

    probe = Probe(follow)
    sample([probe], rounds, loops.use_threads)
    return probe.seconds


def _copies(loops: HostLoops, sizes: Sequence[int]) -> dict[int, float]:
    """Bytes a second that one core copies, by the bytes of both buffers, over and over.

    The most of some rounds, as other programs only ever take something away.
    """
    buffers = loops.buffers(sizes[-1], 1)
    probes = {n: Probe(functools.partial(buffers.run, "copy", n // 2)) for n in sizes}
    sample(list(probes.values()), ROUNDS, loops.use_threads)
    return {size: max(probe.samples) for size, probe in probes.items()}


@dataclass(frozen=True)
class Span:
    """What one level is measured on."""

    level: str
    bytes: int
    """Of all cores together where they share the level, of each where not."""
    chase_bytes: int
    """Bytes of the way of loads that wait for one another."""
    shared: bool
    size: Size | None = None
    """Where the cache ends; None of main memory."""


def spans(machine: Machine, sizes: Sequence[Size], most: int, cores: int) -> Iterator[Span]:
    """Bytes that are surely of each level: half of a cache, and all there may be of main memory.

    Of the innermost cache it is a quarter, as a loop needs some of it for itself. Of one that cores
    share, with programs that nobody here knows of, it is as far from its end as from the beginning.
    """
    before = 0
    for size in sizes:
        held = size.bytes
        if not held:
            continue
        # Half-way, by ratio, from the end of the cache before to that of this one.
        chase_bytes = int(math.sqrt(before * held)) if before else held // 4
        shared = machine.depth(machine.memory(size.name).visible_to) == 0
        part = held // 2 if before else held // 4
        if shared:
            # Twice as much for each core as its own caches hold.
            part = min(part, max(chase_bytes, 2 * before * cores))
        yield Span(size.name, part, chase_bytes, shared, size)
        before = held
    yield Span(machine.main_memory.name, most, most, shared=True)


def memory_probes(
    spans: Sequence[Span], loops: HostLoops, cores: int, most: int
) -> dict[str, Probe]:
    """Bandwidths of all levels, on one core and on all, by level, threads and what is done."""
    found: dict[str, Probe] = {}
    for threads in sorted({1, cores}):
        buffers = loops.buffers(most // threads, threads)
        for span in spans:
            each = span.bytes // threads if span.shared else span.bytes
            for kind in KINDS if span.size else (*KINDS, STREAM):
                # A copy has two buffers, which the level is to hold together.
                part = each // 2 if kind == "copy" else each
                run = functools.partial(buffers.run, kind, part)
                found[f"{span.level}/{threads}/{kind}"] = Probe(run, threads)
    return found


def levels(
    spans: Sequence[Span], memory: dict[str, Probe], loops: HostLoops, cores: int
) -> Iterator[Level]:
    """What was found of each level, the smallest first."""
    links = loops.links(max(span.chase_bytes for span in spans))
    loops.use_threads(1)
    for span in spans:
        one, every = (_rates(memory, f"{span.level}/{threads}") for threads in (1, cores))
        size = span.size or Size(span.level, None, None)
        latency = _latency(loops, links, span.chase_bytes)
        yield Level(span.level, size.bytes, size.found, size.reported, latency, one, every)


def _rates(memory: dict[str, Probe], key: str) -> Rates:
    read, write, copy = (memory[f"{key}/{kind}"].rate for kind in KINDS)
    stream = memory.get(f"{key}/{STREAM}")
    return Rates(read, write, copy, None if stream is None else stream.rate)
