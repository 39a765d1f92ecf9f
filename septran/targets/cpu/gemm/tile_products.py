"""``gemm`` by AMX: C's tile in tile registers, two down and two across, over the whole sum.

B is packed in groups as for dot products of vectors (`group_dots.py`): 16 groups of 16 columns are
a register. A's rows are read where they lie, 64 bytes of each a step. What is left of the sum is
one more step, of copies that end with zeros; what is left of the rows has registers of fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from septran.dtypes import itemsize
from septran.ir.index import Index, ceil_div
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.group_dots import (
    WORD,
    emit_bfloat16_dots,
    group_pitch,
    oriented,
)
from septran.targets.cpu.gemm.joined_dots import emit_byte_dots
from septran.targets.cpu.gemm.k_loop import panels
from septran.targets.cpu.gemm.microkernel import take_next_pack
from septran.targets.cpu.gemm.results import (
    RegisterTile,
    Shape,
    column_major,
    first_step,
    kept_bits,
    update,
)
from septran.targets.cpu.gemm.runs import by_groups
from septran.targets.cpu.gemm.tile_registers import (
    BYTE_DOTS,
    LEFT,
    RIGHT,
    ROW_BYTES,
    ROWS,
    TDPBF16PS,
    TileDot,
    TileRegisters,
)
from septran.targets.cpu.run.isa import llvm_arch
from septran.targets.lower.values import broadcast
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Buffer, Compute

SIDE = 2
"""Registers of sums, down and across: four products for four operands that are loaded."""
WIDE = SIDE * ROWS
"""Columns of C's tile, and words of a row of the buffer that it is stored to."""


def emit_bfloat16_tiles(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """Each of the nodes, by ``tdpbf16ps`` where an operand is packed for it."""
    _emit(emit_bfloat16_dots, lambda a, b: TDPBF16PS, context, nodes, private)


def emit_byte_tiles(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Each of the nodes, by the one of AMX's instructions that has the operands' signs."""
    _emit(emit_byte_dots, lambda a, b: BYTE_DOTS[a, b], context, nodes, private)


def _emit(
    otherwise: Callable[[Context, Sequence[Compute], Sequence[Buffer]], None],
    dot_of: Callable[[str, str], TileDot],
    context: Context,
    nodes: Sequence[Compute],
    private: Sequence[Buffer],
) -> None:
    for node in nodes:
        c, a, b = oriented(context, node)
        dot = dot_of(a.storage.dtype, b.storage.dtype)
        steps = _steps_of(context, node, a, b, dot)
        if steps is None:  # rows that are not evenly far apart, such as those of a window
            otherwise(context, [node], private)
        else:
            _TileProduct(context, dot, node, c, a, b, steps).emit()


def _steps_of(context: Context, node: Compute, a: Access, b: Access, dot: TileDot) -> Access | None:
    """A's rows in steps of 64 bytes; None where registers cannot be loaded of A or B."""
    if not group_pitch(context, node, b, dot.size):
        return None
    _, width, *more = b.storage.layout.parameters or (1, ROWS)
    if width % ROWS or len(more) > 1:  # registers are filled with groups one after another
        return None
    if itemsize(a.storage.held) * dot.step != ROW_BYTES:
        return None
    steps = by_groups(context, a, dot.step)
    return steps if steps is not None and steps.stride(0) is not None else None


@dataclass
class _TileProduct:
    """One gemm."""

    context: Context
    dot: TileDot
    node: Compute
    c: Access
    a: Access
    b: Access
    steps: Access
    """A's steps by their numbers, each a register's row."""

    def __post_init__(self) -> None:
        context, dot = self.context, self.dot
        self.high, self.wide = (
            context.variable(stem, valid)
            for stem, valid in zip("mn", self.c.region.valid, strict=True)
        )
        self.length = self.a.region.valid[1]
        self.whole = context.variable("steps", self.length // dot.step)
        self.rest = context.variable("rest", self.length - self.whole * dot.step)
        self.ragged = not context.divides(dot.step, self.length)
        self.first = first_step(context, self.node)
        self.pitch = group_pitch(context, self.node, self.b, dot.size)
        take_next_pack(context, self.a, self.b)  # what is packed next is not asked for here

    def emit(self) -> None:
        """All tiles: of whole pairs of registers, of a single one, of what is left of one."""
        context, writer = self.context, self.context.writer
        self.registers = TileRegisters(writer, llvm_arch(context.machine))
        self.sums = writer.scratch("tile_sums", SIDE * ROWS * WIDE, self.dot.sums)
        if self.ragged:
            self._copy_left()
        whole = context.variable("pairs", self.high // WIDE)
        done = self.high // ROWS * ROWS
        if context.indices.bounds(self.high)[1] >= ROWS:
            self.registers.configure(writer.index(ROWS))
            self._strips(Index(), whole, SIDE, None)
            with context.when_any(single := context.variable("single", done - whole * WIDE)):
                self._strips(whole * WIDE, ceil_div(single, ROWS), 1, None)
        if not context.divides(ROWS, self.high):
            rows = context.variable("rows", self.high - done)
            with context.when_any(rows):
                self.registers.configure(context.lower(rows))
                self._strips(done, Index.of(1), 1, rows)
        self.registers.release()

    def _strips(self, start: Index, count: Index, tall: int, rows: Index | None) -> None:
        """`count` strips of so many registers, of which the only one of `rows` is not full."""
        context = self.context
        if context.indices.bounds(count)[1] < 1:
            return

        def panel(column: Index, columns: Index | None) -> None:
            for across, fits in self._across(columns):
                with context.writer.when(fits):
                    if self.ragged:
                        self._copy_right(column, across)
                    with context.loop("strip", count) as strip:
                        row = start + strip * (tall * ROWS)
                        self._multiply(row, column, tall, across)
                        self._put(row, rows or Index.of(tall * ROWS), column, columns, across)

        panels(context, self.wide, WIDE, panel)

    def _across(self, columns: Index | None) -> Iterator[tuple[int, Expr | bool]]:
        """Registers that so many columns take, each number with when it is the one."""
        if columns is None:
            yield SIDE, True
            return
        low, high = self.context.indices.bounds(columns)
        for count in range(1, SIDE + 1):
            if low <= count * ROWS and high > (count - 1) * ROWS:
                alone = low > (count - 1) * ROWS and high <= count * ROWS
                number = self.context.lower(ceil_div(columns, ROWS))
                yield count, alone or number == self.context.writer.index(count)

    def _multiply(self, row: Index, column: Index, tall: int, across: int) -> None:
        """Sum up a tile and store it."""
        context, registers = self.context, self.registers
        index = context.writer.index
        for number in (SIDE * i + j for i in range(tall) for j in range(across)):
            registers.zero(number)
        stride = (self.steps.stride(0) or 0) * itemsize(self.a.storage.held)
        begin = context.variable("at", self.b.at((Index(), column)))
        beside = self.b.at((Index(), column + ROWS)) - self.b.at((Index(), column))
        with context.loop("k", self.whole) as k:
            left = [context.lower(self.steps.at((row + ROWS * i, k))) for i in range(tall)]
            at = begin + k * (ROWS * self.pitch)
            right = [context.lower(at + beside * j) for j in range(across)]
            right_stride = self.pitch * itemsize(self.b.storage.held)
            self._step(
                [(self.a.storage.flat, at, stride) for at in left],
                [(self.b.storage.flat, at, right_stride) for at in right],
            )
        if self.ragged:
            with context.when_any(self.rest):
                rows = [context.lower((row + ROWS * i) * self.dot.step) for i in range(tall)]
                tops = [index(j * ROWS * ROWS) for j in range(across)]
                self._step(
                    [(self.left, at, ROW_BYTES) for at in rows],
                    [(self.right, at, ROW_BYTES) for at in tops],
                )
        for i in range(tall):
            for j in range(across):
                at = index(i * ROWS * WIDE + j * ROWS)
                registers.store(SIDE * i + j, self.sums, at, SIDE * ROW_BYTES)

    def _step(self, left: list[tuple[Any, Expr, int]], right: list[tuple[Any, Expr, int]]) -> None:
        """Load some rows and columns, and add their products."""
        registers = self.registers
        for j, place in enumerate(right):
            registers.load(RIGHT + j, *place)
        for i, place in enumerate(left):
            registers.load(LEFT + i, *place)
            for j in range(len(right)):
                registers.dot(self.dot, SIDE * i + j, LEFT + i, RIGHT + j)

    def _put(
        self, row: Index, rows: Index, column: Index, columns: Index | None, across: int
    ) -> None:
        """Put what was stored into C: by rows, or by whole registers where columns lie along."""
        context, writer = self.context, self.context.writer
        size = ROWS if column_major(self.c) and rows.is_constant and rows % ROWS == Index() else 1
        shape = Shape(size, across * ROWS, ROWS, self.dot.sums, registers=across)
        with context.loop("row", rows // size) as number:
            held = []
            for n in range(size):
                line = writer.allocate("acc", shape.columns, self.dot.sums)
                for chunk in shape.chunks:
                    at = context.lower((number * size + n) * WIDE + chunk)
                    value = simd.load(self.sums, at, ROWS)
                    simd.store(writer, line, writer.index(chunk), value, ROWS)
                held.append(line)
            tile = RegisterTile(row + number * size, size, column, columns)
            update(context, self.c, self.first, shape, tile, held)

    def _copy_left(self) -> None:
        """The last elements of A's rows, each before zeros."""
        context, writer, flat = self.context, self.context.writer, self.a.storage.flat
        step, held = self.dot.step, str(flat.dtype)
        self.left = writer.scratch("last_of_rows", self.a.region.shape[0] * step, held)
        self.right = writer.scratch("last_of_columns", SIDE * ROWS * ROWS, WORD)
        with context.loop("line", SIDE * ROWS) as line:
            zero = simd.constant(0, WORD, ROWS)
            simd.store(writer, self.right, context.lower(line * ROWS), zero, ROWS)
        mask = simd.first_lanes(context.lower(self.rest), step)
        with context.loop("row", self.high) as row:
            at = context.lower(self.a.at((row, self.whole * step)))
            value = simd.masked_load(flat, at, mask)
            simd.store(writer, self.left, context.lower(row * step), value, step)

    def _copy_right(self, column: Index, across: int) -> None:
        """The last groups of a panel's columns; the groups behind them are zeros already."""
        context, size = self.context, self.dot.size
        groups = context.variable("groups", self.rest // size)
        some = context.variable("some", self.rest - groups * size)
        for j in range(across):
            start = self.b.at((self.whole * self.dot.step, column + j * ROWS))
            with context.loop("group", groups) as group:
                self._copy_group(start, j, group, None)
            if not context.divides(size, self.length):
                with context.when_any(some):
                    # What follows the last element may be another one, not zero, and A's zero
                    # times that might be NaN.
                    keep = kept_bits(context, some * 8 * itemsize(self.b.storage.held), ROWS)
                    self._copy_group(start, j, groups, keep)

    def _copy_group(self, start: Index, number: int, group: Index, keep: Expr | None) -> None:
        """A group of the columns of a register."""
        context = self.context
        at = context.lower(start + group * self.pitch)
        value = simd.words(simd.load(self.b.storage.flat, at, ROWS * self.dot.size))
        value = value if keep is None else value & keep
        where = context.lower((group + number * ROWS) * ROWS)
        simd.store(context.writer, self.right, where, broadcast(value, ROWS), ROWS)
