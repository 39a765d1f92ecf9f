"""The state that every emitter needs: writer, buffers, loop indices, vector unit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from septran.ir.index import Index, IndexLike, Range, Var
from septran.machine.model import Machine
from septran.targets.cpu.addresses import Access, Storage
from septran.targets.cpu.arithmetic.mathematics import VectorArithmetic
from septran.targets.cpu.run.isa import llvm_arch, row_streams, unit_of
from septran.targets.cpu.simd import RowStreams, VectorUnit
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.indices import WritingScope
from septran.targets.lower.indices import divisor as divisor_of
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Region

if TYPE_CHECKING:
    from septran.targets.cpu.gemm.prefetch import NextPack

PARALLEL_ELEMENTS = 1 << 15
"""Elements from which on copying or computing outside of a parallel loop is spread over cores."""
MOST_VALUES = 4096
"""Combinations of loop indices that are tried to list an index's values."""


@dataclass
class Context(WritingScope):
    """The state of one lowering."""

    writer: CpuWriter
    machine: Machine
    unit: VectorUnit
    storages: dict[str, Storage] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    next_packs: dict[str, NextPack] = field(default_factory=dict)
    """What the next iteration of the loop around packs, by the buffer it goes to."""
    dtypes: dict[str, str] = field(default_factory=dict)
    """The element types of the program's buffers, also of those that are never stored."""
    parallel: bool = False
    """Whether a parallel loop is open: TVM's pool does not nest."""

    @property
    def arithmetic(self) -> VectorArithmetic:
        """Functions of elements, written here."""
        return VectorArithmetic(self.writer)

    @property
    def streams(self) -> RowStreams:
        """How rows are read from memory."""
        return row_streams(self.machine)

    def register_lanes(self, dtype: str) -> int:
        """Elements of a register that LLVM has, where it splits the unit's vectors in two, too."""
        return min(self.unit, unit_of(llvm_arch(self.machine)), key=lambda u: u.bytes).lanes(dtype)

    def cache_bytes(self, of: str | None = None) -> float:
        """Capacity of the largest cache, or of the largest that a processor has to itself."""
        sizes = (
            m.capacity_bytes or 0
            for m in self.machine.memories
            if m.cached and (of is None or m.visible_to == of)
        )
        return max(sizes, default=math.inf)

    def nearest_bytes(self) -> float:
        """Capacity of the smallest cache: what is used again at once is to fit into it."""
        sizes = (m.capacity_bytes or 0 for m in self.machine.memories if m.cached)
        return min(sizes, default=0)

    def access(self, region: Region) -> Access:
        """The region's storage and offsets."""
        return Access.of(self.storages[region.buffer], region, self.indices.ranges)

    def bound(self, stem: str, value: IndexLike) -> Expr:
        """An index as a TensorIR variable, computed once."""
        return self.writer.bind(stem, self.lower(value))

    @contextmanager
    def loop(
        self, stem: str, extent: IndexLike, parallel: bool = False, unrolled: bool = False
    ) -> Iterator[Index]:
        """``for stem in range(extent)``, as an index; parallel unless it is inside of one."""
        outer = self.parallel
        # A loop in a parallel one is run by a single thread, whatever is asked for.
        self.parallel = outer or parallel
        with super().loop(stem, extent, parallel and not outer, unrolled) as index:
            yield index
        self.parallel = outer

    def when_any(self, count: Index) -> AbstractContextManager[None]:
        """Run what is written inside only where `count` is above 0, which a constant one is."""
        return self.writer.when(count.is_constant or self.lower(count) > 0)

    def spreads(self, elements: int) -> bool:
        """Whether a loop over so many elements is to be spread over the cores."""
        return elements >= PARALLEL_ELEMENTS and not self.parallel

    def divides(self, divisor: int, value: Index) -> bool:
        """Whether every value of an index is certainly a multiple of `divisor`."""
        return divisor_of(self.indices.expand(value)) % divisor == 0

    def values(self, value: Index) -> tuple[int, ...] | None:
        """All values that an index can take, ascending; None where they are too many to try."""
        value = self.indices.expand(value)
        return values_of(value, self.indices.ranges)


def values_of(value: Index, ranges: Mapping[Var, Range]) -> tuple[int, ...] | None:
    """All values of `value` over `ranges`, ascending; None where there are too many, or unknown."""
    if any(True for _ in value.sizes()):
        return None
    # An element of the caller's integers may be any that it can be, whatever the others are.
    own = {e: Var(f"element {n}") for n, e in enumerate(dict.fromkeys(value.elements()))}
    ranges = {**ranges, **{v: (0, max(0, e.extent - 1)) for e, v in own.items()}}
    value = value.substitute(own)
    variables = sorted(value.variables(), key=str)
    spans = [range(ranges[v][0], ranges[v][1] + 1) for v in variables]
    if math.prod(map(len, spans)) > MOST_VALUES:
        return None
    found = {
        value.evaluate(dict(zip(variables, point, strict=True)))
        for point in itertools.product(*spans)
    }
    return tuple(sorted(found))
