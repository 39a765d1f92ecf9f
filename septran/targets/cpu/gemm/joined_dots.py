"""Products by groups of bytes whose B is read in place: its rows are interleaved in registers.

A row or a few of A take each group of B so few times that packing it, to read it again at once,
takes longer than multiplying. The words that two steps of ``vpunpck`` make lie in an order of their
own, which is that of the sums until they go to C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from septran.dtypes import itemsize
from septran.ir.index import Index, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm import group_dots
from septran.targets.cpu.gemm.dot_instructions import VPDPBUSD
from septran.targets.cpu.gemm.group_dots import WORD, GroupProduct, group_pitch, oriented
from septran.targets.cpu.gemm.joined_rows import GROUP, groups_by_blocks, in_order
from septran.targets.cpu.gemm.k_loop import panels, strips
from septran.targets.cpu.gemm.prefetch import far
from septran.targets.cpu.gemm.results import RegisterTile, Shape, column_major, update
from septran.targets.cpu.map.elements import read
from septran.targets.cpu.simd import AVX2
from septran.targets.lower.values import bits
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Buffer, Compute

MOST_ROWS = 4
"""Of A: their sums of four registers each leave as many for what is interleaved."""


def emit_byte_dots(context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]) -> None:
    """Each of the nodes, by ``vpdpbusd`` where an operand is packed for it or rows are few."""
    for node in nodes:
        work = JoinedProduct.of(context, node)
        if work is not None:
            work.emit()
        else:
            group_dots.emit_byte_dots(context, [node], private)


def emit_short_vector_byte_dots(
    context: Context, nodes: Sequence[Compute], private: Sequence[Buffer]
) -> None:
    """As `emit_byte_dots`, with vectors of 256 bits on any processor."""
    # AVX-VNNI is encoded by VEX, which knows no registers of 512 bits (Intel SDM vol. 2, VPDPBUSD).
    emit_byte_dots(replace(context, unit=AVX2), nodes, private)


@dataclass
class JoinedProduct(GroupProduct):
    """One gemm of few rows whose B is row after row where it is read."""

    @staticmethod
    def of(context: Context, node: Compute) -> JoinedProduct | None:
        """The product of a node, if it is such a one."""
        c, a, b = oriented(context, node)
        plain = b.stride(1) == 1 and not any(b.leaving) and not b.storage.layout.group > 1
        if not plain or c.region.shape[0] > MOST_ROWS or column_major(c):
            return None
        if itemsize(b.storage.held) != 1 or group_pitch(context, node, b, VPDPBUSD.size):
            return None
        work = JoinedProduct(context, VPDPBUSD, node, c, a, b)
        return work if work.grouped is not None and not work.operands.walk.extents else None

    def emit(self) -> None:
        """All tiles, after what makes up for signs."""
        context, lanes = self.context, self.context.unit.lanes(WORD)
        # As one register, because any of the columns may be missing: see `results.left`.
        shape = Shape(MOST_ROWS, GROUP * lanes, lanes, WORD, registers=1)
        self.offsets = self._made_up() if self.flipped else None
        high, wide = (context.variable("extent", v) for v in self.c.region.valid)

        def panel(column: Index, columns: Index | None) -> None:
            def strip(row: Index, rows: int) -> None:
                self._tile(shape, RegisterTile(row, rows, column, columns))

            strips(context, high, shape, strip)

        panels(context, wide, shape.columns, panel)

    def _tile(self, shape: Shape, tile: RegisterTile) -> None:
        context = self.context
        rows, columns, groups = (
            self._accumulators(shape, tile), self._columns(shape, tile), self._groups(tile)
        )  # fmt: skip
        with context.loop("k", self.whole) as k:
            self._prefetch(k, tile)
            self._multiply(shape, rows, partial(columns, k), partial(groups, k))
        self._last_group(shape, tile, rows, columns)
        for row in rows:
            self._put_in_order(shape, row)
        update(context, self.c, self.operands.first, shape, tile, rows)

    def _columns(self, shape: Shape, tile: RegisterTile) -> Callable[[Index, int], Expr]:
        """The groups at step k of a quarter of the columns, of which each step reads all once."""
        joined: dict[Index, list[Expr]] = {}

        def load(k: Index, chunk: int) -> Expr:
            if k not in joined:
                joined[k] = self._joined(k, shape, tile)
            return joined[k][chunk // shape.lanes]

        return load

    def _joined(self, k: Index, shape: Shape, tile: RegisterTile) -> list[Expr]:
        """The groups at step k, as words; behind the last whole one with rows that are not used."""
        context, writer, size = self.context, self.context.writer, self.dot.size
        count = None if tile.columns is None else context.lower(tile.columns)
        found = []
        for n in range(size):
            row = k * size + n
            if k == self.whole:
                # Where A's element does not exist either, and is zero, any row does.
                row = minimum(row, self.length - 1)
            value = self._held(row, tile.column, shape.columns, count)
            if self.flipped:
                value = value ^ simd.constant(0x80, "uint8", shape.columns)
            found.append(writer.bind("row", value))
        return [bits(word, WORD) for word in groups_by_blocks(writer, found)]

    def _held(self, row: Index, column: Index, lanes: int, count: Expr | None) -> Expr:
        """Bytes of a row of B as they are held, without signs."""
        flat, b = self.b.storage.flat, self.b
        if count is not None:
            return bits(read(self.context, b, (row, column), lanes, 1, count), "uint8")
        return bits(simd.load(flat, self.context.lower(b.at((row, column))), lanes), "uint8")

    def _prefetch(self, k: Index, tile: RegisterTile) -> None:
        """Ask for the rows that are as many steps further as there are, of what memory holds.

        To L2, as what is on its way to L1 keeps one of the places where a core's own loads wait: a
        row of bytes times 4096 x 4096 takes 0.94 of torch's rate so, and 0.82 of it to L1 (Zen 4).
        """
        context, b = self.context, self.b
        if tile.columns is not None or not far(context, b):
            return
        for n in range(self.dot.size):
            at = context.lower(b.at((k * self.dot.size + n + b.region.shape[0], tile.column)))
            simd.prefetch(context.writer, b.storage.flat, at, 2)

    def _put_in_order(self, shape: Shape, row: Any) -> None:
        """The sums of a row of the tile, column after column."""
        writer = self.context.writer
        sums = [simd.load(row, writer.index(chunk), shape.lanes) for chunk in shape.chunks]
        sums = [writer.bind("sum", value) for value in sums]
        for chunk, value in zip(shape.chunks, in_order(writer, sums), strict=True):
            simd.store(writer, row, writer.index(chunk), value, shape.lanes)
