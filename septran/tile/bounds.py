"""Least and greatest values of indices, exact where minima meet the index they clip."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from septran.task.atoms import Max, Min
from septran.task.index import Index, Range, Var, axis, is_axis
from septran.task.views import View
from septran.tile.nodes import For

Affine = tuple[tuple[Index, tuple[tuple[int, int], ...]], ...]
"""For each axis of a buffer, where a region starts, and its own axes with their factors."""


def affine(view: View) -> Affine | None:
    """The map of a view as starts and factors; None where it divides or clips its axes."""
    axes = {axis(n): n for n in range(view.rank)}
    rows: list[tuple[Index, tuple[tuple[int, int], ...]]] = []
    for entry in view.index:
        factors = tuple((axes[a], c) for a, c in entry.terms if isinstance(a, Var) and a in axes)
        start = entry
        if factors:
            rest = tuple((a, c) for a, c in entry.terms if not (isinstance(a, Var) and a in axes))
            start = Index(rest, entry.constant)
        for atom, _ in start.terms:
            if not isinstance(atom, Var) and any(map(is_axis, start.variables())):
                return None
        rows.append((start, factors))
    return tuple(rows)


def ends(view: View) -> list[tuple[Index, Index]] | None:
    """First and last coordinate along each axis of the buffer; None where not affine."""
    rows = affine(view)
    if rows is None:
        return None
    found: list[tuple[Index, Index]] = []
    for start, factors in rows:
        low = high = start
        for n, factor in factors:
            reach = (view.valid[n] - 1) * factor
            low, high = (low + reach, high) if factor < 0 else (low, high + reach)
        found.append((low, high))
    return found


def greatest(index: Index, known: Mapping[Var, Range]) -> int:
    """An upper bound: ``8*i + min(8, 20 - 8*i)`` is at most 20, whatever i is."""
    if not index.terms:
        return index.constant
    for atom, factor in index.terms:
        if isinstance(atom, Min | Max):
            rest = index - Index(((atom, factor),))
            ends = [greatest(rest + o * factor, known) for o in atom.operands]
            return min(ends) if isinstance(atom, Min) == (factor > 0) else max(ends)
    return index.bounds(known)[1]


def least(index: Index, known: Mapping[Var, Range]) -> int:
    """A lower bound, as `greatest`."""
    return -greatest(-index, known) if index.terms else index.constant


def lowest(index: Index, known: Mapping[Var, Range], tops: Mapping[Var, Index]) -> int:
    """A lower bound, as loop indices stay below the extents `tops` of their loops, too.

    ``i - k`` is at least 0 where k goes to ``i + 1``, which ranges alone do not tell.
    """
    simple = index.simplify(known)
    found = simple.bounds(known)[0]
    for atom, factor in simple.terms:
        rest = simple - Index(((atom, factor),))
        if isinstance(atom, Min | Max):
            parts = [lowest(rest + part * factor, known, tops) for part in atom.operands]
            reached = isinstance(atom, Max) == (factor > 0)
            return max(found, max(parts) if reached else min(parts))
        top = tops.get(atom) if isinstance(atom, Var) and factor < 0 else None
        if top is not None and atom not in rest.variables():
            return max(found, lowest(rest + (top - 1) * factor, known, tops))
    return found


def alternatives(index: Index) -> Iterator[Index]:
    """The indices of which it is the least: without its minima."""
    for atom, factor in index.terms:
        if isinstance(atom, Min) and factor > 0:
            rest = index - Index(((atom, factor),))
            for part in atom.operands:
                yield from alternatives(rest + part * factor)
            return
    yield index


def ranges_of(loops: tuple[For, ...]) -> dict[Var, Range]:
    """The inclusive range of each index of nested loops, outermost first."""
    known: dict[Var, Range] = {}
    for loop in loops:
        known[loop.variable] = (0, max(0, greatest(loop.extent, known) - 1))
    return known


def count(loops: tuple[For, ...]) -> int:
    """How many iterations the nest has at most."""
    total = 1
    for low, high in ranges_of(loops).values():
        total *= high - low + 1
    return total


def iterations(loops: tuple[For, ...], known: dict[Var, int]) -> Iterator[dict[Var, int]]:
    """The values of all indices, iteration by iteration; one dict, changed in place."""
    if not loops:
        yield known
        return
    for value in range(max(0, loops[0].extent.evaluate(known))):
        known[loops[0].variable] = value
        yield from iterations(loops[1:], known)


def samples(loops: tuple[For, ...], known: dict[Var, int], most: int) -> Iterator[dict[Var, int]]:
    """All iterations where there are at most `most`, else those at the ends of each loop."""
    if count(loops) <= most:
        yield from iterations(loops, known)
        return
    spans = [sorted({0, 1, high - 1, high} & set(range(high + 1)))
             for _, high in ranges_of(loops).values()]  # fmt: skip
    for values in itertools.islice(itertools.product(*spans), most):
        found = dict(known)
        for loop, value in zip(loops, values, strict=True):
            if value >= loop.extent.evaluate(found):
                break
            found[loop.variable] = value
        else:
            yield found
