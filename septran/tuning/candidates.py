"""The candidates of a search: combinations of a mapping's `!tune` and of tunables to try."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from septran.mapping.tune import Candidate, Point, Space

MOST_LISTED = 4096
"""The number of combinations up to which all are listed; of more, some are drawn."""


@dataclass(frozen=True)
class CandidateValues:
    """The dimensions of a search, each with its values in order."""

    values: Mapping[str, tuple[Candidate, ...]]
    space: Space
    """The space of the mapping's `!tune`; its constraints are over all dimensions."""
    extra: frozenset[str] = frozenset()
    """The tunables that the caller tries, whatever the mapping says of them."""

    @staticmethod
    def of(space: Space, tried: Mapping[str, Sequence[Candidate]]) -> CandidateValues:
        """Return the mapping's own dimensions, then those that the caller tries."""
        values = {d.name: tuple(d.tune.candidates()) for d in space.dimensions}
        values |= {name: tuple(some) for name, some in tried.items()}
        return CandidateValues(values, space, frozenset(tried))

    @property
    def size(self) -> int:
        """The number of combinations before the constraints."""
        return math.prod(len(some) for some in self.values.values())

    def points(self, seed: int = 0) -> Iterator[Point]:
        """Yield all points that the constraints allow, in order; of very many, a random part."""
        if self.size <= MOST_LISTED:
            combinations: Iterator[tuple[Candidate, ...]] = itertools.product(*self.values.values())
        else:
            combinations = self._drawn(random.Random(seed))
        for values in combinations:
            point = dict(zip(self.values, values, strict=True))
            if self.space.allows(point):
                yield point

    def _drawn(self, source: random.Random) -> Iterator[tuple[Candidate, ...]]:
        seen: set[tuple[Candidate, ...]] = set()
        # Four draws for each point wanted: in a space just above the limit many draws repeat.
        for _ in range(4 * MOST_LISTED):
            drawn = tuple(source.choice(some) for some in self.values.values())
            if drawn not in seen and len(seen) < MOST_LISTED:
                seen.add(drawn)
                yield drawn

    def near(self, point: Point) -> Iterator[Point]:
        """Yield the points that differ by one step in one dimension."""
        for name, some in self.values.items():
            place = some.index(point[name])
            # Values are in the order of the mapping, in which neighbours are alike.
            for other in (place - 1, place + 1):
                if 0 <= other < len(some):
                    yield {**point, name: some[other]}
