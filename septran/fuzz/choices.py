"""Random decisions that can be recorded, repeated and made simpler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
Trace = tuple[int, ...]
"""The draws in order: each is a number below the bound of its draw, 0 the simplest."""


class Choices:
    """The source of all decisions of a generator.

    A generator that draws from nothing else is a function of its trace, so a shorter or
    smaller trace is a simpler program: `simpler` needs to know nothing about programs.
    (MacIver and Donaldson, Test-case reduction via test-case generation, ECOOP 2020.)
    """

    def __init__(self, seed: int = 0, trace: Trace | None = None) -> None:
        """Draw at random from `seed`, or repeat those of `trace`, with zeros after its end."""
        self._random = Random(seed)
        self._given = trace
        self._drawn: list[int] = []

    @property
    def trace(self) -> Trace:
        """All draws so far."""
        return tuple(self._drawn)

    def below(self, bound: int) -> int:
        """Return a number from 0 to ``bound - 1``."""
        if self._given is None:
            number = self._random.randrange(bound)
        else:
            position = len(self._drawn)
            number = self._given[position] if position < len(self._given) else 0
            # Shortened traces answer other questions than they were drawn for, of other bounds.
            number = min(number, bound - 1)
        self._drawn.append(number)
        return number

    def of(self, options: Sequence[T]) -> T:
        """Return one of `options`, the simplest of which comes first."""
        return options[self.below(len(options))]

    def between(self, low: int, high: int) -> int:
        """Return a number from `low`, the simplest, to `high`."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """Return whether something happens that does so in `percent` of a hundred programs."""
        # So that the draw 0, the simplest, is always no.
        return self.below(100) >= 100 - percent

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Return at most `most` of `options`, each at most once; none is the simplest."""
        left, found = list(options), []
        for _ in range(self.between(0, min(most, len(left)))):
            found.append(left.pop(self.below(len(left))))
        return found


def simpler(trace: Trace, fails: Callable[[Trace], bool], tries: int = 300) -> Trace:
    """Return a smallest trace that still `fails`, found in at most `tries` attempts.

    Smaller is shorter, then lexicographically less (shortlex), as in Hypothesis.
    """
    best, left, seen = trace, tries, {trace}
    improved = True
    while improved and left > 0:
        improved = False
        for candidate in _candidates(best):
            # Cuts of equal parts give equal traces.
            if candidate in seen:
                continue
            seen.add(candidate)
            left -= 1
            if fails(candidate):
                best, improved = candidate, True
                break
            if left <= 0:
                break
    return best


def _candidates(trace: Trace) -> Iterator[Trace]:
    """Yield simpler neighbours, the greatest simplifications first."""
    size = len(trace)
    # Halves first, as delta debugging does: few tries take most of a trace away.
    step = max(1, size // 2)
    while step:
        for start in range(size - step, -1, -step):
            yield trace[:start] + trace[start + step :]
        for start in range(0, size, step):
            part = trace[start : start + step]
            if any(part):
                yield trace[:start] + (0,) * len(part) + trace[start + step :]
        step //= 2
    for at, number in enumerate(trace):
        for lower in dict.fromkeys((number // 2, number - 1)):
            if 0 <= lower < number:
                yield (*trace[:at], lower, *trace[at + 1 :])
