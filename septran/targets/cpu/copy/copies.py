"""Copies between memories: packing into panels, padded rows or transposed blocks, by vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm import tirx

from septran.dtypes import compute_dtype, itemsize
from septran.ir.index import Index, ceil_div, minimum
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.copy.groups import emit_groups
from septran.targets.cpu.copy.segmented_rows import Masked, Pieces, period
from septran.targets.cpu.copy.transpose import transposed
from septran.targets.cpu.map.elements import read, widen, write
from septran.targets.cpu.simd import constant
from septran.tile.nodes import Copy

Spot = dict[int, Index]
"""Coordinates by axis."""


def emit_copy(context: Context, node: Copy) -> None:
    """``target = source`` for the extents that exist, converted to the target's type."""
    target, source = _plain(context.access(node.target), context.access(node.source))
    if node.zero_fill and source.region.ragged:
        _fill(context, target)
    if source.region.rank == 0:
        write(context, target, (), read(context, source, ()))
        return
    if target.storage.layout.group > 1:
        emit_groups(context, target, source)
        return
    move = _Move(context, target, source, _vector_axis(target, source))
    if target.storage.layout.kind == "panels" and target.run(move.along) > 1:
        move.panels(target.run(move.along))
    else:
        move.rows()


def turns(context: Context, node: Copy) -> bool:
    """Whether a copy's source lies across its target, so that blocks are transposed in registers.

    Elementwise code would gather each vector from as many rows as it has lanes.
    """
    target, source = _plain(context.access(node.target), context.access(node.source))
    if target.region.rank < 2 or target.storage.layout.group > 1:
        return False
    return _Move(context, target, source, _vector_axis(target, source)).turned is not None


def _plain(target: Access, source: Access) -> tuple[Access, Access]:
    """Both sides with the bits of their elements for elements, where these stay as they are."""
    kinds = [(side.storage.dtype, side.storage.held) for side in (target, source)]
    if kinds[0] != kinds[1]:
        return target, source
    held = [replace(side.storage, dtype=side.storage.held) for side in (target, source)]
    return replace(target, storage=held[0]), replace(source, storage=held[1])


def _fill(context: Context, target: Access) -> None:
    """Write zeros to all nominal elements of an owned buffer's region, one by one."""
    number = constant(0, "float64")

    def nest(at: tuple[Index, ...]) -> None:
        if len(at) == target.region.rank:
            write(context, target, at, number)
            return
        with context.loop("i", target.region.shape[len(at)]) as i:
            nest((*at, i))

    nest(())


def _vector_axis(target: Access, source: Access) -> int:
    """Return an axis contiguous on both sides, else one of the target, else of the source."""
    axes = range(target.region.rank - 1, -1, -1)
    written = [n for n in axes if target.run(n) > 1]
    both = [n for n in written if source.stride(n) == 1]
    read_only = [n for n in axes if source.stride(n) == 1]
    return [*both, *written, *read_only, axes[0]][0]


@dataclass
class _Move:
    """A copy with its vector axis."""

    context: Context
    target: Access
    source: Access
    along: int

    @property
    def extent(self) -> Index:
        return self.source.region.valid[self.along]

    @property
    def _short(self) -> bool:
        """Whether elements are too short for masks."""
        # AVX2 has masked moves of 4 and 8 bytes only (VMASKMOVPS and VPMASKMOV, Intel SDM vol. 2).
        return any(itemsize(a.storage.held) < 4 for a in (self.target, self.source))

    @property
    def turned(self) -> int | None:
        """The axis that the source's rows go along, where they are not the target's."""
        strides = self.target.stride(self.along), self.source.stride(self.along)
        if not strides[0] == 1 != strides[1]:
            return None
        return self._transposed_axis(self.context.unit.lanes("float32"))

    def lanes(self, width: int) -> int:
        """Return the lanes of two registers, or fewer so that they divide a panel's width."""
        widest = max(itemsize(a.storage.held) for a in (self.target, self.source))
        return math.gcd(width, 2 * self.context.unit.bytes // widest)

    def rows(self) -> None:
        """Vectors along contiguous rows; square blocks where the source's rows are others."""
        turned = self.turned
        if turned is not None:
            self._transposed_rows(turned, self.context.unit.lanes("float32"))
            return
        # gcd(0, n) is n: rows, unlike panels, have no width that vectors must divide.
        self._outer(lambda at: self._row(at, self.lanes(0)), parallel=self.parallel)

    def _row(self, at: Spot, lanes: int) -> None:
        whole = self.context.variable("vectors", self.extent // lanes)
        with self.context.loop("v", whole) as v:
            self._vector(at, v * lanes, lanes)
        rest = self.rest(whole * lanes)
        if rest is None:
            return
        if self._short:
            with self.context.loop("v", rest) as v:
                self._vector(at, whole * lanes + v, 1)
        else:
            self._vector(at, whole * lanes, lanes, self.context.variable("rest", rest))

    def panels(self, width: int) -> None:
        """Vectors of a panel's width; the last panel is filled up with zeros."""
        pieces = self._pieces(width)
        if pieces is not None:
            _Gather(self, pieces, width).emit()
            return
        if self.source.stride(self.along) == 1:  # read along rows, write across panels
            self._outer(lambda at: self._across(at, width), parallel=self.parallel)
            return
        whole = self.context.variable("panels", self.extent // width)
        with self.context.loop("panel", whole, self.parallel) as panel:
            along = self._transposed_axis(width)
            if along is None:
                self._outer(lambda at: self._panel(at, panel, width))
            else:
                self._outer(lambda at: self._transposed_panel(at, panel, width, along), skip=along)
        self._outer(lambda at: self._last_panel(at, whole, width))

    def _transposed_axis(self, width: int) -> int | None:
        """An axis of the source to read along, where blocks can be transposed in registers."""
        register = self.context.unit.lanes("float32")
        kinds = {(a.storage.dtype, a.storage.held) for a in (self.target, self.source)}
        same = (
            all(held == compute_dtype(kind) and itemsize(held) < 4 for kind, held in kinds)
            and len(kinds) == 1
        )
        words = all(itemsize(held) == 4 for _, held in kinds)
        if not (same or words) or width % register or self.source.region.padded:
            return None
        axes = (n for n in range(self.source.region.rank) if n != self.along)
        return next((n for n in axes if self.source.stride(n) == 1), None)

    def _transposed_panel(self, at: Spot, panel: Index, width: int, axis: int) -> None:
        """A panel in square blocks, then what is left of `axis` a vector at a time."""
        size, extent = self.context.unit.lanes("float32"), self.source.region.valid[axis]
        whole = self.context.variable("blocks", extent // size)
        with self.context.loop("block", whole) as block:
            for start in range(0, width, size):
                self._block({**at, self.along: panel * width + start, axis: block * size}, axis)
        if not self.context.divides(size, extent):
            with self.context.loop("i", extent - whole * size) as i:
                self._panel({**at, axis: whole * size + i}, panel, width)

    def _transposed_rows(self, axis: int, size: int) -> None:
        """Blocks transposed in registers, then what is left of either axis."""
        tall, wide = self.source.region.valid[axis], self.extent
        down = self.context.variable("blocks", tall // size)
        across = self.context.variable("blocks", wide // size)

        def rows(at: Spot) -> None:
            with self.context.loop("block", down) as i:
                with self.context.loop("block", across) as j:
                    self._block({**at, self.along: j * size, axis: i * size}, axis)
                rest = self.rest(across * size)
                if rest is not None:
                    with (
                        self.context.loop("i", size) as row,
                        self.context.loop("v", rest) as v,
                    ):
                        self._vector({**at, axis: i * size + row}, across * size + v, 1)
            if not self.context.divides(size, tall):
                with self.context.loop("i", tall - down * size) as row:
                    self._row({**at, axis: down * size + row}, self.lanes(0))

        self._outer(rows, parallel=self.parallel, skip=axis)

    def _block(self, at: Spot, axis: int) -> None:
        context, size = self.context, self.context.unit.lanes("float32")

        def spot(along: int, number: int) -> list[Index]:
            moved = {**at, along: at[along] + number}
            return [moved[n] for n in range(len(moved))]

        rows = [
            context.writer.bind("t", read(context, self.source, spot(self.along, n), size, axis))
            for n in range(size)
        ]
        for n, column in enumerate(transposed(context.writer, rows)):
            write(context, self.target, spot(axis, n), column, self.along)

    def _pieces(self, width: int) -> Pieces | None:
        """Return how the source lies, where its rows are cut or padded."""
        whole = self.source.stride(self.along) is not None and not any(self.source.leaving)
        lanes = self.lanes(width) // 2
        if whole or self._short or lanes < 2 or self.source.region.elements():
            return None
        return Pieces.of(self.context, self.source, self.along, lanes)

    def _across(self, at: Spot, width: int) -> None:
        whole = self.context.variable("panels", self.extent // width)
        with self.context.loop("panel", whole) as panel:
            self._panel(at, panel, width)
        self._last_panel(at, whole, width)

    def _panel(self, at: Spot, number: Index, width: int, count: Index | None = None) -> None:
        lanes = self.lanes(width)
        for start in range(0, width, lanes):
            left = None if count is None else count - start
            # A panel that was allocated here has room for all of its columns.
            room = self.target.storage.owned
            self._vector(at, number * width + start, lanes, left, room)

    def _last_panel(self, at: Spot, whole: Index, width: int) -> None:
        rest = self.rest(whole * width)
        if rest is not None:
            with self.context.when_any(rest):
                self._panel(at, whole, width, self.context.variable("rest", rest))

    def rest(self, done: Index) -> Index | None:
        """Return what is left of the vector axis; None where nothing ever is."""
        rest = self.context.indices.simplify(self.extent - done)
        return rest if self.context.indices.bounds(rest)[1] > 0 else None

    def _vector(
        self, at: Spot, start: Index, lanes: int, count: Index | None = None, room: bool = False
    ) -> None:
        """Move a vector; into `room` with zeros where there is nothing behind `count`."""
        full = {**at, self.along: start}
        spot = [full[n] for n in range(len(full))]
        left = None if count is None else self.context.lower(count)
        value = read(self.context, self.source, spot, lanes, self.along, left)
        write(self.context, self.target, spot, value, self.along, None if room else left)

    @property
    def parallel(self) -> bool:
        return self.context.spreads(math.prod(self.source.region.shape))

    def _outer(
        self, body: Callable[[Spot], None], *, parallel: bool = False, skip: int | None = None
    ) -> None:
        """Loop over all axes but the vectors' and `skip`, the outermost on all cores if asked."""
        axes = [n for n in range(self.source.region.rank) if n not in (self.along, skip)]

        def nest(at: Spot, rest: list[int], spread: bool) -> None:
            if not rest:
                body(at)
                return
            extent = self.source.region.valid[rest[0]]
            single = extent == Index.of(1)  # the next loop is the one to spread
            with self.context.loop("i", extent, spread and not single) as i:
                nest({**at, rest[0]: i}, rest[1:], spread and single)

        nest({}, axes, parallel)


@dataclass
class _Gather:
    """Into panels from rows in pieces: the masks of a panel's vectors before what moves.

    Along the other axes, steps by the period of an offset's divisions change no mask.
    """

    move: _Move
    pieces: Pieces
    width: int

    def emit(self) -> None:
        """All panels, the last one filled up with zeros."""
        move, context = self.move, self.move.context
        whole = context.variable("panels", move.extent // self.width)
        with context.loop("panel", whole, move.parallel) as panel:
            self._panel(panel * self.width, None)
        rest = move.rest(whole * self.width)
        if rest is not None:
            with context.when_any(rest):
                self._panel(whole * self.width, context.variable("rest", rest))

    @property
    def _lanes(self) -> int:
        return self.move.lanes(self.width) // 2

    def _panel(self, first: Index, count: Index | None) -> None:
        """One panel: a loop over the residues of each other axis, then what moves."""
        starts = [first + n for n in range(0, self.width, self._lanes)]
        places = [self.pieces.place(start) for start in starts]
        axes = [n for n in range(self.move.source.region.rank) if n != self.pieces.along]

        def nest(at: Spot, rest: list[int]) -> None:
            if not rest:
                self._residue(at, starts, places, count)
                return
            size = period(self.move.source, rest[0])
            extent = self.move.source.region.valid[rest[0]]
            residues = minimum(size, extent)
            with self.move.context.loop("t", residues) as t:
                nest({**at, rest[0]: t}, rest[1:])

        nest({}, axes)

    def _residue(
        self,
        at: Spot,
        starts: list[Index],
        places: list[tuple[Index, Index]],
        count: Index | None,
    ) -> None:
        context, lanes = self.move.context, self._lanes
        vectors: list[list[Masked]] = []
        for number, place in enumerate(places):
            left = None if count is None else count - number * lanes
            touched = self.pieces.touched(at, place, lanes, left)
            vectors.append([self.pieces.masks(piece, lanes) for piece in touched])
        whole = context.writer.index(1) == context.writer.index(1)
        for pieces in vectors:
            whole = tirx.And(whole, tirx.And(pieces[0].low <= 0, pieces[0].high >= lanes))
        bodies = []
        # Where each vector lies in its first piece, plain loads do: that is code of its own.
        for plain in (True, False):
            with context.writer.body() as body:
                self._steps(at, starts, vectors, plain)
            bodies.append(body)
        context.writer.choose(whole, *bodies)

    def _steps(
        self, at: Spot, starts: list[Index], vectors: list[list[Masked]], plain: bool
    ) -> None:
        """Move what the residues' masks hold for."""
        context = self.move.context

        def nest(full: Spot, rest: list[int], grown: list[tuple[Index, int]]) -> None:
            if not rest:
                self._move(full, starts, vectors, grown, plain)
                return
            number, size = rest[0], period(self.move.source, rest[0])
            extent = self.move.source.region.valid[number]
            rounds = context.variable("turns", ceil_div(extent - at[number], size))
            with context.loop("k", rounds) as k:
                spot = {**full, number: at[number] + k * size}
                nest(spot, rest[1:], [*grown, (k, number)])

        nest(dict(at), list(at), [])

    def _move(
        self,
        full: Spot,
        starts: list[Index],
        vectors: list[list[Masked]],
        grown: list[tuple[Index, int]],
        plain: bool,
    ) -> None:
        context, target = self.move.context, self.move.target
        further = Index()
        for k, number in grown:
            further = further + k * (self.pieces.growth(number) or 0)
        for start, pieces in zip(starts, vectors, strict=True):
            value = self.pieces.load(pieces, [p.offset + further for p in pieces], plain)
            spot = {**full, self.pieces.along: start}
            at = [spot[n] for n in range(len(spot))]
            value = widen(value, self.move.source.storage.dtype)
            write(context, target, at, value, self.pieces.along)
