"""Products by groups of bytes whose B is computed where it is multiplied.

Of as many rows of B as a group has elements, vectors of bytes are computed and joined to words,
a group of each column, in registers: of weights of 4 bits no packed copy is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tvm import tirx

from septran.ir.index import Index
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access, Storage
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.computed import Part, Rows
from septran.targets.cpu.gemm.computed_sums import emit_computed_sums
from septran.targets.cpu.gemm.dot_instructions import VPDPBUSD, Dot
from septran.targets.cpu.gemm.group_dots import WORD, GroupProduct
from septran.targets.cpu.gemm.microkernel import register_tile, tiles
from septran.targets.cpu.gemm.results import RegisterTile, Shape, prefetch
from septran.targets.lower.writer import Expr
from septran.tile.layouts import ROW
from septran.tile.nodes import Compute


def emit_computed_dots(context: Context, gemm: Compute, rows: Rows) -> None:
    """``C += A @ B`` or ``C = A @ B`` by ``vpdpbusd``, where A's groups lie side by side."""
    emit_where_it_fits(_Product, VPDPBUSD, context, gemm, rows)


@dataclass
class ComputedProduct(GroupProduct):
    """One gemm whose B is nowhere as a whole."""

    rows: Rows

    @property
    def fits(self) -> bool:
        """Whether parts are of whole groups, and so are A's rows, one after another."""
        plain = self.grouped is not None and not self.operands.walk.extents
        return plain and self.rows.count % self.dot.size == 0


def emit_where_it_fits(
    kind: type[ComputedProduct], dot: Dot, context: Context, gemm: Compute, rows: Rows
) -> None:
    """A product by groups where B and the rows of A are such, else by sums."""
    c, a = map(context.access, gemm.operands[:2])
    b = gemm.operands[2]
    storage = Storage(b.buffer, b.shape, rows.held, ROW, None, rows.held)
    work = kind(context, dot, gemm, c, a, Access(storage, b, Index()), rows)
    if work.fits:
        work.emit()
    else:
        emit_computed_sums(context, gemm, rows)


@dataclass
class _Product(ComputedProduct):
    """One gemm whose B is in registers alone."""

    def emit(self) -> None:
        """All tiles, after what makes up for signs."""
        shape = register_tile(self.context, self.node, self.dot.sums)
        self.offsets = self._row_sums() if self.flipped else None
        # Four steps at a time take so little work that a strip of the usual tile is better.
        tiles(self.context, self.c, self.rows.tiled(shape, self.node, shape.rows), self._tile)

    def _tile(self, shape: Shape, tile: RegisterTile) -> None:
        context, size = self.context, self.dot.size
        rows = self._accumulators(shape, tile)
        prefetch(context, self.rows.finish.target if self.rows.finish else self.c, shape, tile)
        groups = self._groups(tile)
        with context.loop("k", self.rows.count // size) as k:
            for n in range(size):
                self.rows.prefetch(k * size + n, tile.column, shape.columns)
            for part in self.rows.parts:
                words = self._words(part, k, shape, tile)
                step = context.variable("k", k + part.first // size)
                self._multiply(shape, rows, words.__getitem__, partial(groups, step))
        self.rows.put(self.c, self.operands.first, shape, tile, rows)

    def _words(self, part: Part, k: Index, shape: Shape, tile: RegisterTile) -> dict[int, Expr]:
        """Group `k` of a part for each register of columns, by its first column."""
        size, lanes = self.dot.size, shape.lanes
        made = [self.rows.at(part, k * size + n, shape, tile, shape.chunks) for n in range(size)]
        # Element n of each column's group is that column's lane of vector n.
        order = [lane + n * lanes for lane in range(lanes) for n in range(size)]
        found = {}
        for chunk, bytes_of in zip(shape.chunks, zip(*made, strict=True), strict=True):
            word = simd.words(tirx.Shuffle(list(bytes_of), order))
            if self.flipped:
                word = word ^ simd.constant(self.dot.flip, WORD, lanes)
            found[chunk] = word
        return found
