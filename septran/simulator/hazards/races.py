"""Commands that use the same bytes and nothing orders, and flags without a wait."""

from __future__ import annotations

from typing import Any

import numpy as np

from septran.simulator.errors import FlagError, HazardError
from septran.simulator.hazards.accesses import Accesses
from septran.simulator.hazards.ordering import Ordering
from septran.simulator.hazards.overlaps import overlaps
from septran.simulator.spaces import Spaces
from septran.simulator.stream import NAMES, Stream
from septran.simulator.timing.timeline import Timing

Array = np.ndarray[Any, Any]
Pairs = tuple[Array, Array]


def contested(accesses: Accesses, order: Ordering, count: int) -> Array:
    """Regions in spaces that somebody writes and somebody of another queue uses."""
    space, lane = accesses.space, order.lane[accesses.command]
    written = np.zeros(count, bool)
    written[space[accesses.write]] = True
    least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(least, space, lane)
    np.maximum.at(most, space, lane)
    result: Array = (written & (least < most))[accesses.regions[:, 0]]
    return result


def related(accesses: Accesses, order: Ordering, used: Array) -> Pairs:
    """Ordered pairs of used regions with bytes in common, of which hazards can come.

    Commands of two queues use them and one writes; a region and itself may be a pair.
    """
    count, lanes = len(accesses.regions), order.lane[accesses.command]
    least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(least, accesses.region, lanes)
    np.maximum.at(most, accesses.region, lanes)
    lane = np.where(least == most, most, -1)
    written = np.zeros(count, bool)
    written[accesses.region[accesses.write]] = True
    a, b = overlaps(accesses.regions, used, lane, written)
    # `overlaps` pairs different regions only; one that several queues use clashes with itself.
    same = np.flatnonzero(used & (lane < 0) & written)
    return np.concatenate([a, same]), np.concatenate([b, same])


def check_hazards(
    stream: Stream,
    spaces: Spaces,
    accesses: Accesses,
    order: Ordering,
    timing: Timing,
    pairs: Pairs,
) -> None:
    """Raise HazardError for the earliest of them."""
    found: list[tuple[int, int]] = []
    # Read after write, write after write, write after read.
    for earlier_writes, later_writes in ((True, False), (True, True), (False, True)):
        first, second = _last_before(accesses, order, pairs, earlier_writes, later_writes)
        a, b = accesses.command[first], accesses.command[second]
        bad = np.flatnonzero(~order.before(a, b))
        if bad.size:
            worst = bad[np.argmin(np.maximum(a[bad], b[bad]))]
            found.append((int(first[worst]), int(second[worst])))
    if found:
        command = accesses.command
        pair = min(found, key=lambda f: max(command[f[0]], command[f[1]]))
        raise _hazard(stream, spaces, accesses, timing, *sorted(pair))


def _last_before(
    accesses: Accesses, order: Ordering, pairs: Pairs, earlier_writes: bool, later_writes: bool
) -> Pairs:
    """For each access, the last one before it of every other queue that shares bytes.

    Queues are in order: where the last is certainly before it, so are all before that.
    """
    size = np.int64(order.rank.size + 1)
    lanes = np.int64(order.clocks.shape[1])
    lane, rank = order.lane[accesses.command], order.rank[accesses.command]
    region, seen = _expand(pairs, accesses, np.flatnonzero(accesses.write == earlier_writes))
    # Region, queue and rank in one integer, so that one sort and binary searches find all.
    key = (region * lanes + lane[seen]) * size + rank[seen]
    sort = np.argsort(key)
    key, seen = key[sort], seen[sort]
    groups = np.unique(key // size)
    later = np.flatnonzero(accesses.write == later_writes)
    # Every later access asks every queue that uses its region.
    low = np.searchsorted(groups, accesses.region[later] * lanes)
    count = np.searchsorted(groups, (accesses.region[later] + 1) * lanes) - low
    later = np.repeat(later, count)
    step = np.arange(later.size) - np.repeat(np.cumsum(count) - count, count)
    group = groups[np.repeat(low, count) + step] if groups.size else low[:0]
    other = group % lanes != lane[later]
    later, group = later[other], group[other]
    # The entry below is the latest of that region and queue, if it has any before this rank.
    place = np.searchsorted(key, group * size + rank[later]) - 1
    hit = (place >= 0) & (key[np.maximum(place, 0)] // size == group) if key.size else place >= 0
    return seen[place[hit]], later[hit]


def _expand(pairs: Pairs, accesses: Accesses, chosen: Array) -> Pairs:
    """Each chosen access once for every region that it shares bytes with."""
    mine, theirs = pairs
    sort = np.argsort(mine, kind="stable")
    mine, theirs = mine[sort], theirs[sort]
    region = accesses.region[chosen]
    low = np.searchsorted(mine, region)
    count = np.searchsorted(mine, region, side="right") - low
    seen = np.repeat(chosen, count)
    step = np.arange(seen.size) - np.repeat(np.cumsum(count) - count, count)
    return theirs[np.repeat(low, count) + step], seen


def _hazard(
    stream: Stream, spaces: Spaces, accesses: Accesses, timing: Timing, first: int, second: int
) -> HazardError:
    """Both commands in the program's order, whichever was first under these delays."""
    a, b = int(accesses.command[first]), int(accesses.command[second])
    does, did = ("writes" if accesses.write[n] else "reads" for n in (second, first))
    if timing.start[b] < timing.end[a]:
        when = f"starts at cycle {timing.start[b]}, before that ends at {timing.end[a]}"
    else:
        when = "is later by luck: no flag orders them"
    region = accesses.regions[accesses.region[second]]
    names = [NAMES[stream.code[n]].removeprefix("dsa.") for n in (a, b)]
    return HazardError(
        f"hazard in {spaces.name(int(region[0]))} at byte {region[1]}: {stream.describe(b)} "
        f"{does} what {stream.describe(a)} {did}, and {when}",
        hint=f"a flag set behind that {names[0]} and waited for before this {names[1]}",
    )


def check_balance(stream: Stream, timing: Timing) -> None:
    """Raise FlagError for a flag that stays set: the next kernel would find it."""
    for left in timing.left:
        raise FlagError(
            f"{stream.flag_name(left)} is set more often than it is waited for; "
            f"the first that nobody waits for is {stream.describe(left)}"
        )
