"""ldmatrix and stmatrix: 8 x 8 matrices of 16-bit elements between SHARED and registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.shared import SharedTile
from septran.targets.cuda.text.ptx import ptx
from septran.targets.lower.writer import Expr

LOAD = "ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16"
STORE = "stmatrix.sync.aligned.m8n8.x{}.shared.b16"
HALF = 16
"""Bytes of a matrix's row: half of what an instruction sums."""


@dataclass(frozen=True)
class LdmatrixOperand:
    """An operand of mma.sync in SHARED, of which warps load 8 x 32-byte pieces."""

    context: Context
    tile: SharedTile
    summed: int
    """The region's axis that is summed over."""
    valid: Index
    """How many of the product's rows (or columns) exist: others hold what nobody has written."""

    @property
    def direct(self) -> bool:
        """Whether rows go along the summed axis."""
        return self.tile.along == self.summed

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return itemsize(self.tile.storage.dtype)

    def load(self, target: Any, first: int, count: int, other: Index, step: int, wide: str) -> None:
        """`count` registers from `first` on, of rows (of the product) from `other` on.

        `wide` orders the matrices: ``A`` by rows first, ``B`` by the summed axis first.
        """
        # PTX ISA, ldmatrix: `.trans` exchanges elements of 16 bits.
        if not self.direct and self.size != 2:
            self._gather(target, first, count, other, step, wide)
            return
        lane = self.context.thread % 32
        # PTX ISA, ldmatrix: lanes 8n to 8n + 7 have the addresses of the rows of matrix n.
        number = lane // 8 % count
        across, along = (number % 2, number // 2) if wide == "A" else (number // 2, number % 2)
        row, byte = self._place(other, step, across, along, lane % 8)
        text = LOAD.format(count, "" if self.direct else ".trans")
        at = self.tile.address(row, byte)
        ptx(self.context, text, *(target[first + n] for n in range(count)), at)

    def _place(
        self, other: Index, step: int, across: Index, along: Index, row: Index
    ) -> tuple[Index, Index]:
        """Row and byte of the tile that a lane points at: `across` M or N, `along` the sum."""
        if self.direct:
            return other + across * 8 + row, Index.of(step * 2 * HALF) + along * HALF
        return Index.of(step * 16) + along * 8 + row, (other + across * 8) * 2

    def _gather(
        self, target: Any, first: int, count: int, other: Index, step: int, wide: str
    ) -> None:
        """Element by element, where rows go the other way and elements are not of 16 bits."""
        packed = 4 // self.size
        lane = self.context.thread % 32
        for n in range(count):
            across, along = (n % 2, n // 2) if wide == "A" else (n // 2, n % 2)
            # PTX ISA, mma: lane l holds row (of B: column) l / 4, and of the sum the word l % 4.
            place = other + across * 8 + lane // 4
            k = (lane % 4 + along * 4) * packed + step * 8 * packed
            value: Expr = None
            for part in range(packed):
                element = self._element(k + part, place)
                bits = T.Cast("uint32", T.reinterpret(f"uint{8 * self.size}", element))
                # PTX ISA, mma: the element of the least k is in the lowest bits of a register.
                bits = bits if part == 0 else bits << T.uint32(8 * self.size * part)
                value = bits if value is None else value | bits
            there = self.context.indices.below(place, self.valid)
            if there is not None:
                value = T.if_then_else(there, value, T.uint32(0))
            self.context.writer.store(target, first + n, value)

    def _element(self, k: Index, other: Index) -> Expr:
        storage = self.tile.storage
        offset = self.tile.offset(k, other * self.size)
        flat = self.context.shared_view(storage.dtype)
        if self.size == 1:
            return self.context.writer.load(flat, offset)
        shift = self.context.writer.index(self.size.bit_length() - 1)
        return self.context.writer.load(flat, offset >> shift)


def store_rows(context: Context, values: Sequence[Expr], address: Expr) -> None:
    """Stmatrix of 1, 2 or 4 words; each lane has the address of one row."""
    ptx(context, STORE.format(len(values)), address, *values)
