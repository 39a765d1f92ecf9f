"""The cases of a check: the operator's own sizes, edges around tiles, one element, other types."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice

from septran import operators
from septran.backends import backend_of
from septran.checking.subject import CheckCase, Subject
from septran.compiler import fitted
from septran.dtypes import is_float
from septran.errors import LogicError, SepTranError
from septran.request import CompileRequest
from septran.runtime.work import steps
from septran.task.frontend.definition import Task
from septran.task.tree import TaskTree

MOST_ELEMENTS = 1 << 17
"""The greatest number of elements of a tensor, unless the user gives its size."""
MOST_STEPS = 600
"""The greatest number of steps of the reference: about half a second."""
DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32")
LARGEST_TILE = 256


def check_cases(subject: Subject, fixed: CheckCase, most: int) -> tuple[CheckCase, ...]:
    """Return at most `most` cases that the logic is for; what `fixed` says holds in each.

    Raises SepTranError for files that cannot be read.
    """
    task, plan = subject.pair()
    dynamic = backend_of(plan.machine.backend).dynamic
    plan_of_cases = _Cases(subject, task, fixed, dynamic)
    found: dict[str, CheckCase] = {}
    for case in plan_of_cases:
        if len(found) == most:
            break
        found.setdefault(str(case), replace(case, seed=fixed.seed + len(found)))
    return tuple(found.values())


@dataclass(frozen=True)
class _Cases:
    subject: Subject
    task: Task
    fixed: CheckCase
    dynamic: bool
    """Whether the machine's code can be for extents that calls tell."""

    def __iter__(self) -> Iterator[CheckCase]:
        own = [case for case in self._own() if self.takes(case)]
        yield from own[:1]
        if not own:
            return
        base = own[0]
        rest = self._edges(base)
        few = list(islice(rest, 3))
        # The kinds by turns, so that the first few cases have something of each.
        kinds = (chain(few, rest), iter(own[1:]), self._ones(base), self._types(base, few))
        turns = [*kinds, self._special(base, few), self._run_time(base, few), self._flags(base)]
        while turns:
            for kind in list(turns):
                case = next(kind, None)
                if case is None:
                    turns.remove(kind)
                else:
                    yield case

    @cached_property
    def flags(self) -> frozenset[str]:
        """The names of the logic's static flags."""
        return frozenset(keyword.name for keyword in self.task.keywords if keyword.static)

    def _own(self) -> Iterator[CheckCase]:
        """Yield the sizes that the logic's file names, with those that the user fixed."""
        if any(isinstance(size, tuple) for size in self.fixed.sizes.values()):
            yield replace(self.fixed, why="as given")  # shapes say all
            return
        for case in operators.cases_of(self.task):
            dtype = None if case.dtype == "float32" else case.dtype
            made = CheckCase(
                "the operator's own", {**case.sizes, **self.fixed.sizes},
                self.fixed.dtypes or dtype, {**case.static, **self.fixed.static},
                special=self.fixed.special,
            )  # fmt: skip
            yield self._bounded(made)
        if self.fixed.sizes:
            yield replace(self.fixed, why="as given")

    def free(self, case: CheckCase) -> tuple[str, ...]:
        """Return the named dimensions that the user has not fixed."""
        return tuple(n for n in case.sizes if n not in self.fixed.sizes and n not in self.flags)

    def _edges(self, base: CheckCase) -> Iterator[CheckCase]:
        """Yield sizes before, at and after the ends of tiles: each dimension meets each of them."""
        sizes, free = self._near_tiles(base), self.free(base)
        source = random.Random(len(sizes))
        columns = {name: source.sample(sizes, len(sizes)) for name in free}
        met: set[tuple[str, int]] = set()
        for row in range(len(sizes)) if free else ():
            together = {name: column[row] for name, column in columns.items()}
            case = self._bounded(
                replace(base, why="edges of tiles", sizes={**base.sizes, **together})
            )
            if self.takes(case):
                met |= set(case.sizes.items())  # type: ignore[arg-type]
                yield case
        # Dimensions that depend on one another take few combinations: then one at a time.
        for name, column in columns.items():
            for size in column:
                case = replace(base, why="edges of tiles", sizes={**base.sizes, name: size})
                if (name, size) not in met and self.takes(case := self._bounded(case)):
                    yield case

    def _near_tiles(self, base: CheckCase) -> list[int]:
        try:
            mapping = fitted(self.subject.request(base)).mapping
        except SepTranError:
            return [1, 2, 3, 17, 33, 65]  # the case itself will say what is wrong
        values = (s.value for i in mapping.instances for s in i.tunables.values())
        # Some are integers that remember what they are rounded up to.
        tiles = {int(v) for v in values if isinstance(v, int) and 1 < v <= LARGEST_TILE}
        near = {size for tile in tiles for size in (tile - 1, tile, tile + 1)}
        return sorted(near | {3, 17} | {2 * tile + 1 for tile in tiles if 2 * tile < LARGEST_TILE})

    def _ones(self, base: CheckCase) -> Iterator[CheckCase]:
        free = self.free(base)
        whole = replace(base, why="one element", sizes={**base.sizes, **dict.fromkeys(free, 1)})
        single = (replace(base, why="one element", sizes={**base.sizes, name: 1}) for name in free)
        yield from filter(self.takes, (whole, *single) if len(free) > 1 else (whole,))

    def _types(self, base: CheckCase, edges: Sequence[CheckCase]) -> Iterator[CheckCase]:
        if self.fixed.dtypes:
            return
        ragged = min(edges, key=self._size, default=base)
        for dtype in DTYPES:
            case = replace(ragged, why=f"of {dtype}", dtypes=dtype)
            if self.takes(case) and self._types_of(case) != self._types_of(base):
                yield case

    def _special(self, base: CheckCase, edges: Sequence[CheckCase]) -> Iterator[CheckCase]:
        """Yield cases with NaN and infinities, where an input has a type that has them."""
        if self.fixed.special or not any(map(is_float, self._types_of(base).values())):
            return
        for case in (base, *edges):
            yield replace(case, why="NaN and infinities", special=True)

    def _run_time(self, base: CheckCase, edges: Sequence[CheckCase]) -> Iterator[CheckCase]:
        """Yield calls of code that is for any extent of each dimension that may be told."""
        if not self.dynamic:
            return
        for case in (base, *edges):
            told: dict[str, int] = {}
            for name in self.free(case):
                size = case.sizes[name]
                assert isinstance(size, int)
                # Twice as many, so that a call is for a part of what is compiled.
                if self.takes(replace(case, dynamic={**told, name: 2 * size + 1})):
                    told[name] = 2 * size + 1
            if told:
                yield replace(case, why="extents told by the call", dynamic=told)

    def _flags(self, base: CheckCase) -> Iterator[CheckCase]:
        for name, value in self.task.flags(base.static).items():
            if isinstance(value, bool) and name not in self.fixed.static:
                case = replace(base, why=f"{name} {not value}")
                case = replace(case, static={**base.static, name: not value})
                if self.takes(case):
                    yield case

    def takes(self, case: CheckCase) -> bool:
        """Return whether the logic is for such a case; what the mapping says is seen later."""
        try:
            _traced(self.subject.request(replace(case, sizes={**case.sizes, **case.dynamic})), case)
        except LogicError:
            return False
        except SepTranError:
            return not case.dynamic
        return True

    def _types_of(self, case: CheckCase) -> Mapping[str, str]:
        return self.subject.request(case).completed().dtypes

    def _size(self, case: CheckCase) -> int:
        """Return the elements of all tensors."""
        shapes = self.subject.request(case).completed().shapes
        return sum(math.prod(shape) for shape in shapes.values())

    def _bounded(self, case: CheckCase) -> CheckCase:
        """Return the case with its longest free dimension halved while it takes too long."""
        free = self.free(case)
        while self._too_large(case):
            longest = max(free, key=lambda name: case.sizes[name], default="")
            extent = case.sizes.get(longest, 0)
            if not isinstance(extent, int) or extent <= 8:
                break
            case = replace(case, sizes={**case.sizes, longest: (extent + 1) // 2})
        return case

    def _too_large(self, case: CheckCase) -> bool:
        try:
            request = self.subject.request(case).completed()
            large = any(math.prod(shape) > MOST_ELEMENTS for shape in request.shapes.values())
            return large or steps(_traced(request, case)) > MOST_STEPS
        except SepTranError:
            return False


def _traced(request: CompileRequest, case: CheckCase) -> TaskTree:
    return request.completed().traced(dict.fromkeys(case.dynamic, 1))
