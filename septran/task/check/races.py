"""Check for races: parallel iterations must not touch what another one writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from septran.ir.bounds import greatest
from septran.ir.gather import coordinates
from septran.ir.index import Index, Range, Var, axis, is_axis
from septran.ir.views import View
from septran.location import Location
from septran.task.check.privileges import ViewUse, accesses
from septran.task.errors import RaceError
from septran.task.tree import Allocate, Loop, Statement, TaskNode, statements

ENUMERATED = 1 << 20
"""The number of elements that are enumerated to decide a case that bounds do not."""


@dataclass(frozen=True)
class _Use:
    access: ViewUse
    location: Location
    inner: tuple[tuple[Var, Index], ...]
    """The loops inside of the parallel one and around the statement, with their extents."""


def check_races(task: TaskNode, ranges: Mapping[Var, Range]) -> None:
    """Check every parallel loop of a task's own body; raises RaceError with both places.

    `ranges` has the values of all loop indices of the task, and of those around it.
    """
    for statement in statements(task.body):
        if isinstance(statement, Loop) and statement.parallel:
            _check_loop(statement, ranges)


def _check_loop(loop: Loop, ranges: Mapping[Var, Range]) -> None:
    # A temporary that begins inside of the loop is another one in each iteration.
    private = {s.name for s in statements(loop.body) if isinstance(s, Allocate)}
    uses = [u for u in _uses(loop.body, ()) if u.access.view.tensor not in private]
    for n, first in enumerate(uses):
        # From `first` on: a use also meets itself in other iterations.
        for second in uses[n:]:
            written = first.access.writes or second.access.writes
            if first.access.joins and first.access.joins == second.access.joins:
                continue
            if written and first.access.view.tensor == second.access.view.tensor:
                _check_pair(loop, first, second, ranges)


def _uses(body: tuple[Statement, ...], inner: tuple[tuple[Var, Index], ...]) -> Iterator[_Use]:
    for statement in body:
        if isinstance(statement, Loop):
            pairs = tuple(zip(statement.variables, statement.extents, strict=True))
            yield from _uses(statement.body, (*inner, *pairs))
        else:
            for access in accesses(statement):
                yield _Use(access, statement.location, inner)


def _check_pair(loop: Loop, first: _Use, second: _Use, known: Mapping[Var, Range]) -> None:
    left = _undecided(loop, first, second, known)
    if not left or _enumerated_apart(loop, first, second, known):
        return
    what = "write" if first.access.writes and second.access.writes else "read or write"
    raise RaceError(
        f"iterations of this parallel loop may {what} the same elements of "
        f"{first.access.view.tensor}: {first.access.view} and {second.access.view} "
        f"for different {left[0]}",
        loop.location,
        hint="partition it by the loop's indices, use task.sequential_range, or join parts by "
        "task.reduce_into(C, part) in the task whose loop is parallel",
        notes=[("one use", first.location), ("the other", second.location)],
    )


def _undecided(loop: Loop, first: _Use, second: _Use, known: Mapping[Var, Range]) -> list[Var]:
    """Return the loop indices for different values of which the uses may touch the same element.

    Iterations that differ in an index which keeps them apart, whatever the others are, need no
    second look; for the rest that index is equal on both sides (as g, then h, in 4 * g + h).
    """
    pairs = zip(loop.variables, loop.extents, strict=True)
    # A loop with at most one iteration, whatever the outer ones are, has none to race with.
    left = [v for v, e in pairs if greatest(e, known) > 1]
    while left:
        apart = [v for v in left if _apart(v, set(left) - {v}, first, second, known)]
        if not apart:
            break
        left.remove(apart[0])
    return left


def _apart(
    variable: Var, others: set[Var], first: _Use, second: _Use, known: Mapping[Var, Range]
) -> bool:
    """Return whether some axis keeps the two uses apart for different values of `variable`."""
    a, b = first.access.view, second.access.view
    for mine, theirs in zip(a.index, b.index, strict=True):
        step = mine.coefficient(variable)
        if step == 0 or theirs.coefficient(variable) != step:
            continue
        spans = [
            _span(e, u, variable, others, step, known) for e, u in ((mine, first), (theirs, second))
        ]
        # Outer indices have one value for both uses: if the parts of them are equal, the rests
        # decide.
        if spans[0] is None or spans[1] is None or spans[0][0] != spans[1][0]:
            continue
        low = min(spans[0][1], spans[1][1])
        high = max(spans[0][2], spans[1][2])
        # Both uses are step * variable plus a rest within [low, high]: values that differ by one
        # are at least a step apart, which a narrower rest cannot bridge.
        if high - low < abs(step):
            return True
    return False


def _span(
    entry: Index, use: _Use, variable: Var, others: set[Var], step: int, known: Mapping[Var, Range]
) -> tuple[Index, int, int] | None:
    """Return the part fixed by outer loops, and the least and greatest value of the rest."""
    rest = entry - Index.of(variable) * step
    names = rest.variables()
    if variable in names:
        return None
    inner = {v for v, _ in use.inner} | others
    local = {v: known[v] for v in names if v in inner}
    for n, extent in enumerate(use.access.view.shape):
        local[axis(n)] = (0, max(0, extent - 1))
    fixed = Index(tuple((a, c) for a, c in rest.terms if not _touches(a, local)), 0)
    low, high = (rest - fixed).bounds(local)
    return fixed, low, high


def _touches(atom: object, local: Mapping[Var, Range]) -> bool:
    return bool(Index(((atom, 1),)).variables() & local.keys())  # type: ignore[arg-type]


def _enumerated_apart(loop: Loop, first: _Use, second: _Use, known: Mapping[Var, Range]) -> bool:
    """Return whether no element is shared, by enumerating all, up to `ENUMERATED` of them."""
    # Loops further out would have to be enumerated as well: such cases stay undecided.
    outer = {
        v: 0
        for u in (first, second)
        for e in u.access.view.index
        for v in e.variables()
        if not is_axis(v) and v not in loop.variables and v not in dict(u.inner)
    }
    chosen = any(u.access.view.chosen() for u in (first, second))  # by integers nobody knows yet
    if outer or chosen or any(not e.is_constant for e in loop.extents):
        return False
    writers: dict[tuple[int, ...], tuple[int, ...]] = {}
    # A use that is compared with itself is enumerated once.
    uses = sorted({id(u): u for u in (first, second)}.values(), key=lambda u: not u.access.writes)
    left = ENUMERATED
    for use in uses:  # those that write come first
        for turn, places in _touched(loop, use, known):
            left -= len(places)
            if left < 0:
                return False
            for place in places:
                holder = writers.get(place, turn)
                if holder != turn:
                    return False
                if use.access.writes:
                    writers[place] = turn
    return True


def _touched(
    loop: Loop, use: _Use, known: Mapping[Var, Range]
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Yield each iteration of the parallel loop with the elements that a use touches in it."""
    inner = [range(known[v][1] + 1) for v, _ in use.inner]
    for turn in itertools.product(*(range(e.constant) for e in loop.extents)):
        values = dict(zip(loop.variables, turn, strict=True))
        for step in itertools.product(*inner):
            now = values | dict(zip((v for v, _ in use.inner), step, strict=True))
            places = np.broadcast_arrays(*coordinates(_bounded(use.access.view, now), now))
            yield turn, list(zip(*(np.ravel(p).tolist() for p in places), strict=True))


def _bounded(view: View, values: Mapping[Var, int]) -> View:
    """Return the view with nominal extents where the valid ones depend on more than `values`."""
    pairs = zip(view.valid, view.shape, strict=True)
    valid = tuple(
        v if v.variables() <= values.keys() and not any(v.elements()) else Index.of(n)
        for v, n in pairs
    )
    return replace(view, valid=valid)
