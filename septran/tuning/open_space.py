"""The space of a search that names nothing: what a mapping may say instead, place by place.

A point has the values that differ from the mapping's, so the empty point is the mapping as it is.
Which points a search looks at follows from the performance model: the best point so far whose
neighbours are unknown has all of them looked at next, and a search ends where this brings nothing
any more. Tile sizes, pipelines and instructions go first; once they are settled, everything else
(memories, roles, order of tiles) is tried around the best.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from septran.mapping.keys import BINDING, COPY, LAYOUTS, PIPELINE, TUNABLES
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile
from septran.mapping.resolved import ResolvedMapping
from septran.mapping.tune import Candidate, Point
from septran.request import CompileRequest
from septran.runtime.stages import Stages
from septran.tuning.candidates import (
    NothingToTuneError,
    PointKey,
    Rank,
    Searched,
    key_of_point,
)
from septran.tuning.changes import (
    Change,
    MappingPlace,
    changed_text,
    changes,
    places,
    text_of_value,
)
from septran.tuning.model import predict
from septran.tuning.tuning import Trial
from septran.tuning.writing import WrittenMapping

CHOSEN = (COPY.path, LAYOUTS.path)
"""The keys that are left to the compiler."""
FIRST = (TUNABLES.path, PIPELINE.path, BINDING.path)
"""The keys that are tried around every good point; the others only around the best."""
REACH = 2
"""Neighbours of a tile size: so many steps of its ladder to either side, at most twice the size."""
IDLE = 3
"""Points whose neighbours are all worse, after which the search of the first keys ends."""
MOST_LOOKED_AT = 384
"""The greatest number of candidates that the model ranks."""

Move = Mapping[str, Candidate]
"""Values that change together."""


@dataclass(frozen=True)
class OpenSpace:
    """What the places of a mapping may say instead."""

    places: Mapping[str, MappingPlace]
    """The places by the names that a point has for them: ``gemm_block.block_K``."""
    ladders: Mapping[str, tuple[Candidate, ...]]
    """For each place the values in order, that of now among them."""
    together: tuple[tuple[tuple[str, ...], Candidate], ...] = ()
    """Places that take one value together: all inputs, outputs or temporaries of a task."""
    kept: tuple[Change, ...] = ()
    """The tunables that the caller sets, which a file that is written has to say."""
    tried: frozenset[str] = frozenset()
    """None: no tunable is set beside the mapping."""

    @staticmethod
    def of(mapping: ResolvedMapping, given: Collection[str] = ()) -> OpenSpace:
        """Return the space around a mapping that was resolved for a logic and its extents.

        `given` are tunables that the caller sets, which stay as they are.
        """
        every = {_label(p.task, p.key, p.entry): p for p in places(mapping) if p.key not in CHOSEN}
        fixed = [p for p in every.values() if p.key == TUNABLES.path and p.entry in given]
        found = {label: place for label, place in every.items() if place not in fixed}
        most = max((n for p in mapping.tree.root.params for n in p.shape), default=1)
        ladders = {label: _ladder(place, most) for label, place in found.items()}
        groups = [
            (tuple(_label(c.task, c.key, entry) for entry in c.entries), c.after)
            for c in changes(mapping)
            if len(c.entries) > 1
        ]
        return OpenSpace(found, ladders, tuple(groups), tuple(_kept(place) for place in fixed))

    @property
    def size(self) -> int:
        """The number of combinations, most of which a machine refuses."""
        return math.prod(len(ladder) for ladder in self.ladders.values())

    def most(self) -> int:
        """The greatest number of points that `points` yields."""
        return min(self.size, MOST_LOOKED_AT)

    def points(self, seed: int, ranks: Mapping[PointKey, Rank]) -> Iterator[Point]:
        """Yield the points to look at, the mapping as it is first.

        Whoever takes a point puts its rank into `ranks` before taking the next one; a point
        without one was refused, or gave the program of another.
        """
        del seed  # nothing is drawn
        walk = _Walk(self, ranks, {key_of_point({})})
        yield {}
        yield from walk.run()

    def near(self, point: Point) -> Iterator[Point]:
        """Yield the points that a single change, or one of some places together, leads to."""
        for move in (*self.first_moves(point), *self.other_moves(point)):
            yield self.moved(point, move)

    def first_moves(self, point: Point) -> Iterator[Move]:
        """Yield the changes of tile sizes, also one up and one down, pipelines, instructions."""
        sizes = [n for n in self.ladders if self.places[n].key == TUNABLES.path]
        around = {name: self._around(point, name) for name in sizes}
        for name, values in around.items():
            yield from ({name: value} for value in values)
        for pair in combinations(sizes, 2):
            for high, low in (pair, pair[::-1]):
                yield from ({high: h, low: v} for h in around[high][-1:] for v in around[low][:1])
        for name in self.ladders:
            if self.places[name].key in FIRST[1:]:
                yield from ({name: value} for value in self._others(point, name))

    def other_moves(self, point: Point) -> Iterator[Move]:
        """Yield the changes of all other places, alone and together."""
        for name in self.ladders:
            if self.places[name].key not in FIRST:
                yield from ({name: value} for value in self._others(point, name))
        for names, value in self.together:
            yield dict.fromkeys(names, value)

    def applied(self, request: CompileRequest, point: Point) -> CompileRequest:
        """Return the request with a mapping that has the values of a point."""
        if not point:
            return request
        plan = request.mapping
        text, folder = _extended(plan, self.changes(point)), WrittenMapping.of(plan).folder
        return replace(request, mapping=load_mapping(text, plan.machine, folder=folder))

    def text(self, searched: Searched, best: Trial) -> str:
        """Return the mapping with the changes that do anything, each with what it brings."""
        made = self._needed(searched, best)
        text = _extended(searched.request.mapping, (*self.kept, *made))
        now = _seconds(searched.stages(self.point(made)))
        for change in made:
            rest = [c for c in made if c is not change]
            reason = _reason(change, _seconds(searched.stages(self.point(rest))) / now)
            text = text.replace(f"- {change.rule}\n", f"- {change.rule}   # {reason}\n")
        return text

    def _needed(self, searched: Searched, best: Trial) -> list[Change]:
        """Return the changes without those that neither the program nor exact cycles show."""
        made = self.changes(best.point)
        now = searched.stages(self.point(made))
        for change in list(made):
            rest = [c for c in made if c is not change]
            without = searched.stages(self.point(rest))
            same = str(now.tile_program) == str(without.tile_program)
            if same or (best.cycles is not None and _seconds(without) <= _seconds(now)):
                made, now = rest, without
        return made

    def point(self, made: Sequence[Change]) -> Point:
        """Return the point that has these changes."""
        return {
            _label(change.task, change.key, entry): change.after
            for change in made
            for entry in change.entries or ("",)
        }

    def changes(self, point: Point) -> list[Change]:
        """Return what a point changes, the entries of one key and value as one change."""
        groups: dict[tuple[str, str, Candidate, Candidate], list[MappingPlace]] = defaultdict(list)
        for name, value in point.items():
            place = self.places[name]
            groups[place.task, place.key, place.now, value].append(place)
        return [
            Change(
                first.task, first.instance, first.key,
                tuple(p.entry for p in some if p.entry), first.now, value, first.where,
            )
            for (*_, value), some in groups.items()
            for first in some[:1]
        ]  # fmt: skip

    def moved(self, point: Point, move: Move) -> Point:
        """Return the point that a move leads to."""
        changed = {**point, **move}
        return {n: v for n, v in changed.items() if v != self.places[n].now}

    def _now(self, point: Point, name: str) -> Candidate:
        now: Candidate = point.get(name, self.places[name].now)
        return now

    def _others(self, point: Point, name: str) -> Iterator[Candidate]:
        return (value for value in self.ladders[name] if value != self._now(point, name))

    def _around(self, point: Point, name: str) -> tuple[Candidate, ...]:
        """Return the values up to `REACH` steps of a ladder below and above, in order."""
        ladder = self.ladders[name]
        place = ladder.index(self._now(point, name))
        return ladder[max(0, place - REACH) : place] + ladder[place + 1 : place + 1 + REACH]


@dataclass
class _Walk:
    """The order in which a search looks at points."""

    space: OpenSpace
    ranks: Mapping[PointKey, Rank]
    seen: set[PointKey]
    without_effect: set[tuple[str, Candidate]] = field(default_factory=set)
    """Values that were refused, or changed no program, when each was the only change."""

    def useless(self, move: Move) -> bool:
        """Whether a move is of one value of the other keys that did nothing elsewhere."""
        only = next(iter(move.items()))
        first = self.space.places[only[0]].key in FIRST
        return len(move) == 1 and not first and only in self.without_effect

    def run(self) -> Iterator[Point]:
        """Yield points until no change brings anything, or there have been enough."""
        open_points: dict[PointKey, Point] = {key_of_point({}): {}}
        around: set[PointKey] = set()
        idle = 0
        while len(self.seen) < MOST_LOOKED_AT:
            best = self._best(self.seen)
            here = self._best(open_points) if idle < IDLE else None
            if here is not None:
                point, moves = open_points.pop(here), self.space.first_moves
            elif best is not None and best not in around:
                around.add(best)
                point, moves = dict(best), self.space.other_moves
            else:
                return
            for move in moves(point):
                other = self.space.moved(point, move)
                key = key_of_point(other)
                if key in self.seen or self.useless(move) or len(self.seen) >= MOST_LOOKED_AT:
                    continue
                self.seen.add(key)
                yield other
                if key in self.ranks:
                    open_points[key] = other
                elif len(move) == 1:
                    self.without_effect.update(move.items())
            idle = 0 if self._best(self.seen) != best else idle + 1

    def _best(self, keys: Any) -> PointKey | None:
        """Return the point that the model puts first; of equal ones that with fewest changes."""
        ranked = [key for key in keys if key in self.ranks]
        return min(ranked, key=lambda key: (self.ranks[key], len(key), str(key)), default=None)


def _label(task: str, key: str, entry: str) -> str:
    return ".".join(part for part in (task, key.removeprefix(TUNABLES.path), entry) if part)


def _kept(place: MappingPlace) -> Change:
    entries = (place.entry,)
    return Change(place.task, place.instance, place.key, entries, place.now, place.now, place.where)


def _extended(plan: MappingFile, made: Sequence[Change]) -> str:
    """Return the text of a mapping with changes; raises NothingToTuneError."""
    text = changed_text(plan, *made)
    if not text:
        message = "the mapping is a text with instances, to which no rule can be added"
        raise NothingToTuneError(message, hint="write the mapping to a file")
    return text


def _reason(change: Change, share: float) -> str:
    """Return what a change replaces, and how the time without it compares to the time with it."""
    before = f"{text_of_value(change.before)} before"
    if share <= 1:
        return f"{before}; the model sees no gain"
    return f"{before}, which the model says is {share - 1:.1%} slower"


def _seconds(stages: Stages) -> float:
    return predict(stages.tile_program).seconds


def _ladder(place: MappingPlace, most: int) -> tuple[Candidate, ...]:
    """Return the values of a place in order.

    Tile sizes are powers of two and those times one and a half, as register tiles of a multiple
    of three rows or columns are usual, up to the greatest extent of any tensor.
    """
    now = place.now
    if place.key != TUNABLES.path or isinstance(now, bool):
        values: Sequence[Candidate] = (now, *place.values)
        numbers = all(isinstance(value, int) for value in values)
        return tuple(sorted(values, key=_number)) if numbers else tuple(values)
    top = 1 << max(0, most - 1).bit_length()
    powers = [1 << n for n in range(top.bit_length())]
    between = [3 << n for n in range(top.bit_length()) if 3 << n < top]
    return tuple(sorted({*powers, *between, now}))


def _number(value: Candidate) -> int:
    return value if isinstance(value, int) else 0
