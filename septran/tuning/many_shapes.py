"""One mapping for many shapes: a search of each, and one file with as many cases as pay.

What is found for one shape is tried on all others. A case is a bound on one dimension (``M <= 12``)
that parts the shapes in two; it is made where it brings a shape at least `PAYS`, and the shapes on
either side are parted further in the same way, as a decision tree is grown. What is written is a
dispatch file, whose cases are tried in order.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from septran.argument_checks import WrongArgumentError
from septran.format_units import time_text
from septran.mapping.tune import Point
from septran.stage import Displayable
from septran.tuning.candidates import key_of_point
from septran.tuning.measuring import MeasuringWorker
from septran.tuning.tuner import Search, in_turn
from septran.tuning.tuning import NothingFoundError, Trial, Tuning, values_text, written_to
from septran.tuning.writing import MARK, shortest

PAYS = 0.03
"""A case has to make some shape faster by this share."""

ROUNDING = 1e-9
REFUSED = 1e6
"""How many times the slowest a candidate counts that is refused or wrong."""

Shape = Mapping[str, int]
"""Extents by the names that conditions know: a dimension, or ``A_0`` of a tensor."""


@dataclass(frozen=True)
class ShapeCase:
    """The shapes for which one mapping is taken."""

    bounds: tuple[str, ...]
    """The conditions that hold, beside those of earlier cases, which do not; none of the last."""
    variant: int
    """The number of the mapping."""
    shapes: tuple[int, ...]
    """The numbers of the shapes that it was made for."""


def cases(shapes: Sequence[Shape], costs: Sequence[Sequence[float]]) -> list[ShapeCase]:
    """Return the cases, in order, for the costs of each variant (a column) on each shape (a row).

    Variant 0 is the mapping as it is, which is kept where no other is faster by `PAYS`. A cost is
    infinite where a variant is refused or wrong; raises NothingFoundError where the bounds on
    dimensions cannot keep a shape from one that is.
    """
    most = max((c for row in costs for c in row if math.isfinite(c)), default=1.0)
    # Far above all others, but numbers that can be compared: what is right comes first.
    known = [[c if math.isfinite(c) else most * REFUSED for c in row] for row in costs]
    found = list(_parted(shapes, known, range(len(shapes)), ()))
    for case in found:
        for n in case.shapes:
            if math.isinf(costs[n][case.variant]):
                raise NothingFoundError(f"no case is right for {values_text(shapes[n])}")
    return found


def _parted(
    shapes: Sequence[Shape],
    costs: Sequence[Sequence[float]],
    mine: Iterable[int],
    bounds: tuple[str, ...],
) -> Iterator[ShapeCase]:
    here = tuple(mine)
    variant = _variant(costs, here)
    parts: list[tuple[float, str, tuple[int, ...], tuple[int, ...]]] = []
    for name, most in _bounds([shapes[n] for n in here]):
        low = tuple(n for n in here if shapes[n][name] <= most)
        high = tuple(n for n in here if n not in low)
        variants = {n: v for side in (low, high) for v in [_variant(costs, side)] for n in side}
        gains = [costs[n][variant] / costs[n][v] for n, v in variants.items()]
        # Where one gains what another loses, parting these once more may bring both.
        if max(gains) >= 1 + PAYS and math.prod(gains) > 1 - ROUNDING:
            parts.append((-math.prod(gains), f"{name} <= {most}", low, high))
    if not parts:
        yield ShapeCase(bounds, variant, here)
        return
    _, bound, low, high = min(parts)
    yield from _parted(shapes, costs, low, (*bounds, bound))
    yield from _parted(shapes, costs, high, bounds)


def _variant(costs: Sequence[Sequence[float]], shapes: Sequence[int]) -> int:
    """Return the variant that is fastest over some shapes, the geometric mean of their costs."""
    variants = range(len(costs[0]))
    total = [sum(math.log(costs[n][v]) for n in shapes) for v in variants]
    best = min(variants, key=total.__getitem__)
    pays = any(costs[n][0] / costs[n][best] >= 1 + PAYS for n in shapes)
    return best if pays else 0


def _bounds(shapes: Sequence[Shape]) -> Iterator[tuple[str, int]]:
    """Yield each bound that parts the shapes: the middle between two extents, by ratio."""
    for name in sorted(set(shapes[0]).intersection(*shapes)):
        extents = sorted({shape[name] for shape in shapes})
        for low, high in pairwise(extents):
            yield name, max(low, min(high - 1, math.isqrt(low * high)))


@dataclass(frozen=True)
class TunedShapes(Displayable):
    """The result of a search for many shapes."""

    name: str
    machine: str
    shapes: tuple[Shape, ...]
    searches: tuple[Tuning, ...]
    """The search of each shape."""
    costs: tuple[tuple[float, ...], ...]
    """For each shape the seconds of each variant, infinite where it is refused or wrong."""
    cases: tuple[ShapeCase, ...]
    texts: tuple[str, ...] = field(repr=False)
    """The mappings of the variants."""
    folder: Path | None = field(default=None, repr=False)

    def to_yaml(self) -> str:
        """Return the dispatch file, or the mapping itself where one is enough."""
        head = [f"{MARK} for {self.name} on {self.machine}, for these shapes:"]
        head += [f"#   {line}" for line in self._rows()]
        *some, last = self.cases
        if not some:
            return "\n".join([*head, self.texts[last.variant]])
        lines = ["dispatch:"]
        for case in some:
            lines += [f"  - when: {' and '.join(case.bounds)}", "    mapping:"]
            lines += self._indented(case.variant, 6)
        lines += ["otherwise:", *self._indented(last.variant, 2)]
        return "\n".join([*head, *lines, ""])

    def save(self, path: str | Path) -> Path:
        """Write the file; raises FileExistsError for a file that differs."""
        return written_to(path, self.to_yaml())

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {
            "name": self.name, "machine": self.machine, "shapes": [dict(s) for s in self.shapes],
            "searches": [search.to_dict() for search in self.searches],
            "costs": [[c if math.isfinite(c) else None for c in row] for row in self.costs],
            "cases": [vars(case) for case in self.cases], "mapping": self.to_yaml(),
        }  # fmt: skip

    def __str__(self) -> str:
        count = ", ".join(
            f"{len(some)} {word}{'s' * (len(some) > 1)}"
            for some, word in ((self.shapes, "shape"), (self.cases, "case"))
        )
        head = f"{self.name} on {self.machine}: {count}"
        return "\n".join([head, *(f"  {row}" for row in self._rows())])

    def _rows(self) -> Iterator[str]:
        for number, case in enumerate(self.cases, 1):
            for n in case.shapes:
                row = self.costs[n]
                here, before, best = (time_text(c) for c in (row[case.variant], row[0], min(row)))
                shape = values_text(self.shapes[n])
                yield f"{shape}: case {number}, {here}; as it was {before}, best {best}"

    def _indented(self, variant: int, columns: int) -> list[str]:
        return [f"{'':{columns}}{line}" for line in self.texts[variant].splitlines() if line]


def tune_many(searches: Sequence[Search]) -> TunedShapes:
    """Run a search for each shape, and what each found on all of them."""
    if not searches:
        raise WrongArgumentError("shapes names no shape", hint="write shapes=[{'M': 1}, {'M': 64}]")
    if searches[0].request.mapping.dimensions:
        message = "the mapping has !tune, and what is found for many shapes is beside it as it is"
        hint = "search each shape by itself, or name the tunables: tried={...}, --try NAME=A,B"
        raise WrongArgumentError(message, hint=hint)
    found = [search.run() for search in searches]
    variants: list[tuple[Search, Trial]] = [(searches[0], Trial(0, {}, "ranked"))]
    for search, tuning in zip(searches, found, strict=True):
        known = [key_of_point(trial.point) for _, trial in variants]
        if tuning.ordered and key_of_point(tuning.best.point) not in known:
            variants.append((search, tuning.best))
    costs = [beside(search, variants) for search in searches]
    shapes = [_extents(search) for search in searches]
    for shape, row in zip(shapes, costs, strict=True):
        if not any(map(math.isfinite, row)):
            raise NothingFoundError(f"no candidate is right for {values_text(shape)}")
    first = searches[0]
    texts = [shortest(first.source, trial, search) for search, trial in variants]
    return TunedShapes(
        found[0].name, found[0].machine, tuple(shapes), tuple(found), tuple(map(tuple, costs)),
        tuple(cases(shapes, costs)), tuple(texts), first.source.folder,
    )  # fmt: skip


def beside(search: Search, variants: Sequence[tuple[Search, Trial]]) -> list[float]:
    """Return the seconds of each variant for the shape of a search, timed alternately."""
    with tempfile.TemporaryDirectory(prefix="septran-tune-") as folder:
        here = [
            replace(search, choices=of.choices, folder=Path(folder), worker=MeasuringWorker())
            for of, _ in variants
        ]
        points: list[Point] = [trial.point for _, trial in variants]
        try:
            return _alternately(here, points)
        finally:
            for one in here:
                one.worker.close()


def _alternately(here: Sequence[Search], points: Sequence[Point]) -> list[float]:
    trials = [one.once(n, point) for n, (one, point) in enumerate(zip(here, points, strict=True))]
    costs = {n: t.cost for n, t in enumerate(trials) if t.cost is not None}
    if here[0].measured and all(t.cycles is None for t in trials):
        times = in_turn([partial(here[n].ask, trials[n]) for n in costs])
        costs = {n: min([costs[n], *some]) for n, some in zip(costs, times, strict=True)}
    return [costs.get(n, math.inf) for n in range(len(trials))]


def _extents(search: Search) -> Mapping[str, int]:
    """Return the extents of a shape as conditions name them."""
    tree = search.stages({}).task_tree
    if tree.dims:
        return dict(tree.dims)
    return {f"{p.name}_{n}": size for p in tree.root.params for n, size in enumerate(p.shape)}
