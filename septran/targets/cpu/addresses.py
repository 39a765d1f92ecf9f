"""Where the elements of a region lie: flat offsets as indices, and indices as TensorIR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from septran.targets.lower.writer import Expr, Writer
from septran.task.atoms import Atom, FloorDiv, Max, Min, Mod
from septran.task.index import Index, IndexLike, Range, Var, axis, is_axis
from septran.tile.layouts import Layout
from septran.tile.nodes import Region


@dataclass(frozen=True)
class Storage:
    """A buffer as it is held: flat, in TensorIR."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """The logic's element type."""
    layout: Layout
    flat: Any
    """The flat TensorIR buffer."""
    held: str
    """The type of its elements in memory: bfloat16 as uint16, some staged types wider."""
    owned: bool = False
    """Whether it was allocated here, so that a vector may reach past its valid elements."""
    streamed: bool = False
    """Whether it is written past the caches, which it would only flush."""


@dataclass(frozen=True)
class Access:
    """A region with the flat offset of its element ``($0, $1, ...)``."""

    storage: Storage
    region: Region
    offset: Index
    leaving: tuple[bool, ...] = ()
    """For each axis of the buffer, whether the region may lie outside of it (and reads zeros)."""

    @staticmethod
    def of(storage: Storage, region: Region, ranges: Mapping[Var, Range]) -> Access:
        """The offsets of `region`, simplified by what is known of the loop indices."""
        flat = storage.layout.offset(region.index, storage.shape)
        flat = flat + region.stage * storage.layout.elements(storage.shape)
        leaving = tuple(
            region.padded and _leaves(region, entry, extent, ranges)
            for entry, extent in zip(region.index, storage.shape, strict=True)
        )
        return Access(storage, region, flat.simplify(with_axes(region, ranges)), leaving)

    def at(self, coordinates: Sequence[IndexLike]) -> Index:
        """The flat offset of one element."""
        return self.offset.substitute({axis(n): c for n, c in enumerate(coordinates)})

    def stride(self, number: int) -> int | None:
        """Elements from one to the next along an axis; None where that is not constant."""
        variable = axis(number)
        rest = self.offset - Index.of(variable) * self.offset.coefficient(variable)
        return None if variable in rest.variables() else self.offset.coefficient(variable)

    def run(self, number: int) -> int:
        """How many elements from a multiple of that many on are contiguous along an axis.

        The extent for rows, the panel's width for panels, 1 where they are scattered.
        """
        if self.stride(number) == 1:
            return self.region.shape[number]
        kind, parameters = self.storage.layout.kind, self.storage.layout.parameters
        if kind != "panels":
            return 1
        along, width = parameters
        start = self.region.index[along] - axis(number)
        mine = self.region.index[along].coefficient(axis(number)) == 1
        free = not any(is_axis(v) for v in start.variables())
        others = (e for n, e in enumerate(self.region.index) if n != along)
        alone = all(axis(number) not in e.variables() for e in others)
        return width if mine and free and alone and start % width == Index() else 1


def _leaves(region: Region, entry: Index, extent: int, ranges: Mapping[Var, Range]) -> bool:
    """Whether a coordinate of the buffer may be below 0 or not below its extent."""
    known = with_axes(region, ranges)
    low, high = entry.simplify(known).bounds(known)
    if low < 0 or high < extent:
        return low < 0
    for number, valid in enumerate(region.valid):  # a ragged end may be all that fits
        if not _rises(entry, axis(number)):
            continue
        for end in _least(valid):
            last = entry.substitute({axis(number): end - 1}).simplify(known)
            if last.bounds(known)[1] < extent:
                return False
    return True


def _rises(index: Index, variable: Var) -> bool:
    """Whether `index` never falls when `variable` rises, and holds it at all."""
    holds = False
    for atom, factor in index.terms:
        if atom == variable or (isinstance(atom, FloorDiv) and _rises(atom.value, variable)):
            holds = True
        elif variable in Index(((atom, 1),)).variables():
            return False
        else:
            continue
        if factor < 0:
            return False
    return holds


def _least(value: Index) -> tuple[Index, ...]:
    """Upper bounds of `value`: the operands where it is a minimum."""
    if len(value.terms) == 1 and isinstance(value.terms[0][0], Min) and value.terms[0][1] == 1:
        return tuple(o + value.constant for o in value.terms[0][0].operands)
    return (value,)


def with_axes(region: Region, ranges: Mapping[Var, Range]) -> dict[Var, Range]:
    """`ranges` with those of the region's own coordinates."""
    known = dict(ranges)
    for number, extent in enumerate(region.shape):
        # An axis of one element stays in the offset, so that its stride is still known.
        known[axis(number)] = (0, max(1, extent - 1))
    return known


class Indices:
    """Turns indices into TensorIR, given what each loop index became."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.values: dict[Var, Expr] = {}
        self.ranges: dict[Var, Range] = {}
        self.meanings: dict[Var, Index] = {}
        """What variables that were computed from others stand for."""
        self._count = 0

    def fresh(self, value: Expr, least: int, greatest: int) -> Var:
        """An index variable for a TensorIR integer with known bounds."""
        self._count += 1
        variable = Var(f"@{self._count}")
        self.bind(variable, value, least, greatest)
        return variable

    def bind(self, variable: Var, value: Expr, least: int, greatest: int) -> None:
        """Say what `variable` is."""
        self.values[variable] = value
        self.ranges[variable] = (least, max(least, greatest))

    def expand(self, value: Index) -> Index:
        """`value` over loop indices only, without what was computed from them."""
        while not value.variables().isdisjoint(self.meanings):
            value = value.substitute(self.meanings)
        return self.simplify(value)

    def simplify(self, value: Index) -> Index:
        """`value` with what the ranges decide."""
        return value.simplify(self.ranges)

    def bounds(self, value: Index) -> Range:
        """Least and greatest value."""
        return self.simplify(value).bounds(self.ranges)

    def holds(self, value: Index) -> bool:
        """Whether no part of `value` is beyond the integers that indices are in TensorIR."""
        value = self.simplify(value)
        most = abs(value.constant)
        for atom, factor in value.terms:
            most += abs(factor) * max(map(abs, Index(((atom, 1),)).bounds(self.ranges)))
        return most < (1 << 63 if self.writer.index_dtype == "int64" else 1 << 31)

    def lower(self, value: IndexLike) -> Expr:
        """`value` as a TensorIR integer."""
        value = self.simplify(Index.of(value))
        total: Expr = None
        for atom, factor in value.terms:
            part = self._atom(atom)
            part = part if factor == 1 else part * self.writer.index(factor)
            total = part if total is None else total + part
        if total is None:
            return self.writer.index(value.constant)
        return total + self.writer.index(value.constant) if value.constant else total

    def _atom(self, atom: Atom) -> Expr:
        match atom:
            case Var():
                return self.values[atom]
            case FloorDiv(value, divisor):
                return self._divide(value, divisor)
            case Mod(value, divisor):
                if value.bounds(self.ranges)[0] >= 0:
                    return tirx.truncmod(self.lower(value), self.writer.index(divisor))
                whole = self._divide(value, divisor)
                return self.lower(value) - whole * self.writer.index(divisor)
            case Min(operands):
                return self._fold(tirx.Min, operands)
            case Max(operands):
                return self._fold(tirx.Max, operands)

    def _divide(self, value: Index, divisor: int) -> Expr:
        """Rounded down; machines round towards zero, which is the same from 0 on."""
        dividend, by = self.lower(value), self.writer.index(divisor)
        if value.bounds(self.ranges)[0] < 0:
            low = dividend - self.writer.index(divisor - 1)
            dividend = tirx.Select(dividend < self.writer.index(0), low, dividend)
        return tirx.truncdiv(dividend, by)

    def _fold(self, operation: Any, operands: tuple[Index, ...]) -> Expr:
        first, *rest = map(self.lower, operands)
        for part in rest:
            first = operation(first, part)
        return first
