"""Along an axis of a view: where its elements lie at equal distances, and how far apart.

A window's index has divisions and remainders in it (``(64*j + $1)//26``), and so has a
fractal layout's offset. Between two multiples of the divisor such an index is affine, so
that a strided command can move the elements there: a *run*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from septran.ir.atoms import Element, ExtentProduct, FloorDiv, Max, Min, Mod
from septran.ir.index import ZERO, Index, Var, product


@dataclass(frozen=True)
class Runs:
    """The cuts of an axis into runs: a new run begins at each cut.

    No cut means that all of the axis is one run, `ELEMENTS` that each element is its own.
    """

    cuts: tuple[RunCut, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether there is one run."""
        return not self.cuts

    def length(self, extent: int) -> int:
        """Return the length of the longest run."""
        return min([extent, *(cut.step for cut in self.cuts)])


@dataclass(frozen=True)
class RunCut:
    """Wherever ``coordinate + shift`` is a multiple of `step`."""

    step: int
    shift: Index = ZERO

    def finer(self, other: RunCut) -> bool:
        """Whether all places of `other` are places of this one."""
        return other.step % self.step == 0 and (other.shift - self.shift) % self.step == Index()


ELEMENTS = Runs((RunCut(1),))
MOST_CUTS = 3
"""Cuts that are nested; where an axis has more, each element is a run."""


def slope(offset: Index, variable: Var) -> int | Index | None:
    """Return what one step of `variable` adds to `offset` inside of a run; None where unknown.

    It is an index where a call tells how far apart rows are.
    """
    total: int | Index = 0
    for atom, factor in offset.terms:
        match atom:
            case Var():
                total += factor if atom == variable else 0
            # Between two multiples of the divisor a remainder goes with its dividend, a quotient
            # stays as it is.
            case Mod(value):
                inner = slope(value, variable)
                if inner is None:
                    return None
                total = total + inner * factor
            case ExtentProduct(value, size):
                inner = slope(value, variable)
                if inner is None:
                    return None
                if inner != 0:
                    total = total + product(inner, Index(((size, 1),))) * factor
            case FloorDiv(value):
                if slope(value, variable) is None:
                    return None
            case Min(operands) | Max(operands) | Element(at=operands):
                if any(variable in o.variables() for o in operands):
                    return None
    return total


def runs(offsets: Iterable[Index], variable: Var) -> Runs:
    """The runs in which every one of `offsets` is affine in `variable`."""
    cuts: list[RunCut] = []
    for offset in offsets:
        if slope(offset, variable) is None:
            return ELEMENTS
        for value, divisor in _breaks(offset, variable):
            # A cut is where `coordinate + shift` is a multiple, so the factor must be 1.
            rest = value - Index.of(variable)
            if variable in rest.variables():
                return ELEMENTS
            fresh = RunCut(divisor, rest % divisor)
            if not any(cut.finer(fresh) for cut in cuts):
                cuts = [cut for cut in cuts if not fresh.finer(cut)] + [fresh]
    if len(cuts) > MOST_CUTS or any(cut.step == 1 for cut in cuts):
        return ELEMENTS
    # The longest first, as the loops over them are nested in this order (`copies.run_loop`).
    return Runs(tuple(sorted(cuts, key=lambda cut: -cut.step)))


def _breaks(index: Index, variable: Var) -> Iterator[tuple[Index, int]]:
    """Dividends in which `variable` is, innermost only: what is around one changes with it."""
    for atom, _ in index.terms:
        if isinstance(atom, FloorDiv | Mod) and variable in atom.value.variables():
            inner = list(_breaks(atom.value, variable))
            if atom.value.coefficient(variable) or not inner:
                yield atom.value, atom.divisor
            yield from inner
        elif isinstance(atom, ExtentProduct):
            yield from _breaks(atom.value, variable)


def fused(index: Index) -> Index:
    """`index` with ``d*(x//d) + x%d`` put together to ``x``, however deep."""
    while True:
        simpler = _fused_once(index)
        if simpler == index:
            return index
        index = simpler


def _fused_once(index: Index) -> Index:
    factors = dict(index.terms)
    for atom, factor in index.terms:
        if isinstance(atom, Mod):
            whole = FloorDiv(atom.value, atom.divisor)
            if factors.get(whole) == factor * atom.divisor:
                pair = Index(((whole, factor * atom.divisor),)) + Index(((atom, factor),))
                return index - pair + atom.value * factor
    return index
