"""Interleaved timing of two sides, so that a busy machine slows both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

LEAST_PAIRS = 7
LEAST_CALLS = 3
BURST_SECONDS = 0.02
PAUSE_SECONDS = 0.02
"""Until the other side's idle threads have stopped spinning."""


@dataclass(frozen=True)
class Duel:
    """What a duel found; ratios above 1 mean that ours is faster."""

    ratio: float
    """Median over pairs of their time by ours."""
    ours_seconds: float
    """Median."""
    theirs_seconds: float
    """Median."""
    pairs: int


def duel(
    ours: Callable[[], object], theirs: Callable[[], object], seconds: float, most: int = 2000
) -> Duel:
    """Alternate short bursts of the two sides for some time and take medians of the pairs.

    Bursts rather than single calls, as the idle threads of either side's pool spin for a
    moment and would slow the other; the first calls of a burst do not count.
    """
    for warm in (ours, theirs):
        warm()
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while (time.perf_counter() < end or len(times) < LEAST_PAIRS) and len(times) < most:
        # Who goes first alternates, so that neither always finds the other's caches.
        if len(times) % 2:
            second, first = _burst(theirs), _burst(ours)
            times.append((first, second))
        else:
            times.append((_burst(ours), _burst(theirs)))
    return Duel(
        statistics.median(b / a for a, b in times),
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        len(times),
    )


def _burst(side: Callable[[], object]) -> float:
    """Median time of the later calls of a short series."""
    time.sleep(PAUSE_SECONDS)
    times: list[float] = []
    end = time.perf_counter() + BURST_SECONDS
    while len(times) < LEAST_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        side()
        times.append(time.perf_counter() - start)
    return statistics.median(times[len(times) // 3 :])
