"""The candidates of a search: combinations of a mapping's `!tune` and of tunables to try."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from septran.errors import CallError
from septran.mapping.tune import Candidate, Point, Space, settled, value_text
from septran.request import CompileRequest
from septran.runtime.stages import Stages
from septran.tuning.tuning import Trial
from septran.tuning.writing import WrittenMapping

MOST_LISTED = 4096
"""The number of combinations up to which all are listed; of more, some are drawn."""


PointKey = tuple[tuple[str, Candidate], ...]
Rank = tuple[float, float]
"""Seconds by the model, and those without any overlap, by which equal ones are told apart."""


class NothingToTuneError(CallError):
    """A search was requested in which nothing can take another value."""

    code = "SEP692"


def key_of_point(point: Point) -> PointKey:
    """Return a point as a value that can be looked up."""
    return tuple(sorted(point.items()))


class Searched(Protocol):
    """The parts of a search that writing its best needs."""

    @property
    def request(self) -> CompileRequest:
        """The request, with what its mapping leaves open."""

    @property
    def choices(self) -> SearchSpace:
        """What is chosen from."""

    def stages(self, point: Point) -> Stages:
        """Return the stages of one candidate."""


class SearchSpace(Protocol):
    """What a search chooses from."""

    @property
    def size(self) -> int:
        """The number of combinations."""

    @property
    def tried(self) -> frozenset[str]:
        """The tunables that the caller tries, whatever the mapping says of them."""

    def most(self) -> int:
        """The greatest number of points that `points` yields."""

    def points(self, seed: int, ranks: Mapping[PointKey, Rank]) -> Iterator[Point]:
        """Yield the points to look at.

        Whoever takes a point puts its rank into `ranks` before taking the next one; a point
        without one was refused, or gave the program of another.
        """

    def near(self, point: Point) -> Iterator[Point]:
        """Yield the neighbours of a point."""

    def applied(self, request: CompileRequest, point: Point) -> CompileRequest:
        """Return the request of a point; raises SepTranError."""

    def text(self, searched: Searched, best: Trial) -> str:
        """Return the shortest mapping that has the values of a candidate; empty without one."""


@dataclass(frozen=True)
class CandidateValues:
    """The dimensions of a search, each with its values in order."""

    values: Mapping[str, tuple[Candidate, ...]]
    space: Space
    """The space of the mapping's `!tune`; its constraints are over all dimensions."""
    tried: frozenset[str] = frozenset()
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

    def most(self) -> int:
        """The greatest number of points that `points` yields."""
        return min(self.size, MOST_LISTED)

    def points(
        self, seed: int = 0, ranks: Mapping[PointKey, Rank] | None = None
    ) -> Iterator[Point]:
        """Yield all points that the constraints allow, in order; of very many, a random part."""
        del ranks  # no point follows from another
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

    def applied(self, request: CompileRequest, point: Point) -> CompileRequest:
        """Return the request of a point."""
        own = {n: v for n, v in point.items() if n not in self.tried}
        mapping = request.mapping.with_values(own) if own else request.mapping
        tried: dict[str, Any] = {n: point[n] for n in self.tried if n in point}
        return replace(request, mapping=mapping).with_tunables(tried)

    def text(self, searched: Searched, best: Trial) -> str:
        """Return the mapping with its values filled in, or one that extends it."""
        plan = searched.request.mapping
        source = WrittenMapping.of(plan)
        own = {d.name: best.point[d.name] for d in plan.dimensions}
        others = {n: v for n, v in best.point.items() if n not in own}
        others |= dict(searched.request.tunables)
        if not own and not others:
            return source.unchanged
        if own and not others:
            return settled(source.text, plan, own)
        return _extending(source.base, others) if others and not own and source.base else ""


def _extending(base: str, tunables: Mapping[str, Candidate]) -> str:
    values = ", ".join(f"{name}: {value_text(value)}" for name, value in tunables.items())
    return f'extends: {base}\nrules:\n  - match: {{task: "*"}}\n    tunables: {{{values}}}\n'
