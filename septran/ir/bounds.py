"""Bounds of indices, from the ranges of variables and the extents of loops.

Four rules, each for what the one before cannot see:

1. Each atom lies between its own bounds (interval arithmetic): ``8*i + j``.
2. A sum with a minimum is the least of the sums with its operands, so that an index and what
   clips it are seen together: ``8*i + min(8, 20 - 8*i)`` is at most 20, whatever ``i`` is.
3. A loop's index stays below the extent of its loop, which may depend on loops around it: in
   ``for i in range(4): for k in range(i + 1)`` the least ``i - k`` is 0, not -3.
4. A multiple of a quotient by its own divisor is the dividend without its remainder, so that the
   last tile of ``N`` is seen to hold something: ``N - 8*((N + 7)//8)`` is at least -7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from septran.ir.atoms import (
    Atom,
    CallExtent,
    Element,
    ExtentProduct,
    FloorDiv,
    Max,
    Min,
    Mod,
    Var,
    parts_of,
    variables_of,
)

if TYPE_CHECKING:
    from septran.ir.index import Index

Range = tuple[int, int]
"""Inclusive bounds ``(least, greatest)``."""
Ranges = Mapping[Var, Range]
"""The inclusive bounds of each variable that may occur."""
Extents = Mapping[Var, "Index"]
"""The number of iterations of each loop, outer loops before inner ones."""
NO_LOOPS: Extents = MappingProxyType({})


def bounds(index: Index, ranges: Ranges, extents: Extents = NO_LOOPS) -> Range:
    """Return the least and the greatest value that `index` can be shown to have.

    Every value lies between them, and both are reached where the index is affine and its loops are
    not empty. Raises KeyError where a variable has no range.
    """
    alone = len(index.terms) < 2 or not any(isinstance(a, Min | Max) for a, _ in index.terms)
    if alone and not extents:  # most are, and this is called very often
        return _kept_interval(index, spans_in(index, ranges))
    return least(index, ranges, extents), greatest(index, ranges, extents)


@lru_cache(maxsize=1 << 15)
def _kept_interval(index: Index, spans: tuple[Range | None, ...]) -> Range:
    return _interval(index, spans_of(index, spans), NO_LOOPS)


def spans_in(index: Index, ranges: Ranges) -> tuple[Range | None, ...]:
    """The ranges of the index's variables in their order, by which what is known of it is kept."""
    return tuple(map(ranges.get, index.ordered_variables))


def spans_of(index: Index, spans: tuple[Range | None, ...]) -> dict[Var, Range]:
    """The ranges of the index's variables in their order by name, those that have one."""
    known = zip(index.ordered_variables, spans, strict=True)
    return {variable: span for variable, span in known if span is not None}


def bounds_if_known(index: Index, ranges: Ranges) -> Range | None:
    """Return `bounds`, or None where a variable has no range."""
    return bounds(index, ranges) if index.variables() <= ranges.keys() else None


def greatest(index: Index, ranges: Ranges, extents: Extents = NO_LOOPS) -> int:
    """Return the upper bound of `bounds`."""
    return -least(-index, ranges, extents) if index.terms else index.constant


def least(index: Index, ranges: Ranges, extents: Extents = NO_LOOPS) -> int:
    """Return the lower bound of `bounds`."""
    if not extents:
        return _kept_least(index, spans_in(index, ranges))
    known = extents if isinstance(extents, _Known) else _Known(extents)
    found = known.found.get(index)
    if found is None:
        found = known.found[index] = _least(index, ranges, known)
    return found


class _Known(dict[Var, "Index"]):
    """Extents, and what was found with them on the way to one bound.

    Minima in maxima in minima come to the same few sums by exponentially many ways.
    """

    def __init__(self, extents: Extents) -> None:
        super().__init__(extents)
        self.found: dict[Index, int] = {}


@lru_cache(maxsize=1 << 15)
def _kept_least(index: Index, spans: tuple[Range | None, ...]) -> int:
    return _least(index, spans_of(index, spans), NO_LOOPS)


def _least(index: Index, ranges: Ranges, extents: Extents) -> int:
    if extents:
        # What is put in for an index may decide divisions and minima. But one of a single value
        # says, as long as it is there, that its loop turns.
        simple = index.simplify(ranges)
        if simple != index:
            return max(_least_of(index, ranges, extents), _least_of(simple, ranges, extents))
    return _least_of(index, ranges, extents)


def _least_of(index: Index, ranges: Ranges, extents: Extents) -> int:
    found = _interval(index, ranges, extents)[0]
    if len(index.terms) < 2:
        return found
    extrema = _extrema(index)
    if extrema and extents:
        # Rule 3 comes first where the extent is the extremum that the index is subtracted from, as
        # in ``max(0, n) - k`` of a loop over ``max(0, n)``: no operand of it alone is above k.
        for variable in _falling(index, extents):
            ended = _at_last(index, variable, extents)
            if _extrema(ended) < extrema:
                return max(found, least(ended, ranges, extents))
    for atom, factor in index.terms:
        # Rule 2: the minimum is replaced by each operand in turn. A maximum in a sum is bounded
        # from below by any operand, so the best one counts.
        if isinstance(atom, Min | Max):
            rest = index.without(atom)
            if not extents and rest.variables().isdisjoint(variables_of(atom)):
                continue  # they take their ends independently of each other
            parts = [least(rest + part * factor, ranges, extents) for part in atom.operands]
            return max(found, min(parts) if isinstance(atom, Min) == (factor > 0) else max(parts))
    # Rule 3: a falling loop index is at most its extent less one. The innermost loop goes first,
    # since its extent may contain the outer indices, which are then replaced in turn.
    for variable in _falling(index, extents):
        return max(found, least(_at_last(index, variable, extents), ranges, extents))
    for atom, factor in index.terms:
        if isinstance(atom, FloorDiv) and factor % atom.divisor == 0:
            rest = index.without(atom)
            if _free(atom.value).isdisjoint(_free(rest)):
                continue
            whole = atom.value - atom.value % atom.divisor
            return max(found, least(rest + whole * (factor // atom.divisor), ranges, extents))
    return found


def _extrema(index: Index) -> int:
    """The number of minima and maxima that the index is a sum of."""
    return sum(isinstance(atom, Min | Max) for atom, _ in index.terms)


def _at_last(index: Index, variable: Var, extents: Extents) -> Index:
    """The index in the last iteration of a loop, whose extent replaces the loop's variable."""
    return index.without(variable) + (extents[variable] - 1) * index.coefficient(variable)


def _free(index: Index) -> frozenset[Var | CallExtent]:
    """The variables and sizes of an index."""
    return index.variables() | frozenset(index.sizes())


def loop_range(extent: Index, ranges: Ranges) -> Range:
    """Return the range of a loop's index; an empty loop's is that of one iteration."""
    return 0, max(0, greatest(extent, ranges) - 1)


def magnitude(index: Index, ranges: Ranges) -> int | None:
    """Return a bound on the magnitude of `index` and of each value it is computed from.

    None where a variable has no range. It decides which integer type can hold the computation.
    """
    if not index.variables() <= ranges.keys():
        return None
    return _magnitude(index, ranges)


def alternatives(index: Index) -> Iterator[Index]:
    """Yield the sums of which `index` is the minimum: the index without its minima."""
    for atom, factor in index.terms:
        if isinstance(atom, Min) and factor > 0:
            rest = index.without(atom)
            for part in atom.operands:
                yield from alternatives(rest + part * factor)
            return
    yield index


def _interval(index: Index, ranges: Ranges, extents: Extents) -> Range:
    """Return bounds by interval arithmetic, for each atom independently of the others."""
    low = high = index.constant
    for atom, factor in index.terms:
        first, last = ranges[atom] if isinstance(atom, Var) else _atom(atom, ranges, extents)
        if factor < 0:
            first, last = last, first
        low, high = low + factor * first, high + factor * last
    return low, high


def _atom(atom: Atom, ranges: Ranges, extents: Extents) -> Range:
    match atom:
        case Var():
            return ranges[atom]
        case FloorDiv(value, divisor):
            low, high = bounds(value, ranges, extents)
            return low // divisor, high // divisor
        case Mod(value, divisor):
            low, high = bounds(value, ranges, extents)
            # Without a multiple of the divisor between them, remainders rise as the values do.
            if low // divisor == high // divisor:
                return low % divisor, high % divisor
            return 0, divisor - 1
        case Min(operands):
            ends = [bounds(o, ranges, extents) for o in operands]
            return min(e[0] for e in ends), min(e[1] for e in ends)
        case Max(operands):
            ends = [bounds(o, ranges, extents) for o in operands]
            return max(e[0] for e in ends), max(e[1] for e in ends)
        case Element(extent=extent):
            return 0, max(0, extent - 1)
        case CallExtent(least=low, most=high):
            return low, high
        case ExtentProduct(value, size):
            low, high = bounds(value, ranges, extents)
            corners = [end * n for end in (low, high) for n in (size.least, size.most)]
            return min(corners), max(corners)


def _falling(index: Index, extents: Extents) -> Iterator[Var]:
    """Yield the loop indices with a negative coefficient, those of inner loops first.

    The extent of an inner loop may contain indices of outer loops, and never the reverse.
    """
    falling = {a for a, f in index.terms if f < 0 and isinstance(a, Var) and a in extents}
    if not falling:
        return
    hidden = {v for a, _ in index.terms if not isinstance(a, Var) for v in variables_of(a)}
    falling -= hidden  # one that occurs in a division too is not replaced in one place only
    if falling:
        yield from (v for v in reversed(list(extents)) if v in falling)


def _magnitude(index: Index, ranges: Ranges) -> int:
    total, most = abs(index.constant), 0
    for atom, factor in index.terms:
        total += abs(factor) * max(map(abs, _atom(atom, ranges, NO_LOOPS)))
        divisor = atom.divisor if isinstance(atom, FloorDiv | Mod) else 0
        parts = (_magnitude(part, ranges) for part in parts_of(atom))
        most = max(most, abs(factor), divisor, *parts)
    return max(total, most)
