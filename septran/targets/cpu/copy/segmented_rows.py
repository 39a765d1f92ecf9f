"""Views whose rows lie in pieces: contiguous (or strided) up to a period, elsewhere from there on.

Merged axes make such views (a convolution's windows, ``[.., P*Q]`` of an image's rows), and
padding cuts the pieces shorter. A vector of such a view is one load under a mask for each
piece that it may touch; what the masks depend on is found before the loops that move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx

from septran.ir.atoms import FloorDiv, Max, Min, Mod
from septran.ir.index import Index, Var, axis, ceil_div, maximum, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.lower.values import broadcast, lanes_of
from septran.targets.lower.writer import Expr

MOST_PIECES = 2
"""Contiguous pieces of one vector; views with more are read element by element."""
MOST_STEP = 2
"""Elements from lane to lane that whole vectors are loaded for."""


@dataclass(frozen=True)
class Piece:
    """The lanes of one vector that lie in one piece."""

    offset: Index
    """Where lane 0 would lie in the buffer."""
    low: Index
    """Its first lane, or less."""
    high: Index
    """The lane behind its last, or more."""
    within: tuple[tuple[Index, int], ...]
    """Coordinates that must be at least 0 and less than an extent, or no lane exists."""


@dataclass(frozen=True)
class Masked:
    """A piece whose lanes were found."""

    offset: Index
    low: Expr
    high: Expr
    masks: tuple[Expr, ...]
    """Of the elements from the first lane's to the last one's, a register after the other.

    Not of all as one: LLVM splits wider vectors, takes a half that no lane needs for undefined,
    and an undefined mask for a full one (tests/targets/cpu/test_pieces.py has such a case).
    """


@dataclass(frozen=True)
class Pieces:
    """The addresses of a view's rows along one axis, where rows are cut or padded."""

    context: Context
    access: Access
    along: int
    length: int
    """Elements from which on the next piece begins."""
    start: Index
    """Element 0's place in its piece, modulo `length`."""
    step: int
    """Elements of the buffer from lane to lane."""
    most: int
    """Pieces that one vector may touch."""

    @staticmethod
    def of(context: Context, access: Access, along: int, lanes: int) -> Pieces | None:
        """None where the axis is not cut into pieces that are long enough for `lanes`."""
        found = _cuts(access, along)
        if found is None:
            return None
        length, start = found
        # From the last element of a piece on, lanes - 1 elements lie in the pieces that follow.
        most = (lanes + length - 2) // length + 1
        if length % lanes == 0 and start % lanes == Index():
            most = 1  # vectors start at multiples of their lanes
        pieces = Pieces(context, access, along, length, start, 0, most)
        lane = Var("@lane")
        parts = pieces._parts({}, Index.of(Var("@piece")), 0, lane)
        others = (n for n in range(access.region.rank) if n != along)
        if parts is None or any(pieces.growth(n) is None for n in others):
            return None
        if most > MOST_PIECES or not 1 <= parts[0] <= MOST_STEP:
            return None
        return Pieces(context, access, along, length, start, parts[0], most)

    def growth(self, number: int) -> int | None:
        """Elements of the buffer for one period of another axis; None where that differs."""
        step, entries = Var("@turn"), list(self.access.region.index)
        spot = {axis(number): Index.of(axis(number)) + Index.of(step) * period(self.access, number)}
        for entry, leaves in zip(entries, self.access.leaving, strict=True):
            if leaves and step in entry.substitute(spot).variables():
                return None
        offset = self.access.offset.substitute(spot)
        size = offset.coefficient(step)
        return size if step not in (offset - Index.of(step) * size).variables() else None

    def place(self, start: Index) -> tuple[Index, Index]:
        """The number of the piece that a vector starts in, and where in it."""
        number = self.context.variable("piece", (self.start + start) // self.length)
        return number, self.context.variable("first", self.start + start - number * self.length)

    def touched(
        self, at: Mapping[int, Index], place: tuple[Index, Index], lanes: int, count: Index | None
    ) -> list[Piece]:
        """The pieces of a vector, given the other axes' coordinates."""
        return [self._piece(at, place, lanes, count, n) for n in range(self.most)]

    def _piece(
        self,
        at: Mapping[int, Index],
        place: tuple[Index, Index],
        lanes: int,
        count: Index | None,
        number: int,
    ) -> Piece:
        lane = Var("@lane")
        parts = self._parts(at, place[0], number, lane)
        assert parts is not None
        _, offset, entries = parts
        begin = number * self.length - place[1]
        single = self.most == 1
        low = Index() if single else begin
        high = Index.of(lanes) if single else begin + self.length
        high = high if count is None else minimum(high, count)
        within: list[tuple[Index, int]] = []
        for (entry, factor), extent, leaves in zip(
            entries, self.access.storage.shape, self.access.leaving, strict=True
        ):
            if not leaves:
                continue
            if factor == 0:
                # The same coordinate for all lanes: all exist, or none.
                within.append((entry, extent))
            else:
                # 0 <= entry + factor * (lane - begin) < extent, solved for the lane.
                low = maximum(low, begin + ceil_div(-entry, factor))
                high = minimum(high, begin + ceil_div(extent - entry, factor))
        return Piece(offset - begin * self.step, low, high, tuple(within))

    def _parts(
        self, at: Mapping[int, Index], number: Index, further: int, lane: Var
    ) -> tuple[int, Index, list[tuple[Index, int]]] | None:
        """Step, offset at the piece's begin, and each coordinate there with its factor."""
        ranges = {**self.context.indices.ranges, lane: (0, self.length - 1)}
        spot: dict[Var, Index] = {axis(n): e for n, e in at.items()}
        for n, extent in enumerate(self.access.region.shape):
            ranges[axis(n)] = (0, max(1, extent - 1))
        spot[axis(self.along)] = (number + further) * self.length - self.start + lane

        def linear(entry: Index) -> tuple[Index, int] | None:
            moved = entry.substitute(spot).simplify(ranges)
            factor = moved.coefficient(lane)
            rest = moved - Index.of(lane) * factor
            return None if lane in rest.variables() or factor < 0 else (rest, factor)

        offset = linear(self.access.offset)
        entries = [linear(e) for e in self.access.region.index]
        if offset is None:
            return None
        known = [e for e in entries if e is not None]
        return (offset[1], offset[0], known) if len(known) == len(entries) else None

    def masks(self, piece: Piece, lanes: int) -> Masked:
        """Find the lanes of a piece, once for all loops inside."""
        writer = self.context.writer
        low = writer.bind("low", self.context.lower(piece.low))
        high = self.context.lower(piece.high)
        for entry, extent in piece.within:
            least, greatest = self.context.indices.bounds(entry)
            if least < 0:
                high = tirx.Select(self.context.lower(entry) >= 0, high, writer.index(0))
            if greatest >= extent:
                fits = self.context.lower(entry) < writer.index(extent)
                high = tirx.Select(fits, high, writer.index(0))
        high = writer.bind("high", high)
        first, end = low, high
        if self.step > 1:  # the elements between two lanes' are not read at the end
            first, end = low * self.step, high * self.step - (self.step - 1)
        width = min(lanes * self.step, self._register)

        def mask(start: int) -> Expr:
            ramp = tirx.Ramp(writer.index(start), writer.index(1), width)
            above = ramp >= broadcast(first, width)
            return tirx.And(above, ramp < broadcast(end, width))

        offset = self.context.variable("from", piece.offset)
        masks = tuple(mask(start) for start in range(0, lanes * self.step, width))
        return Masked(offset, low, high, masks)

    @property
    def _register(self) -> int:
        """Elements of one of the processor's registers."""
        return self.context.register_lanes(str(self.access.storage.flat.dtype))

    def load(self, pieces: Sequence[Masked], offsets: Sequence[Index], whole: bool) -> Expr:
        """A vector; `whole`: all of it is known to be in the first piece."""
        flat, values = self.access.storage.flat, None
        for piece, offset in zip(pieces, offsets, strict=True):
            width, at = lanes_of(piece.masks[0]), self.context.lower(offset)
            if whole and self.step == 1:
                return simd.load(flat, at, width * len(piece.masks))
            values = [
                simd.masked_load(flat, at + n * width, mask, None if values is None else values[n])
                for n, mask in enumerate(piece.masks)
            ]
            if whole:
                break
        assert values is not None
        size = sum(map(lanes_of, values))
        return (
            values[0]
            if self.step == 1 == len(values)
            else tirx.Shuffle(values, list(range(0, size, self.step)))
        )


def period(access: Access, number: int) -> int:
    """Steps along an axis after which divisions and remainders in its offsets repeat."""
    entries = (access.offset, *access.region.index)
    return math.lcm(*(_period(entry, axis(number)) for entry in entries))


def _period(index: Index, variable: Var) -> int:
    total = 1
    for atom, _ in index.terms:
        match atom:
            case FloorDiv(value, divisor) | Mod(value, divisor) if variable in value.variables():
                total = math.lcm(total, divisor * _period(value, variable))
            case Min(operands) | Max(operands):
                total = math.lcm(total, *(_period(o, variable) for o in operands))
    return total


def _cuts(access: Access, along: int) -> tuple[int, Index] | None:
    """The length of the pieces along an axis, and the place of element 0 in the first."""
    length = period(access, along)
    starts = {s for e in (access.offset, *access.region.index) for s in _starts(e, axis(along))}
    if length == 1:
        # one piece: it ends where the axis does
        return access.region.shape[along], Index()
    return (length, starts.pop()) if len(starts) == 1 else None


def _starts(index: Index, variable: Var) -> set[Index]:
    """Return what is added to an axis in the innermost divisions and remainders."""
    found: set[Index] = set()
    for atom, _ in index.terms:
        if isinstance(atom, FloorDiv | Mod) and variable in atom.value.variables():
            found |= _starts(atom.value, variable) or {atom.value - variable}
    return found
