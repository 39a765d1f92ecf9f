"""Integer index expressions: loop bounds, tile offsets and ragged extents.

An `Index` is a sum of integer multiples of *atoms* plus a constant, in a normal form,
so that structural equality is equality of sums. Atoms are variables, floor divisions,
remainders, minima and maxima of other indices, and elements of tensors of integers, which
are known when the kernel runs. Everything is immutable and exact.

    i, j = Var("i"), Var("j")
    Index.of(i) * 64 + j         # 64*i + j
    minimum(64, 1000 - 64 * Index.of(i))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Union

from septran.ir.atoms import (
    Atom,
    CallExtent,
    Element,
    ExtentProduct,
    FloorDiv,
    Max,
    Min,
    Mod,
    parts_of,
    remembering,
    variables_of,
)
from septran.ir.atoms import Var as Var  # part of this module's interface
from septran.ir.bounds import Range as Range
from septran.ir.bounds import bounds, bounds_if_known, spans_in, spans_of

IndexLike = Union["Index", Var, int]


@remembering
@dataclass(frozen=True)
class Index:
    """``sum(coefficient * atom) + constant`` in normal form; build with `Index.of`."""

    terms: tuple[tuple[Atom, int], ...] = ()
    """The atoms with non-zero coefficients, sorted by their text, elements last."""
    constant: int = 0

    @staticmethod
    def of(value: IndexLike) -> Index:
        """Return `value`, an int, a variable or an index, as an index."""
        if isinstance(value, Index):
            return value
        if isinstance(value, Var):
            return Index(((value, 1),))
        number = int(value)
        return _SMALL[number] if 0 <= number < len(_SMALL) else Index((), number)

    @property
    def is_constant(self) -> bool:
        """Whether the index has no variables."""
        return not self.terms

    def as_int(self) -> int:
        """Return the constant value; raises ValueError where the index has variables."""
        if self.terms:
            raise ValueError(f"{self} is not constant")
        return self.constant

    def __add__(self, other: IndexLike) -> Index:
        right = Index.of(other)
        if not right.terms:
            return Index(self.terms, self.constant + right.constant) if right.constant else self
        if not self.terms:
            return Index(right.terms, self.constant + right.constant)
        return _normal([*self.terms, *right.terms], self.constant + right.constant)

    __radd__ = __add__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: IndexLike) -> Index:
        return self + -Index.of(other)

    def __rsub__(self, other: IndexLike) -> Index:
        return Index.of(other) - self

    def __mul__(self, factor: IndexLike) -> Index:
        right = Index.of(factor)
        if not right.is_constant:
            if not self.is_constant:
                raise ValueError(f"({self}) * ({right}) is not linear")
            return right * self.constant
        scale = right.constant
        if scale == 1:
            return self
        if scale == 0:
            return Index()
        return Index(tuple((a, c * scale) for a, c in self.terms), self.constant * scale)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Index:
        _check_divisor(divisor)
        quotient, rest = _split(self, divisor)
        if rest.is_constant:
            return quotient + rest.constant // divisor
        if (inside := one_extremum(rest)) is not None:  # the order of values is kept
            kind, operands = inside
            return quotient + _extremum((o // divisor for o in operands), kind)
        return quotient + Index(((FloorDiv(rest, divisor), 1),))

    def __mod__(self, divisor: int) -> Index:
        _check_divisor(divisor)
        _, rest = _split(self, divisor)
        if rest.is_constant:
            return Index((), rest.constant % divisor)
        return Index(((Mod(rest, divisor), 1),))

    def __str__(self) -> str:
        parts = [_term_text(atom, coefficient) for atom, coefficient in self.terms]
        if self.constant or not parts:
            parts.append(("-" if self.constant < 0 else "+", str(abs(self.constant))))
        # 250 - 96*i: a sum that has something positive begins with it
        first = next((n for n, (sign, _) in enumerate(parts) if sign == "+"), 0)
        (sign, text), *others = [parts[first], *parts[:first], *parts[first + 1 :]]
        if sign == "-":
            quotient = self.terms and isinstance(self.terms[0][0], FloorDiv | Mod)
            # -(i//2) is not -i//2
            text = f"-({text})" if quotient and self.terms[0][1] == -1 else f"-{text}"
        return text + "".join(f" {sign} {part}" for sign, part in others)

    def __repr__(self) -> str:
        return str(self)

    def variables(self) -> frozenset[Var]:
        """Return all variables of the index, also those inside of divisions and minima."""
        return frozenset(self.ordered_variables)

    @cached_property
    def ordered_variables(self) -> tuple[Var, ...]:
        """All variables in the order in which they occur."""
        return tuple(dict.fromkeys(v for atom, _ in self.terms for v in variables_of(atom)))

    def elements(self) -> Iterator[Element]:
        """The elements of tensors in it, those of coordinates before the ones they lead to."""
        for atom, _ in self.terms:
            for part in parts_of(atom):
                yield from part.elements()
            if isinstance(atom, Element):
                yield atom

    def sizes(self) -> Iterator[CallExtent]:
        """The extents in it that are known when the kernel is called."""
        for atom, _ in self.terms:
            for part in parts_of(atom):
                yield from part.sizes()
            if isinstance(atom, CallExtent):
                yield atom

    @property
    def only_sizes(self) -> bool:
        """Whether it is a number, or sums and products of extents that calls tell."""
        return all(_parted(atom)[0] is None for atom, _ in self.terms)

    def at_most(self) -> Index:
        """The most that the index can be, for estimates: elements and sizes may be any."""
        if not any(not isinstance(atom, Var) for atom, _ in self.terms):
            return self
        return _at_end(self, most=True)

    def estimate(self) -> Index:
        """The index for estimates: elements as great as can be, the first of sections all of it."""
        own = dict.fromkeys(self.elements())
        if len(own) < 2:
            return self.at_most()
        tops = {e: Index((), e.extent - 1) for e in own}
        ends = {e: minimum(sum(e.at, Index()) * top.constant, top) for e, top in tops.items()}
        return self.substitute(ends).at_most()

    def coefficient(self, var: Var) -> int:
        """Return the coefficient of `var` itself (not of divisions or minima that contain it)."""
        return next((c for a, c in self.terms if a == var), 0)

    def without(self, atom: Atom) -> Index:
        """Return the sum without one atom and its coefficient."""
        return Index(tuple(term for term in self.terms if term[0] != atom), self.constant)

    def substitute(
        self,
        values: Mapping[Var, IndexLike]
        | Mapping[Element, IndexLike]
        | Mapping[CallExtent, IndexLike],
    ) -> Index:
        """The index with variables, elements or sizes replaced by indices, in normal form."""
        if not self.terms:
            return self
        return _sum(self, lambda atom: _substitute(atom, values))

    def evaluate(self, values: Mapping[Var, int]) -> int:
        """Return the value for given variables; raises KeyError for one that has no value."""
        total = self.constant
        for atom, coefficient in self.terms:
            total += coefficient * _evaluate(atom, values)
        return total

    def bounds(self, ranges: Mapping[Var, Range]) -> Range:
        """Return the least and the greatest value by `septran.ir.bounds`."""
        return bounds(self, ranges)

    def simplify(self, ranges: Mapping[Var, Range]) -> Index:
        """The index without minima, maxima, divisions and remainders that `ranges` decide."""
        for atom, _ in self.terms:
            if not isinstance(atom, Var) or _pinned(ranges.get(atom)):
                break
        else:
            return self  # a sum of variables that are free
        return _kept_simple(self, spans_in(self, ranges))


@lru_cache(maxsize=1 << 15)
def _kept_simple(index: Index, spans: tuple[Range | None, ...]) -> Index:
    """`Index.simplify` by the ranges of the index's own variables in their order."""
    ranges = spans_of(index, spans)
    return _rejoin(_sum(index, lambda atom: _simplify(atom, ranges)))


ZERO = Index()
_SMALL = tuple(Index((), number) for number in range(257))
"""The numbers that most indices are made of: of those that are there, hashes and texts are, too."""


def minimum(*operands: IndexLike) -> Index:
    """Return the minimum as an index, folded where constants or equal parts allow."""
    return _extremum(operands, Min)


def maximum(*operands: IndexLike) -> Index:
    """Return the maximum as an index, folded where constants or equal parts allow."""
    return _extremum(operands, Max)


def ceil_div(value: IndexLike, divisor: int) -> Index:
    """Return ``ceil(value / divisor)`` as an index, for a positive divisor."""
    return (Index.of(value) + (divisor - 1)) // divisor


def product(left: IndexLike, right: IndexLike) -> Index:
    """Return ``left * right``, of which one may have sizes that are known when a kernel is called.

    Raises ValueError where both have other atoms.
    """
    left, right = Index.of(left), Index.of(right)
    if left.is_constant or right.is_constant:
        return left * right
    if not right.only_sizes:
        left, right = right, left
    if not right.only_sizes:
        raise ValueError(f"({left}) * ({right}) is not linear")
    total = left * right.constant
    for atom, factor in right.terms:
        total = total + _times(left, atom) * factor
    return total


def _times(index: Index, size: Atom) -> Index:
    """Return a sum times a size, or times a product of sizes."""
    total = _product((None, index.constant), size) if index.constant else Index()
    for term in index.terms:
        total = total + _product(term, size)
    return total


def _product(term: tuple[Atom | None, int], size: Atom) -> Index:
    """Return a term times a size: sizes go last and by name, so that equal products are equal."""
    base, sizes = _parted(term[0])
    first, *rest = sorted((*sizes, *_parted(size)[1]), key=str)
    atom: Atom = first
    for factor in rest if base is None else (first, *rest):
        atom = ExtentProduct(Index(((atom if base is None else base, 1),)), factor)
        base = None
    return Index(((atom, term[1]),))


def _parted(atom: Atom | None) -> tuple[Atom | None, tuple[CallExtent, ...]]:
    """Return what an atom has beside sizes, None where that is nothing, and the sizes."""
    match atom:
        case CallExtent():
            return None, (atom,)
        case ExtentProduct(value, size):
            base, sizes = _parted(value.terms[0][0])
            return base, (*sizes, size)
        case _:
            return atom, ()


AXES = 16
"""The greatest number of axes of a view."""
_AXES = tuple(Var(f"${number}") for number in range(AXES))


def axis(number: int) -> Var:
    """Return the variable that stands for a view's own coordinate along one axis."""
    return _AXES[number] if 0 <= number < AXES else Var(f"${number}")


def is_axis(var: Var) -> bool:
    """Return whether `var` is an axis variable rather than a loop index."""
    return var.name.startswith("$")


def _normal(terms: Iterable[tuple[Atom, int]], constant: int) -> Index:
    sums: dict[Atom, int] = {}
    for atom, coefficient in terms:
        sums[atom] = sums.get(atom, 0) + coefficient
    kept = [(a, c) for a, c in sums.items() if c]
    # One order, whatever was added first, so that equal sums are equal tuples.
    if len(kept) > 1:
        kept.sort(key=lambda term: _rank(term[0]))
    return Index(tuple(kept), constant)


def _sum(index: Index, of: Callable[[Atom], Index]) -> Index:
    """Return `index` with what `of` gives in place of each atom."""
    terms: list[tuple[Atom, int]] = []
    constant = index.constant
    for atom, coefficient in index.terms:
        part = of(atom)
        constant += part.constant * coefficient
        terms += ((a, c * coefficient) for a, c in part.terms)
    return _normal(terms, constant)


def _rank(part: Atom | Index) -> str:
    """Return what parts are sorted by: elements go last, whatever their tensors are called."""
    text = str(part)
    return re.sub(r"\w+\[", r"~\g<0>", text) if "[" in text else text


def _term_text(atom: Atom, coefficient: int) -> tuple[str, str]:
    """Return a term's sign, and the text of its absolute value."""
    sign, factor, part = "-" if coefficient < 0 else "+", abs(coefficient), str(atom)
    if isinstance(atom, FloorDiv | Mod) and factor != 1:
        part = f"({part})"
    return sign, part if factor == 1 else f"{factor}*{part}"


def _check_divisor(divisor: int) -> None:
    if not isinstance(divisor, int) or divisor <= 0:
        raise ValueError(f"an index can only be divided by a positive integer, not {divisor}")


def _split(index: Index, divisor: int) -> tuple[Index, Index]:
    """Return `index` as ``quotient * divisor + rest``, with whole multiples out of the rest."""
    whole = [(a, c // divisor) for a, c in index.terms if c % divisor == 0]
    rest = [(a, c) for a, c in index.terms if c % divisor]
    quotient = _normal(whole, index.constant // divisor)
    return quotient, Index(tuple(rest), index.constant % divisor)


def _extremum(operands: Iterable[IndexLike], kind: type[Min] | type[Max]) -> Index:
    pick = min if kind is Min else max
    given = list(dict.fromkeys(map(Index.of, operands)))
    if len(given) == 1:
        return given[0]
    flat: list[Index] = []
    for operand in given:
        inside = one_extremum(operand)
        flat += inside[1] if inside is not None and inside[0] is kind else [operand]
    best: dict[tuple[tuple[Atom, int], ...], int] = {}
    for part in flat:  # those that differ by a constant only are one
        held = best.get(part.terms)
        best[part.terms] = part.constant if held is None else pick(held, part.constant)
    parts = sorted((Index(t, c) for t, c in best.items()), key=_rank)
    return parts[0] if len(parts) == 1 else Index(((kind(tuple(parts)), 1),))


def one_extremum(index: Index) -> tuple[type[Min] | type[Max], list[Index]] | None:
    """`index` as one minimum or maximum of sums; None unless exactly one is among its terms."""
    found = [(a, c) for a, c in index.terms if isinstance(a, Min | Max)]
    if len(found) != 1:
        return None
    atom, factor = found[0]
    rest = index - Index(((atom, factor),))
    kind: type[Min] | type[Max] = Min if isinstance(atom, Min) == (factor > 0) else Max
    return kind, [rest + operand * factor for operand in atom.operands]


def _substitute(atom: Atom, values: Mapping[Any, IndexLike]) -> Index:
    match atom:
        case Var():
            return Index.of(values.get(atom, atom))
        case FloorDiv(value, divisor):
            return value.substitute(values) // divisor
        case Mod(value, divisor):
            return value.substitute(values) % divisor
        case Min(operands):
            return minimum(*(o.substitute(values) for o in operands))
        case Max(operands):
            return maximum(*(o.substitute(values) for o in operands))
        case Element() | CallExtent() if atom in values:
            return Index.of(values[atom])
        case CallExtent():
            return Index(((atom, 1),))
        case ExtentProduct(value, size):
            return product(value.substitute(values), _substitute(size, values))
        case Element():
            return Index(((atom.with_parts(lambda part: part.substitute(values)), 1),))


def _at_end(index: Index, *, most: bool) -> Index:
    """`index` with each element at the end that makes it as great, or as little, as it can be."""
    total = Index((), index.constant)
    for atom, factor in index.terms:
        total = total + _atom_at_end(atom, most=most == (factor > 0)) * factor
    return total


def _atom_at_end(atom: Atom, *, most: bool) -> Index:
    match atom:
        case Element(extent=extent):
            return Index((), extent - 1 if most else 0)
        case FloorDiv(value, divisor):
            return _at_end(value, most=most) // divisor
        case Mod(value, divisor) if any(value.elements()):
            return Index((), divisor - 1 if most else 0)
        case Min(operands):
            return minimum(*(_at_end(o, most=most) for o in operands))
        case Max(operands):
            return maximum(*(_at_end(o, most=most) for o in operands))
        case CallExtent():
            return Index((), atom.most if most else atom.least)
        case ExtentProduct(value, size):
            return _at_end(value, most=most) * (size.most if most else size.least)
    return Index(((atom, 1),))


def _evaluate(atom: Atom, values: Mapping[Var, int]) -> int:
    match atom:
        case Var():
            return values[atom]
        case FloorDiv(value, divisor):
            return value.evaluate(values) // divisor
        case Mod(value, divisor):
            return value.evaluate(values) % divisor
        case Min(operands):
            return min(o.evaluate(values) for o in operands)
        case Max(operands):
            return max(o.evaluate(values) for o in operands)
        case Element():
            array: Any = values[atom.table]
            most = None if atom.most is None else atom.most.evaluate(values)
            return int(atom.look_up(array, [c.evaluate(values) for c in atom.at], most))
        case CallExtent():
            return values.get(atom.table, atom.most)
        case ExtentProduct(value, size):
            return value.evaluate(values) * _evaluate(size, values)


def _simplify(atom: Atom, ranges: Mapping[Var, Range]) -> Index:
    match atom:
        case Var():
            # What has no range counts as free: it is not replaced by a value.
            low, high = ranges.get(atom, (0, 1))
            return Index((), low) if low == high else Index.of(atom)
        case FloorDiv(value, divisor):
            inner = value.simplify(ranges)
            whole = _quotient(inner, divisor, ranges)
            return inner // divisor if whole is None else Index((), whole)
        case Mod(value, divisor):
            inner = value.simplify(ranges)
            whole = _quotient(inner, divisor, ranges)
            return inner % divisor if whole is None else inner - whole * divisor
        case Min(operands):
            return _decide([o.simplify(ranges) for o in operands], ranges, Min)
        case Max(operands):
            return _decide([o.simplify(ranges) for o in operands], ranges, Max)
        case Element():
            return Index(((atom.with_parts(lambda part: part.simplify(ranges)), 1),))
        case CallExtent():
            fixed = atom.least == atom.most
            return Index((), atom.least) if fixed else Index(((atom, 1),))
        case ExtentProduct(value, size):
            return product(value.simplify(ranges), _simplify(size, ranges))


def _quotient(value: Index, divisor: int, ranges: Mapping[Var, Range]) -> int | None:
    """Return ``value // divisor`` if it is the same for all values in `ranges`, else None."""
    known = bounds_if_known(value, ranges)
    if known is None or known[0] // divisor != known[1] // divisor:
        return None
    return known[0] // divisor


def _rejoin(index: Index) -> Index:
    """Replace ``d * (x // d) + x % d`` by ``x``, as left by an axis that was split and merged."""
    factors = dict(index.terms)
    for atom, coefficient in index.terms:
        if isinstance(atom, Mod):
            for whole in _quotients(atom):
                if factors.get(whole) == coefficient * atom.divisor:
                    parts = Index(((atom, coefficient), (whole, coefficient * atom.divisor)))
                    return _rejoin(index - parts + atom.value * coefficient)
    return index


def _quotients(atom: Mod) -> Iterator[FloorDiv]:
    """What a remainder's own quotient may be written as: ``x // 2 // 3`` is ``x // 6``."""
    yield FloorDiv(atom.value, atom.divisor)
    match atom.value:
        case Index(((FloorDiv(value, divisor), 1),), 0):
            yield FloorDiv(value, divisor * atom.divisor)


def _decide(
    operands: list[Index], ranges: Mapping[Var, Range], kind: type[Min] | type[Max]
) -> Index:
    """Return the extremum without operands that another one makes redundant for all values."""
    kept = list(operands)
    for candidate in operands:
        for other in kept:
            # Compared with those that are left, so that of two equal ones not both go.
            if other is candidate or candidate not in kept:
                continue
            gap = bounds_if_known(candidate - other, ranges)
            if gap is not None and (gap[0] >= 0 if kind is Min else gap[1] <= 0):
                kept.remove(candidate)
                break
    return minimum(*kept) if kind is Min else maximum(*kept)


def _pinned(known: Range | None) -> bool:
    """Return whether a variable's range is a single value."""
    return known is not None and known[0] == known[1]
