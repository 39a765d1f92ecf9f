"""``gemm`` by instructions that add the products of a group of short elements to each sum.

``vpdpbusd`` takes four bytes of a row of A and the four of each column of B that they are
multiplied by, so B is packed with groups along the summed axis (the layout ``panels(axis, w, g)``),
or lies so already, and elements of A are broadcast by fours. The register tile and its loops are
the microkernel's, with groups for steps. Where neither operand lies so, its elements are summed one
by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from septran.dtypes import is_float, itemsize
from septran.ir.index import Index, axis, ceil_div
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.dot_instructions import (
    BFDOT,
    SDOT,
    SVE_SDOT,
    SVE_UDOT,
    UDOT,
    USDOT,
    VDPBF16PS,
    VPDPBUSD,
    VPMADDWD,
    Dot,
)
from septran.targets.cpu.gemm.k_loop import KLoopNest, offsets, walk
from septran.targets.cpu.gemm.microkernel import (
    Operands,
    emit_exact_sums,
    emit_multiply_adds,
    register_tile,
    sum_up,
    take_next_pack,
    tiles,
)
from septran.targets.cpu.gemm.results import (
    RegisterTile,
    Shape,
    accumulators,
    add_products,
    first_step,
    kept_bits,
    update,
)
from septran.targets.cpu.gemm.runs import GroupRuns, by_groups
from septran.targets.cpu.map.elements import flips, inside, read
from septran.targets.cpu.simd import AVX2, NEON
from septran.targets.lower.values import bits, broadcast, cast
from septran.targets.lower.writer import Expr, both
from septran.tile.analyses.groups import pitch_in_place
from septran.tile.layouts import Layout
from septran.tile.nodes import Buffer, Compute, Region

WORD = "int32"
"""A group as one number, which is what is broadcast."""


def emit_byte_dots(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Each of the nodes, by ``vpdpbusd`` where an operand is packed for it."""
    _emit(VPDPBUSD, emit_exact_sums, context, nodes, private)


def emit_bfloat16_dots(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """Each of the nodes, by ``vdpbf16ps`` where an operand is packed for it."""
    _emit(VDPBF16PS, emit_multiply_adds, context, nodes, private)


def emit_widened_byte_dots(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """Each of the nodes, by ``vpmaddwd`` where an operand is packed for it."""
    _emit(VPMADDWD, emit_exact_sums, context, nodes, private)


def emit_neon_byte_dots(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """Each of the nodes, by the one of NEON's instructions that has the operands' signs."""
    for node in nodes:
        kinds = {context.storages[operand.buffer].dtype for operand in node.operands[1:]}
        dot = USDOT if len(kinds) > 1 else SDOT if kinds == {"int8"} else UDOT
        _emit(dot, emit_exact_sums, replace(context, unit=NEON), [node], private)


def emit_sve_byte_dots(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """Each of the nodes, whose operands have the same signs, in vectors as long as SVE's."""
    for node in nodes:
        signed = context.storages[node.operands[1].buffer].dtype == "int8"
        _emit(SVE_SDOT if signed else SVE_UDOT, emit_exact_sums, context, [node], private)


def emit_neon_bfloat16_dots(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """Each of the nodes, by ``bfdot`` where an operand is packed for it."""

    def otherwise(short: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
        # In vectors as long as the processor's own, which SVE's may be.
        emit_multiply_adds(replace(short, unit=context.unit), nodes, private)

    _emit(BFDOT, otherwise, replace(context, unit=NEON), nodes, private)


def _emit(
    dot: Dot,
    otherwise: Callable[[Context, Sequence[Compute], Sequence[Buffer]], None],
    context: Context,
    nodes: Sequence[Compute],
    private: Sequence[Buffer],
) -> None:
    for node in nodes:
        c, a, b = oriented(context, node)
        if group_pitch(context, node, b, dot.size):
            GroupProduct(context, dot, node, c, a, b).emit()
        else:
            otherwise(context, [node], private)


def group_pitch(context: Context, node: Compute, b: Access, size: int) -> int:
    """Elements from one group along the summed axis to the next of the same column of B.

    0 where whole groups do not lie side by side, column after column, in panels that were packed
    so or in what the caller holds so.
    """
    if size * itemsize(b.storage.held) != itemsize(WORD):
        return 0
    if packed_in_groups(b.region, b.storage.layout, size):
        return b.storage.layout.parameters[1] * size
    panels = context.machine.instruction(node.instruction).panels
    if panels[1:] != (size,):
        return 0
    return pitch_in_place(b.region, b.storage, panels, context.indices.ranges)


def packed_in_groups(b: Region, layout: Layout, size: int) -> bool:
    """Whether whole groups of elements along the summed axis lie side by side in panels of B."""
    index = b.index
    if layout.group != size or len(index) != 2 or b.rank != 2:
        return False
    if layout.run and b.valid[0] % layout.run != Index():
        return False
    cut, width = layout.parameters[:2]
    starts = [index[1 - cut] - axis(0), index[cut] - axis(1)]
    apart = all(not entry.variables() & {axis(0), axis(1)} for entry in starts)
    whole = layout.run or size, width
    return apart and all(s % n == Index() for s, n in zip(starts, whole, strict=True))


def oriented(context: Context, node: Compute) -> tuple[Access, Access, Access]:
    """C, A and B; or all three transposed, where A is packed in groups: B is what is packed."""
    c, a, b = map(context.access, node.operands)
    if b.storage.layout.group > 1 or a.storage.layout.group == 1:
        return c, a, b
    transposed = [context.access(r.transposed((1, 0))) for r in node.operands]
    return transposed[0], transposed[2], transposed[1]


@dataclass
class GroupProduct:
    """One gemm whose B is packed in groups."""

    context: Context
    dot: Dot
    node: Compute
    c: Access
    a: Access
    b: Access

    def __post_init__(self) -> None:
        context = self.context
        self.length = self.a.region.valid[1]
        self.runs = GroupRuns(self.b.storage.layout.run, self.dot.size)
        self.whole = context.variable("groups", self.runs.groups(self.length))
        self.grouped = self.runs.by_groups(context, self.a)
        self.flipped = self.dot.flipped(self.a.storage.dtype, self.b.storage.dtype)
        # Of runs no whole vectors can be summed; a panel has few columns beside an image's pixels.
        self.by_columns = self.flipped and self.runs.length > 0
        steps = self.whole
        way = walk(context, ((self.grouped, 1),), steps) if self.grouped else KLoopNest()
        self.operands = Operands(
            self.c, self.a, self.b, steps, first_step(context, self.node),
            way, take_next_pack(context, self.a, self.b), self.dot.sums, self.dot.size,
        )  # fmt: skip

    def emit(self) -> None:
        """All tiles, after what makes up for signs."""
        shape = register_tile(self.context, self.node, self.operands.sums)
        register = self.context.unit.lanes(self.dot.sums)
        # A vector is one register here: the instruction has no longer form that LLVM could split.
        shape = replace(shape, lanes=register)
        self.offsets = self._made_up() if self.flipped else None
        tiles(self.context, self.c, shape, self._tile)

    def _tile(self, shape: Shape, tile: RegisterTile) -> None:
        context = self.context
        rows = self._accumulators(shape, tile)
        columns = self._columns(shape, tile)
        groups = self._groups(tile)

        def step(k: Index) -> None:
            at = k if self.operands.walk.extents else context.variable("k", k)
            packed = self.runs.packed(at)
            self._multiply(shape, rows, lambda n: columns(packed, n), lambda n: groups(at, n))

        if self.whole != Index():
            sum_up(context, self.operands, shape, tile, step)
        if self.runs.length:
            self._run_ends(shape, tile, rows, columns)
        else:
            self._last_group(shape, tile, rows, columns)
        update(context, self.c, self.operands.first, shape, tile, rows)

    def _accumulators(self, shape: Shape, tile: RegisterTile) -> list[Any]:
        """A tile's sums, which begin with what makes up for signs."""
        context, writer, offsets = self.context, self.context.writer, self.offsets

        def start(number: int, chunk: int) -> Expr:
            if self.by_columns:
                at = context.lower(tile.column + chunk)
                return writer.bind("start", simd.load(offsets, at, shape.lanes))
            at = context.lower(tile.row + number)
            return writer.bind("start", broadcast(simd.load(offsets, at, 1), shape.lanes))

        return accumulators(writer, shape, tile.rows, None if offsets is None else start)

    def _multiply(
        self,
        shape: Shape,
        rows: list[Any],
        column: Callable[[int], Expr],
        group: Callable[[int], Expr],
    ) -> None:
        """One group of each row times that of each column."""
        writer = self.context.writer

        def add(a: Expr, b: Expr, old: Expr) -> Expr:
            return self.dot.add(self.context, old, a, b, self._kind)

        def scalar(number: int) -> Expr:
            word = group(number)
            return word ^ simd.constant(self.dot.flip, WORD) if self.by_columns else word

        vectors = {chunk: writer.bind("b", column(chunk)) for chunk in shape.chunks}
        add_products(writer, shape, rows, vectors, scalar, add)

    @property
    def _kind(self) -> str:
        """A's type as it is multiplied."""
        kind = self.a.storage.dtype
        return {"int8": "uint8", "uint8": "int8"}[kind] if self.by_columns else kind

    @property
    def _undone(self) -> int:
        """What the sum of a row of A, or of a column of B, is multiplied by to undo the signs."""
        return self.dot.undone(self.a.storage.dtype)

    def _columns(self, shape: Shape, tile: RegisterTile) -> Callable[[Index, int], Expr]:
        """Loads the groups at step k of the columns of a register."""
        context, size, flat = self.context, self.dot.size, self.b.storage.flat
        pitch = group_pitch(context, self.node, self.b, size)
        bases = {
            chunk: context.variable("at", self.b.at((Index(), tile.column + chunk)))
            for chunk in shape.chunks
        }

        def load(k: Index, chunk: int) -> Expr:
            at = context.lower(bases[chunk] + k * pitch)
            value = simd.words(simd.load(flat, at, shape.lanes * size))
            # What copies have packed has other signs already.
            if self.flipped and not self.by_columns and not flips(self.b.storage):
                value = value ^ simd.constant(self.dot.flip, WORD, shape.lanes)
            return value

        return load

    def _groups(self, tile: RegisterTile) -> Callable[[Index, int], Expr]:
        """Loads the group at step k of a row."""
        context, start = self.context, (tile.row, Index())
        place = None
        if self.grouped is not None:
            walk = self.operands.walk
            place = offsets(context, self.grouped, start, 1, range(tile.rows), walk)

        def load(k: Index, number: int) -> Expr:
            if place is None:
                return self._gathered(tile.row + number, self.runs.first(k), self.dot.size)
            at = context.lower(place(k, number))
            return simd.words(self._widened(simd.load(self.a.storage.flat, at, self.dot.size)))

        return load

    def _widened(self, value: Expr) -> Expr:
        return cast(value, self.dot.element) if self.dot.element else value

    def _gathered(self, row: Index, first: Index, count: int | Index) -> Expr:
        """A group from single elements, of which `count` exist, and zeros."""
        context, elements = self.context, list[Expr]()
        for n in range(self.dot.size if isinstance(count, Index) else count):
            left = None
            if isinstance(count, Index) and context.indices.bounds(count)[0] <= n:
                left = context.lower(count - n)
            elements.append(self._element((row, first + n), left))
        return self._group_of(elements)

    def _group_of(self, elements: Sequence[Expr]) -> Expr:
        """These elements, as they are held, and zeros where a group has more."""
        width = 8 * itemsize(self.dot.element or self.a.storage.held)
        total = self.context.writer.index(0)
        for n, element in enumerate(elements):
            # The first element goes into the lowest bits, as a load of the whole group puts it
            # there.
            word = cast(bits(self._widened(element), f"uint{width}"), "uint32")
            word = word << simd.constant(width * n, "uint32")
            total = word if n == 0 else total | word
        return bits(self.context.writer.bind("group", total), WORD)

    def _element(self, spot: tuple[Index, Index], left: Expr | None) -> Expr:
        """One element as it is held; zero, unread, where there is none."""
        context, flat = self.context, self.a.storage.flat
        exists = both(inside(context, self.a, spot, 0, 1), None if left is None else left > 0)
        at = context.lower(self.a.at(spot))
        if exists is None:
            return simd.load(flat, at, 1)
        # Where there is no such element the tensor's first is read, which is there, and not used.
        held = simd.load(flat, simd.select(exists, at, context.writer.index(0)), 1)
        return simd.select(exists, held, simd.constant(0, str(flat.dtype)))

    def _last_group(
        self,
        shape: Shape,
        tile: RegisterTile,
        rows: list[Any],
        columns: Callable[[Index, int], Expr],
    ) -> None:
        """Multiply the end of the summed axis, fewer elements than a group has."""
        context, size = self.context, self.dot.size
        if context.divides(size, self.length):
            return
        # A group ends with zeros in A, and in B, too, as zero times what lies there might be NaN:
        # B's packed panel ends with zeros (copy/groups.py), but may go on behind what is summed.
        rest = context.variable("rest", self.length - self.whole * size)
        with context.when_any(rest):

            def group(number: int) -> Expr:
                count = rest.constant if rest.is_constant else rest
                return self._gathered(tile.row + number, self.whole * size, count)

            keep = self._kept(rest, shape.lanes)

            def column(chunk: int) -> Expr:
                return columns(self.whole, chunk) & keep

            floats = is_float(self.b.storage.dtype)
            load = column if floats else lambda n: columns(self.whole, n)
            self._multiply(shape, rows, load, group)

    def _run_ends(
        self,
        shape: Shape,
        tile: RegisterTile,
        rows: list[Any],
        columns: Callable[[Index, int], Expr],
    ) -> None:
        """Multiply the end of each run, fewer elements than a group has."""
        context, runs = self.context, self.runs
        done, rest = runs.length // runs.size, runs.length % runs.size
        if rest == 0:
            return
        count = self.length // runs.length
        ends = runs.ends(context, self.a)
        way = walk(context, ((ends, 1),), count) if ends else KLoopNest()
        if not way.extents:
            way = KLoopNest((count.constant,), (0,))
        start = tile.row, Index()
        place = offsets(context, ends, start, 1, range(tile.rows), way) if ends else None
        keep = self._kept(Index.of(rest), shape.lanes)

        def group(run: Index, number: int) -> Expr:
            if place is None:
                first = run * runs.length + done * runs.size
                return self._gathered(tile.row + number, first, rest)
            at, flat = place(run, number), self.a.storage.flat
            return self._group_of([simd.load(flat, context.lower(at + n), 1) for n in range(rest)])

        def column(run: Index, chunk: int) -> Expr:
            return columns(run * runs.padded + done, chunk) & keep

        with way.loops(context) as steps:
            for run in steps:
                self._multiply(shape, rows, partial(column, run), partial(group, run))

    def _kept(self, count: Index, lanes: int) -> Expr:
        """The bits of the first elements of each group."""
        return kept_bits(self.context, count * 8 * itemsize(self.b.storage.held), lanes)

    def _made_up(self) -> Any:
        """What sums begin with, so that changed signs of B, or of A, change nothing."""
        return self._column_sums() if self.by_columns else self._row_sums()

    def _column_sums(self) -> Any:
        """For each column of B what A's other signs have added, with the opposite sign."""
        context, writer, b = self.context, self.context.writer, self.b
        width = b.storage.layout.parameters[1]
        lanes = context.unit.lanes(WORD)
        panels = -(-b.region.shape[1] // width)
        sums = writer.scratch("column_sums", panels * width, WORD)
        factor = simd.constant(self._undone, WORD, lanes)
        ones = simd.constant(0x01010101, WORD, lanes)
        groups = self.length // self.runs.length * self.runs.padded
        shape = Shape(1, width, lanes, WORD)
        count = context.variable("panels", ceil_div(b.region.valid[1], width))
        with context.loop("panel", count) as panel:
            tile = RegisterTile(Index(), 1, panel * width, None)
            columns = self._columns(shape, tile)
            (total,) = accumulators(writer, shape, 1)
            with context.loop("k", groups) as k:
                for chunk in shape.chunks:
                    old = simd.load(total, writer.index(chunk), lanes)
                    added = self.dot.add(context, old, ones, columns(k, chunk), self._kind)
                    simd.store(writer, total, writer.index(chunk), added, lanes)
            for chunk in shape.chunks:
                found = simd.load(total, writer.index(chunk), lanes)
                at = context.lower(panel * width + chunk)
                made_up = wrapping.multiply(writer, found, factor)
                simd.store(writer, sums, at, made_up, lanes)
        return sums

    def _row_sums(self) -> Any:
        """For each row of A what B's other signs have added, with the opposite sign."""
        context, writer = self.context, self.context.writer
        high = context.variable("m", self.a.region.valid[0])
        lanes = context.unit.lanes(WORD)
        sums = writer.scratch("row_sums", -(-self.a.region.shape[0] // lanes) * lanes, WORD)
        if self._beside:
            with context.loop("strip", ceil_div(high, lanes)) as strip:
                self._sum_beside(strip * lanes, sums)
            return sums
        factor = simd.constant(self._undone, WORD)
        with context.loop("row", high) as row:
            total = writer.allocate("total", 1, WORD)
            simd.store(writer, total, writer.index(0), simd.constant(0, WORD), 1)
            done = self._sum_vectors(row, total)
            with context.loop("k", self.length - done) as k:
                element = cast(read(context, self.a, (row, done + k)), WORD)
                added = wrapping.add(writer, simd.load(total, writer.index(0), 1), element)
                simd.store(writer, total, writer.index(0), added, 1)
            # A tile's sums begin with it, so that nothing is left to do when they are complete.
            made_up = wrapping.multiply(writer, simd.load(total, writer.index(0), 1), factor)
            simd.store(writer, sums, context.lower(row), made_up, 1)
        return sums

    @property
    def _beside(self) -> bool:
        """Whether the groups of some rows lie side by side, as those of packed rows do."""
        if self.grouped is None or not self.context.divides(self.dot.size, self.length):
            return False
        return self.a.storage.owned and self.grouped.stride(0) == self.dot.size

    def _sum_beside(self, row: Index, sums: Any) -> None:
        """The sums of as many rows as a register holds; some may be behind the last."""
        context, writer, flat = self.context, self.context.writer, self.a.storage.flat
        lanes, grouped = context.unit.lanes(WORD), self.grouped
        assert grouped is not None
        total = writer.allocate("totals", lanes, WORD)
        simd.store(writer, total, writer.index(0), simd.constant(0, WORD, lanes), lanes)
        # Times one in every byte, so that the instruction itself adds up the bytes of a group.
        ones = simd.constant(0x01010101, WORD, lanes)
        with context.loop("k", self.whole) as k:
            groups = simd.load(flat, context.lower(grouped.at((row, k))), lanes * self.dot.size)
            old = simd.load(total, writer.index(0), lanes)
            added = self.dot.add(context, old, simd.words(groups), ones, self.a.storage.dtype)
            simd.store(writer, total, writer.index(0), added, lanes)
        factor = simd.constant(self._undone, WORD, lanes)
        made_up = wrapping.multiply(writer, simd.load(total, writer.index(0), lanes), factor)
        simd.store(writer, sums, context.lower(row), made_up, lanes)

    def _sum_vectors(self, row: Index, total: Any) -> Index:
        """Sum up whole vectors of a row; how many elements they are."""
        context, writer, flat = self.context, self.context.writer, self.a.storage.flat
        for words in dict.fromkeys((context.unit.lanes(WORD), AVX2.lanes(WORD))):
            lanes = words * self.dot.size
            vectors = by_groups(context, self.a, lanes)
            if vectors is not None:
                break
        else:
            return Index()
        sums = writer.allocate("sums", words, WORD)
        simd.store(writer, sums, writer.index(0), simd.constant(0, WORD, words), words)
        whole = context.variable("vectors", self.length // lanes)
        with context.loop("k", whole) as k:
            at = context.lower(vectors.at((row, k)))
            vector = simd.words(simd.load(flat, at, lanes))
            # Times one in every byte, so that the instruction itself adds up the bytes of a row.
            ones = simd.constant(0x01010101, WORD, words)
            old = simd.load(sums, writer.index(0), words)
            added = self.dot.add(context, old, vector, ones, self.a.storage.dtype)
            simd.store(writer, sums, writer.index(0), added, words)
        found = simd.call(
            WORD, 1, "llvm.vector.reduce.add", simd.load(sums, writer.index(0), words)
        )
        simd.store(writer, total, writer.index(0), found, 1)
        return whole * lanes
