"""Tiles in SHARED as the hardware's instructions see them: rows of bytes, in panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.ir.index import Index, IndexLike, axis, is_axis
from septran.targets.cuda.addresses import CHUNK
from septran.targets.cuda.context import Context, Storage
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Region


@dataclass(frozen=True)
class SharedTile:
    """A two-dimensional region of a SHARED buffer: its rows, and what lies along them."""

    context: Context
    storage: Storage
    along: int
    """The region's axis whose elements are side by side."""
    row: Index
    """The buffer's row that the region's first one is."""
    step: int
    """Rows of the buffer from one row of the region to the next."""
    byte: Index
    """Bytes into that row where the region begins."""
    stage: Index

    @property
    def swizzle(self) -> int:
        """Bytes of the swizzle; 0 without one."""
        layout = self.storage.layout
        return layout.parameters[0] if layout.kind == "swizzle" else 0

    @property
    def pitch(self) -> int:
        """Bytes from one row of the buffer to the next."""
        if self.swizzle:
            return self.swizzle
        pad = self.storage.layout.parameters[0] if self.storage.layout.kind == "padded" else 0
        return (self.storage.shape[-1] + pad) * itemsize(self.storage.dtype)

    @property
    def panel(self) -> int:
        """Bytes from one panel of a swizzle to the next."""
        return self.storage.layout.panel_bytes(self.storage.shape) if self.swizzle else 0

    def start(self) -> Index:
        """Bytes from the start of shared memory to the stage."""
        size = itemsize(self.storage.dtype)
        return (self.stage * self.storage.stage_elements + self.storage.offset) * size

    def panel_start(self, byte: int) -> Index:
        """Bytes to where `byte` of the region's first row lies, without the swizzle's turn.

        Where the row begins a period of the swizzle, as descriptors and boxes have it.
        """
        along = self.byte + byte
        if not self.swizzle:
            return self.start() + self.row * self.pitch + along
        inside = along // self.swizzle * self.panel + along % self.swizzle
        return self.start() + self.row * self.pitch + inside

    def offset(self, row: IndexLike, byte: IndexLike) -> Expr:
        """Bytes from the start of shared memory to a byte of a row of the region."""
        indices = self.context.indices
        at, along = self.row + Index.of(row) * self.step, self.byte + byte
        base = self.start() + at * self.pitch
        if not self.swizzle:
            return indices.lower(base + along)
        along = indices.simplify(along)
        base = base + along // self.swizzle * self.panel
        inside = indices.simplify(along % self.swizzle)
        # The hardware xors bits 4 and up of an address with bits 7 and up: the number of a chunk
        # with that of its 128 bytes, as far as the swizzle is wide.
        phase = indices.simplify(at // (128 // self.swizzle) % (self.swizzle // CHUNK))
        if phase.is_constant and phase.constant == 0:
            return indices.lower(base + inside)
        chunk = indices.lower(inside // CHUNK) ^ indices.lower(phase)
        return indices.lower(base + inside % CHUNK) + chunk * indices.writer.index(CHUNK)

    def address(self, row: IndexLike, byte: IndexLike) -> Expr:
        """The same as an address of the shared window."""
        return address(self.context, self.offset(row, byte))


def tile(context: Context, region: Region) -> SharedTile | str:
    """A region of two axes as rows, or why it is not made of rows."""
    storage = context.storages[region.buffer]
    if storage.layout.kind not in ("row", "padded", "swizzle"):
        return f"{region.buffer} is laid out as {storage.layout}"
    last = region.index[-1]
    along = next((n for n in range(region.rank) if last.coefficient(axis(n)) == 1), None)
    if along is None or any(is_axis(v) for v in (last - axis(along)).variables()):
        return f"no axis of {region} lies along the rows of {region.buffer}"
    row = Index()
    for entry, extent in zip(region.index[:-1], storage.shape[:-1], strict=True):
        row = row * extent + entry
    others = [n for n in range(region.rank) if n != along and region.shape[n] > 1]
    if len(others) > 1:
        return f"{region} has more than two axes"
    step = row.coefficient(axis(others[0])) if others else 1
    first = row - (Index.of(axis(others[0])) * step if others else Index())
    # The axes that are left have one element.
    first = first.substitute({axis(n): 0 for n in range(region.rank) if n not in others})
    if any(is_axis(v) for v in first.variables()):
        return f"the rows of {region} do not follow each other in {region.buffer}"
    byte = (last - axis(along)) * itemsize(storage.dtype)
    return SharedTile(context, storage, along, first, step, byte, region.stage)


def base(context: Context) -> Expr:
    """The shared-window address of shared memory's first byte, uint32; made at the start."""
    if context.state.shared_base is None:
        value = T.cuda.cvta_generic_to_shared(context.shared.ptr_to([0]))
        variable = tirx.Var(context.writer.name("shared_base"), value.ty)
        context.opening.append(tirx.Bind(variable, value))
        context.state.shared_base = variable
    return context.state.shared_base


def address(context: Context, offset: Expr) -> Expr:
    """The shared-window address of a byte of shared memory, uint32."""
    return base(context) + T.Cast("uint32", offset)


def pointer(context: Context, offset: Expr) -> Any:
    """A generic pointer to a byte of shared memory."""
    return context.shared.ptr_to([offset])
