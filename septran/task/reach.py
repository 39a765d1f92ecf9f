"""How far an index goes over all iterations of the loops that it is used in."""

from __future__ import annotations

from collections.abc import Mapping

from septran.task.atoms import Min
from septran.task.index import Index, Range, Var, one_extremum

Extents = Mapping[Var, Index]
"""How often each loop turns, loops before those in them."""


def least(index: Index, extents: Extents, ranges: Mapping[Var, Range]) -> int:
    """A lower bound of `index` that is exact where loops' extents depend on outer indices.

    In ``for i in range(4): for k in range(i + 1)`` the least ``i - k`` is 0, not -3.
    """
    parts = one_extremum(index)
    if parts is not None:
        kind, operands = parts
        return (min if kind is Min else max)(least(part, extents, ranges) for part in operands)
    for variable in reversed(list(extents)):
        if any(variable in _hidden(atom) for atom, _ in index.terms):
            continue
        factor = index.coefficient(variable)
        if factor:
            end = extents[variable] - 1 if factor < 0 else Index()
            index = index.substitute({variable: end})
    return index.bounds(ranges)[0]


def greatest(index: Index, extents: Extents, ranges: Mapping[Var, Range]) -> int:
    """An upper bound, as `least`."""
    return -least(-index, extents, ranges)


def _hidden(atom: object) -> frozenset[Var]:
    """Variables inside of a division, remainder, minimum or maximum."""
    if isinstance(atom, Var):
        return frozenset()
    return Index(((atom, 1),)).variables()  # type: ignore[arg-type]
