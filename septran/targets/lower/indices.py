"""Indices as TensorIR integers, given what each loop index and unit number became."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from tvm import tirx

from septran.dtypes import itemsize
from septran.ir.atoms import Atom, CallExtent, Element, ExtentProduct, FloorDiv, Max, Min, Mod
from septran.ir.bounds import least, magnitude
from septran.ir.index import Index, IndexLike, Range, Var, axis, is_axis, maximum, product
from septran.ir.views import View
from septran.targets.lower.values import broadcast, cast, lanes_of
from septran.targets.lower.writer import Expr, Writer, both
from septran.tile.layouts import Layout
from septran.tile.nodes import Region


class Indices:
    """The variables that are in scope, with their ranges and values."""

    def __init__(self, writer: Writer, explicit: bool = False) -> None:
        self.writer = writer
        self.explicit = explicit
        """Whether what LLVM finds out by itself is said: powers of two divide by shifts and masks,
        and a multiple of a variable gets a name where a variable does."""
        self.values: dict[Var, Expr] = {}
        self.ranges: dict[Var, Range] = {}
        self.meanings: dict[Var, Index] = {}
        """What variables that were computed from others stand for."""
        self.tops: dict[Var, Index] = {}
        """The extents of the loops that are open, by their indices."""
        self.unrolled: set[Var] = set()
        """Indices of unrolled loops: constants in the end."""
        self.tables: dict[str, tuple[Any, tuple[Index, ...]]] = {}
        """The flat TensorIR buffers of the caller's tensors of indices, and their extents."""
        self.loaded: dict[Element, Expr] = {}
        """Elements of these that are in a variable here."""
        self.sizes: dict[CallExtent, Expr] = {}
        """The extents that are known when the kernel is called."""
        self._count = 0

    def fresh(self, value: Expr, least: int, greatest: int) -> Index:
        """An index that stands for a TensorIR integer with known bounds."""
        if isinstance(value, tirx.IntImm):
            return Index((), int(value.value))
        if least == greatest:
            return Index((), least)
        self._count += 1
        variable = Var(f"@{self._count}")
        self.bind(variable, value, least, greatest)
        return Index.of(variable)

    def bind(self, variable: Var, value: Expr, least: int, greatest: int) -> None:
        """Say what `variable` is."""
        self.values[variable] = value
        self.ranges[variable] = (least, max(least, greatest))

    def expand(self, value: Index) -> Index:
        """`value` over loop indices only, without what was computed from them."""
        while not value.variables().isdisjoint(self.meanings):
            value = value.substitute(self.meanings)
        return self.simplify(value)

    # ---- what is known ----------------------------------------------------------------

    def simplify(self, value: IndexLike) -> Index:
        """`value` with what the ranges decide."""
        return Index.of(value).simplify(self.ranges)

    def bounds(self, value: IndexLike) -> Range:
        """Least and greatest value."""
        return self.simplify(value).bounds(self.ranges)

    def is_plain(self, value: Index) -> bool:
        """Whether naming `value` would save nothing: it is a variable, scaled perhaps."""
        if len(value.terms) != 1 or not isinstance(value.terms[0][0], Var):
            return False
        return not self.explicit or (value.terms[0][1] == 1 and not value.constant)

    def holds(self, value: Index) -> bool:
        """Whether no part of `value` is beyond the integers that indices are in TensorIR."""
        most = magnitude(self.simplify(value), self.ranges)
        return most is not None and most < 1 << (8 * itemsize(self.writer.index_dtype) - 1)

    def surely_below(self, value: IndexLike, limit: IndexLike) -> bool:
        """Whether ``value < limit`` always holds."""
        return least(Index.of(limit) - value, self.ranges, self.tops) > 0

    # ---- as TensorIR ------------------------------------------------------------------

    def below(self, value: IndexLike, limit: IndexLike) -> Expr | None:
        """The condition ``value < limit``; None where it always holds."""
        if self.surely_below(value, limit):
            return None
        left, right = self.sides(value, limit)
        return left < right

    def sides(self, left: IndexLike, right: IndexLike) -> tuple[Expr, Expr]:
        """Both sides of a comparison, what unrolled loops make constant on the left one.

        The right one is then the same for all of their iterations, and computed once.
        """
        gap = self.simplify(Index.of(left) - right)
        fixed = tuple(t for t in gap.terms if t[0] in self.unrolled)
        ours = Index(fixed, gap.constant)
        return self._lower(ours), self._lower(self.simplify(ours - gap))

    def inside(self, value: IndexLike, extent: int) -> Expr | None:
        """The condition ``0 <= value < extent``; None where it always holds."""
        low, high = self.bounds(value)
        under = self.lower(value) >= self.writer.index(0) if low < 0 else None
        over = self.lower(value) < self.writer.index(extent) if high >= extent else None
        return both(under, over)

    def lower(self, value: IndexLike) -> Expr:
        """`value` as a TensorIR integer."""
        return self._lower(self.simplify(value))

    def _lower(self, value: Index) -> Expr:
        """Return what is simple already."""
        if not value.terms:
            return self.writer.index(value.constant)
        total: Expr = None
        for atom, factor in value.terms:
            part = self._atom(atom)
            part = part if factor == 1 else part * self.writer.index(factor)
            total = part if total is None else total + part
        return total + self.writer.index(value.constant) if value.constant else total

    def _atom(self, atom: Atom) -> Expr:
        match atom:
            case Var():
                return self.values[atom]
            case FloorDiv(value, divisor):
                return self._divide(value, divisor)
            case Mod(value, divisor):
                return self._remainder(value, divisor)
            case Min(operands):
                return reduce(tirx.Min, map(self._lower, operands))
            case Max(operands):
                return reduce(tirx.Max, map(self._lower, operands))
            case Element():
                return self.loaded[atom] if atom in self.loaded else self._load(atom)
            case CallExtent():
                return self.sizes[atom]
            case ExtentProduct(value, size):
                return self._lower(value) * self.sizes[size]

    def _load(self, element: Element) -> Expr:
        """An element of a tensor of indices; of one that is none, the nearest that is one.

        Two instructions a row, so that no index of the caller's leads out of a tensor. Lanes and
        rows behind the last one of a tile, which nobody uses, take what the tensor of indices ends
        with.
        """
        buffer, extents = self.tables[element.tensor]
        flat = row_offset(element.at, extents)
        size, at = reduce(product, extents, Index.of(1)), self.lower(flat)
        lanes = lanes_of(at)
        # The caller's numbers may be anything: a wrong one must not lead outside of any buffer.
        if self.bounds(flat - size)[1] >= 0:
            at = tirx.Min(at, broadcast(self.lower(maximum(0, size - 1)), lanes))
        value, kind = tirx.BufferLoad(buffer, [at]), np.iinfo(buffer.dtype)
        if element.extent - 1 < kind.max:
            last = tirx.const(max(0, element.extent - 1), buffer.dtype)
            value = tirx.Min(value, broadcast(last, lanes))
        if kind.min < 0:
            value = tirx.Max(value, broadcast(tirx.const(0, buffer.dtype), lanes))
        return cast(value, self.writer.index_dtype)

    def _divide(self, value: Index, divisor: int) -> Expr:
        """Rounded down; processors round towards zero, which is the same from 0 on."""
        return self._shifted(operator.rshift, tirx.truncdiv, value, divisor, self._log(divisor))

    def _remainder(self, value: Index, divisor: int) -> Expr:
        mask = None if self._log(divisor) is None else divisor - 1
        if mask is None and value.bounds(self.ranges)[0] < 0:
            return self._lower(value) - self._divide(value, divisor) * self.writer.index(divisor)
        return self._shifted(operator.and_, tirx.truncmod, value, divisor, mask)

    def _shifted(
        self,
        quick: Callable[[Any, Any], Any],
        exact: Callable[[Any, Any], Any],
        value: Index,
        divisor: int,
        power: int | None,
    ) -> Expr:
        """Divide by bits for a power of two (right for negative values, too), else by division."""
        dividend = self._lower(value)
        if power is not None:
            return quick(dividend, self.writer.index(power))
        if value.bounds(self.ranges)[0] < 0:
            # Truncated, a negative number less divisor - 1 gives its quotient rounded down.
            low = dividend - self.writer.index(divisor - 1)
            dividend = tirx.Select(dividend < self.writer.index(0), low, dividend)
        return exact(dividend, self.writer.index(divisor))

    def _log(self, divisor: int) -> int | None:
        power = self.explicit and divisor & (divisor - 1) == 0
        return divisor.bit_length() - 1 if power else None


@dataclass
class WritingScope:
    """The writer and the indices at the place where an emitter writes."""

    writer: Writer
    indices: Indices

    def lower(self, value: IndexLike) -> Expr:
        """An index as a TensorIR integer."""
        return self.indices.lower(value)

    def variable(self, stem: str, value: IndexLike) -> Index:
        """An index that is computed here, once, and stands for its value from now on."""
        simple = self.indices.simplify(value)
        if simple.is_constant or self.indices.is_plain(simple):
            return simple
        low, high = self.indices.bounds(simple)
        found = self.indices.fresh(self.writer.bind(stem, self.lower(simple)), low, high)
        # What it stands for stays known: `expand` decides divisions that the variable hides.
        self.indices.meanings.update(dict.fromkeys(found.variables(), simple))
        return found

    @contextmanager
    def rows(self, regions: Iterable[Region]) -> Iterator[None]:
        """Load what chooses rows of `regions` here, once, for what is written inside.

        Elements that differ along a region are loaded where they are used.
        """
        # A variable ends with the block that it is in, so what was loaded is forgotten behind it.
        before = dict(self.indices.loaded)
        for element in dict.fromkeys(e for region in regions for e in region.elements()):
            simple = self.indices.simplify(Index(((element, 1),)))
            found = next(simple.elements(), element)
            if found not in self.indices.loaded and not any(map(is_axis, simple.variables())):
                self.indices.loaded[found] = self.writer.bind("row", self.indices.lower(simple))
        yield
        self.indices.loaded = before

    def alias(self, variable: Var, value: Index) -> None:
        """Let a loop index of the program stand for `value` from now on."""
        self.indices.bind(variable, self.lower(value), *self.indices.bounds(value))
        self.indices.meanings[variable] = value

    @contextmanager
    def loop(
        self, stem: str, extent: IndexLike, parallel: bool = False, unrolled: bool = False
    ) -> Iterator[Index]:
        """``for stem in range(extent)``, as an index."""
        top = self.indices.simplify(extent)
        most = self.indices.bounds(top)[1]
        bound = top.constant if top.is_constant else self.lower(top)
        with self.writer.loop(stem, bound, parallel, unrolled) as variable:
            index = self.indices.fresh(variable, 0, most - 1)
            if unrolled:
                self.indices.unrolled.update(index.variables())
            yield index


def with_axes(region: View, ranges: Mapping[Var, Range]) -> dict[Var, Range]:
    """`ranges` with those of the region's own coordinates."""
    # An axis of one element stays in the offset, so that its stride is still known.
    own = {axis(n): (0, max(1, extent - 1)) for n, extent in enumerate(region.shape)}
    return {**ranges, **own}


def flat_offset(
    region: Region,
    layout: Layout,
    shape: tuple[int, ...],
    ranges: Mapping[Var, Range],
    extents: tuple[Index, ...] = (),
) -> Index:
    """The offset of the region's element ``($0, $1, ...)`` in its flat buffer of `shape`.

    `extents` are those of a caller's tensor that are known only when the kernel is called.
    """
    if extents:
        # A coordinate that is always 0 is none, so that its axis has no stride of unknown length.
        alone = {axis(n): 0 for n, extent in enumerate(region.shape) if extent == 1}
        at = [entry.substitute(alone) for entry in region.index]
        return row_offset(at, extents).simplify(with_axes(region, ranges))
    flat = layout.offset(region.index, shape) if shape else Index()
    flat = flat + region.stage * layout.elements(shape)
    return flat.simplify(with_axes(region, ranges))


def row_offset(at: Sequence[Index], extents: Sequence[Index]) -> Index:
    """The offset of the element at coordinates in a row-major tensor of `extents`."""
    total, stride = Index(), Index.of(1)
    for coordinate, extent in zip(reversed(at), reversed(extents), strict=True):
        total, stride = total + product(coordinate, stride), product(stride, extent)
    return total


def divisor(value: IndexLike) -> int:
    """A number that certainly divides every value of an index; 0 for the index 0."""
    index = Index.of(value)
    return math.gcd(index.constant, *(c * _divides(a) for a, c in index.terms))


def _divides(atom: Atom) -> int:
    match atom:
        case Mod(value, modulus):
            return math.gcd(divisor(value), modulus)
        case Min(operands) | Max(operands):
            return math.gcd(*map(divisor, operands))
        case ExtentProduct(value):
            return divisor(value)
        case Var() | FloorDiv() | Element() | CallExtent():
            return 1
