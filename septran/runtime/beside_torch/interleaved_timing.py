"""Interleaved timing of two sides, so that a busy machine slows both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

MIN_PAIRS = 7
"""Pairs that are timed even where one takes longer than all the time there is."""
MAX_PAIRS = 20_000
WARM_UP_CALLS = 3
"""Calls of each side before the first that counts."""


@dataclass(frozen=True)
class InterleavedTiming:
    """The result of an interleaved timing; a ratio above 1 means that ours is faster."""

    ratio: float
    """The median over pairs of their time by ours."""
    ours_seconds: float
    """The median of our times, in seconds."""
    theirs_seconds: float
    """The median of their times, in seconds."""
    pairs: int
    """The number of pairs of calls."""


def time_interleaved(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    seconds: float,
    most: int = MAX_PAIRS,
) -> InterleavedTiming:
    """Call the two sides alternately for `seconds` and take medians of the pairs.

    Single calls rather than series of each: in programs that use both, either side finds the
    threads and the caches as the other has left them.
    """
    for _ in range(WARM_UP_CALLS):
        ours()
        theirs()
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while (time.perf_counter() < end or len(times) < MIN_PAIRS) and len(times) < most:
        times.append((seconds_of(ours), seconds_of(theirs)))
    return InterleavedTiming(
        statistics.median(b / a for a, b in times),
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        len(times),
    )


def seconds_of(side: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    side()
    return time.perf_counter() - start
