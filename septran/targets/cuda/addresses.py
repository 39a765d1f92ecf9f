"""Addresses of a region's elements: flat indices, and how many are contiguous."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from septran.dtypes import itemsize
from septran.ir.atoms import Var
from septran.ir.index import Index
from septran.ir.views import View
from septran.targets.cuda.context import Context, Storage
from septran.targets.lower.indices import divisor, row_offset
from septran.targets.lower.writer import Expr, both
from septran.tile.nodes import Region

CHUNK = 16
"""Bytes of the widest access of a thread, and what a swizzle moves together."""


@dataclass(frozen=True)
class Access:
    """A region of a buffer in GLOBAL or SHARED."""

    context: Context
    storage: Storage
    region: View

    @property
    def stage(self) -> Index:
        """The stage of the buffer that the region is in."""
        return self.region.stage if isinstance(self.region, Region) else Index()

    def flat(self, at: Sequence[Index]) -> Index:
        """The element's number from the start of `storage.flat`, before any swizzle."""
        entries = self.region.at(tuple(at))
        storage = self.storage
        if storage.layout.kind == "swizzle":
            offset = self._in_panels(entries)
        elif storage.exists:
            offset = row_offset(entries, storage.exists)
        else:
            offset = storage.layout.offset(entries, storage.shape)
        offset = offset + self.stage * storage.stage_elements + storage.offset
        return self.context.indices.simplify(offset)

    def _in_panels(self, entries: Sequence[Index]) -> Index:
        """As if the rows of each panel lay one after another, which a swizzle then permutes."""
        storage, size = self.storage, itemsize(self.storage.dtype)
        width = storage.layout.parameters[0] // size
        row = Index()
        for entry, extent in zip(entries[:-1], storage.shape[:-1], strict=True):
            row = row * extent + entry
        last = self.context.indices.simplify(entries[-1])
        if self.context.indices.bounds(last)[1] < width:
            return row * width + last
        # Panels lie one after another, each as wide as the swizzle.
        panel = storage.layout.panel_bytes(storage.shape) // size
        return last // width * panel + row * width + last % width

    def lower(self, at: Sequence[Index], width: int = 1) -> Expr:
        """The element's number in `storage.flat`; visibly a multiple of a vector's `width`."""
        context, layout = self.context, self.storage.layout
        writer = context.writer
        number = context.lower(self.flat(at) // width)
        if layout.kind == "swizzle":
            # Bits 4 and up of the byte's address are exchanged by bits 7 and up.
            size = itemsize(self.storage.dtype)
            number = writer.bind("at", number)
            mask = (layout.parameters[0] - CHUNK) // size // width
            number = number ^ ((number >> writer.index(3)) & writer.index(mask))
        return number if width == 1 else number * writer.index(width)

    def width(self, at: Sequence[Index], lane: Var, lanes: int) -> int:
        """Return how many elements along `lane` can be moved at once: side by side, and aligned."""
        entries = self.region.at(tuple(at))
        # A vector is of elements side by side: the lane has to step along the last axis, by one.
        if any(lane in e.variables() for e in entries[:-1]):
            return 1
        last = entries[-1]
        rest = last - Index.of(lane) * last.coefficient(lane)
        if last.coefficient(lane) != 1 or lane in rest.variables():
            return 1
        # In other layouts neighbours along the last axis need not be neighbours in memory.
        if self.storage.layout.kind not in ("row", "padded", "swizzle"):
            return 1
        if self.storage.dtype == "bool":  # TVM prints a vector of them as one of 16-bit integers
            return 1
        # One condition guards a whole vector, so none may lie half beyond the edge.
        if self.region.padded and not self._within(entries):
            return 1
        base = self.flat([c.substitute({lane: 0}) for c in at])
        most = CHUNK // itemsize(self.storage.dtype)
        # `most` is a power of two, so this is one, too; and every address is a multiple of it.
        return math.gcd(divisor(base), lanes, most)

    def _within(self, entries: Sequence[Index]) -> bool:
        low, high = self.context.indices.bounds(entries[-1])
        return low >= 0 and high < self.storage.shape[-1]

    def exists(self, at: Sequence[Index]) -> Expr | None:
        """Whether the element exists; None where it certainly does."""
        indices = self.context.indices
        conditions = [indices.below(c, v) for c, v in zip(at, self.region.valid, strict=True)]
        if self.region.padded:
            entries = self.region.at(tuple(at))
            conditions += [
                indices.inside(e, n) for e, n in zip(entries, self.storage.shape, strict=True)
            ]
        return both(*conditions)
