"""Interleaved timing of two sides, so that a busy machine slows both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Duel:
    """What a duel found; ratios above 1 mean that ours is faster."""

    ratio: float
    """Median over pairs of their time by ours."""
    ours_seconds: float
    """Median."""
    theirs_seconds: float
    pairs: int


def duel(
    ours: Callable[[], object], theirs: Callable[[], object], seconds: float, most: int = 2000
) -> Duel:
    """Alternate the two sides for some time and take medians of the pairs."""
    for warm in (ours, theirs, ours, theirs):
        warm()
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while (time.perf_counter() < end or len(times) < 7) and len(times) < most:
        # Who goes first alternates, so that neither always finds the other's caches.
        if len(times) % 2:
            second, first = _once(theirs), _once(ours)
            times.append((first, second))
        else:
            times.append((_once(ours), _once(theirs)))
    return Duel(
        statistics.median(b / a for a, b in times),
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        len(times),
    )


def _once(side: Callable[[], object]) -> float:
    start = time.perf_counter()
    side()
    return time.perf_counter() - start
