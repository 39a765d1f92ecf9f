"""Timing of many things in turns, each in rounds.

Every figure is the median of some rounds, in each of which it is the best of a few runs of a
millisecond or two; the rounds go over all figures in turns, so that a slow second of a machine
that others share is a slow sample of many figures, not all of one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ROUNDS = 5
RUNS = 3
"""Runs in a round, of which the best counts."""
RUN_SECONDS = 1.5e-3
"""About how long a run takes: long enough for the clock of Python, too short to be interrupted."""
WAKING_SECONDS = 0.1
"""For which several threads are busy before anything that they do is timed."""


@dataclass(frozen=True)
class Figure:
    """A number with how far its rounds were apart."""

    value: float
    spread: float
    """Greatest less least of the rounds, in parts of the median."""

    @staticmethod
    def of(samples: Sequence[float]) -> Figure:
        """The median of some rounds."""
        middle = statistics.median(samples)
        return Figure(middle, (max(samples) - min(samples)) / middle if middle else 0.0)


@dataclass
class Probe:
    """One thing to be timed, in every round anew."""

    run: Callable[[int], float]
    """Does it so many times and gives the amount that was done."""
    threads: int = 1
    samples: list[float] = field(default_factory=list)
    """Amounts a second, one of each round."""
    _times: int = 0

    def sample(self) -> None:
        """Time a round, before the first of which it is found how often takes long enough."""
        if not self._times:
            self._times = self._often_enough()
        best = 0.0
        for _ in range(RUNS):
            start = time.perf_counter()
            amount = self.run(self._times)
            best = max(best, amount / (time.perf_counter() - start))
        self.samples.append(best)

    def _often_enough(self) -> int:
        times = 1
        while times < 1 << 26:
            start = time.perf_counter()
            self.run(times)
            taken = time.perf_counter() - start
            # A shorter time would be scaled up with the error of the clock.
            if taken > RUN_SECONDS / 4:
                return max(1, round(times * RUN_SECONDS / taken))
            times *= 4
        return times

    @property
    def rate(self) -> Figure:
        """Amounts a second."""
        return Figure.of(self.samples)

    @property
    def seconds(self) -> Figure:
        """Seconds for one of the amount."""
        return Figure.of([1 / sample for sample in self.samples])


def sample(probes: Sequence[Probe], rounds: int, use: Callable[[int], None]) -> None:
    """All probes in turns, those of as many threads together: others take a while to start."""
    for _ in range(rounds):
        for threads in sorted({probe.threads for probe in probes}):
            use(threads)
            mine = [probe for probe in probes if probe.threads == threads]
            end = time.perf_counter() + (WAKING_SECONDS if threads > 1 else 0.0)
            while time.perf_counter() < end:
                mine[0].run(1000)
            for probe in mine:
                probe.sample()
