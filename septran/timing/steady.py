"""A loop in a steady state: every period adds the same to all times, so that it need not be walked.

After some iterations each time of the clock grows by a constant of its own in each period (a number
of iterations in which rings of buffers come round). As long as no faster time overtakes a slower
one that was ahead, all decisions stay as they were, and the times after any number of periods
follow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from septran.timing.clock import Clock

Array = np.ndarray[Any, Any]

PERIODS = (1, 2, 3, 4, 6, 8)
"""The numbers of iterations after which a loop may repeat itself."""
HISTORY = 2 * max(PERIODS) + 1
NEAR = 1e-6
"""Cycles by which times may differ that are the same: rates are fractions."""


class Steady:
    """Watches one loop, and lets its clock skip what is only a repetition."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.moved = False
        """Whether anything was skipped."""
        self.forms: list[Hashable] = []
        self.states: list[tuple[list[float], list[float]]] = []

    def skipped(self, n: int, extent: int, alike: Callable[[int, int], bool]) -> int:
        """Move the clock on after `n` iterations; returns the number of those it skips.

        `alike` says whether two iterations do the same.
        """
        self.forms.append(self.clock.form())
        self.states.append((self.clock.times(), self.clock.sums()))
        del self.forms[:-HISTORY], self.states[:-HISTORY]
        for period in PERIODS:
            if 2 * period >= len(self.forms) or extent - n <= period:
                return 0
            if self.forms[-1] == self.forms[-1 - period] == self.forms[-1 - 2 * period]:
                many = self._periods(period, n, extent, alike)
                if many > 0:
                    self._move(period, many)
                    return many * period
        return 0

    def _periods(self, period: int, n: int, extent: int, alike: Callable[[int, int], bool]) -> int:
        """How many periods can be skipped."""
        now, before, earlier = (self.states[-1 - k * period] for k in range(3))
        for new, old, older in zip(now, before, earlier, strict=True):
            for a, b, c in zip(new, old, older, strict=True):
                if abs((a - b) - (b - c)) > NEAR:
                    return 0
        times = np.array(now[0])
        # The last iteration is always walked: what follows the loop begins where it ends.
        most = min((extent - 1 - n) // period, _until_overtaken(times, times - before[0]))
        return _while_alike(period, n, most, alike)

    def _move(self, period: int, many: int) -> None:
        now, before = self.states[-1], self.states[-1 - period]
        times, sums = (
            [a + many * (a - b) for a, b in zip(new, old, strict=True)]
            for new, old in zip(now, before, strict=True)
        )
        self.clock.move(times, sums)
        self.moved = True
        self.forms.clear()
        self.states.clear()


def _until_overtaken(times: Array, steps: Array) -> int:
    """Periods until a time that grows faster overtakes one that is ahead of it."""
    order = np.argsort(times, kind="stable")
    times, steps = times[order], steps[order]
    slower = np.flatnonzero(np.maximum.accumulate(steps) > steps + NEAR)
    if not slower.size:
        return 1 << 62
    lead, gain = (x[:, None] for x in (times[slower], steps[slower]))
    lead, gain = lead - times, steps - gain
    closing = (lead > NEAR) & (gain > NEAR)
    return int((lead[closing] / gain[closing]).min(initial=1 << 62))


def _while_alike(period: int, n: int, most: int, alike: Callable[[int, int], bool]) -> int:
    """The number of periods, of at most `most`, whose iterations do what the last period did."""
    many = 0
    while many < most:
        first = n + many * period
        if not all(alike(n - period + k, first + k) for k in range(period)):
            break
        many += 1
    return max(0, many)
