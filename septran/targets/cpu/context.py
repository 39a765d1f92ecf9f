"""What every emitter needs: the writer, the buffers, the loop indices, the vector unit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from septran.machine.model import Machine
from septran.targets.cpu.addresses import Access, Indices, Storage
from septran.targets.cpu.simd import VectorUnit
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.writer import Expr
from septran.task.atoms import Max, Min
from septran.task.index import Index, IndexLike, Range, Var
from septran.tile.nodes import Region

if TYPE_CHECKING:
    from septran.targets.cpu.ahead import Ahead

MOST_VALUES = 4096
"""Combinations of loop indices that are tried to list an index's values."""


@dataclass
class Context:
    """The state of one lowering."""

    writer: CpuWriter
    indices: Indices
    machine: Machine
    unit: VectorUnit
    storages: dict[str, Storage] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    coming: dict[str, Ahead] = field(default_factory=dict)
    """What the next iteration of the loop around packs, by the buffer it goes to."""
    parallel: bool = False
    """Whether a parallel loop is open: TVM's pool does not nest."""

    def cache_bytes(self, of: str | None = None) -> float:
        """Capacity of the largest cache, or of the largest that a processor has to itself."""
        sizes = (
            m.capacity_bytes or 0
            for m in self.machine.memories
            if m.cached and (of is None or m.visible_to == of)
        )
        return max(sizes, default=math.inf)

    def access(self, region: Region) -> Access:
        """The region's storage and offsets."""
        return Access.of(self.storages[region.buffer], region, self.indices.ranges)

    def lower(self, value: IndexLike) -> Expr:
        """An index as a TensorIR integer."""
        return self.indices.lower(value)

    def bound(self, stem: str, value: IndexLike) -> Expr:
        """An index as a TensorIR variable, computed once."""
        return self.writer.bind(stem, self.lower(value))

    def variable(self, stem: str, value: IndexLike) -> Index:
        """An index that is computed here, once, and stands for its value from now on."""
        simple = self.indices.simplify(Index.of(value))
        if simple.is_constant or (len(simple.terms) == 1 and isinstance(simple.terms[0][0], Var)):
            return simple
        low, high = simple.bounds(self.indices.ranges)
        fresh = self.indices.fresh(self.bound(stem, simple), low, high)
        self.indices.meanings[fresh] = simple
        return Index.of(fresh)

    @contextmanager
    def loop(
        self, stem: str, extent: IndexLike, parallel: bool = False, unrolled: bool = False
    ) -> Iterator[Index]:
        """``for stem in range(extent)``, as an index."""
        top = self.indices.simplify(Index.of(extent))
        most = self.indices.bounds(top)[1]
        bound = top.constant if top.is_constant else self.lower(top)
        outer = self.parallel
        self.parallel = outer or parallel
        with self.writer.loop(stem, bound, parallel and not outer, unrolled) as variable:
            if most == 1:
                yield Index()
            else:
                yield Index.of(self.indices.fresh(variable, 0, most - 1))
        self.parallel = outer

    def alias(self, variable: Var, value: Index) -> None:
        """Let a loop index of the program stand for `value` from now on."""
        low, high = self.indices.bounds(value)
        self.indices.bind(variable, self.lower(value), low, high)
        self.indices.meanings[variable] = value

    def divides(self, divisor: int, value: Index) -> bool:
        """Whether every value of an index is certainly a multiple of `divisor`."""
        return divides(divisor, self.indices.expand(value))

    def values(self, value: Index) -> tuple[int, ...] | None:
        """All values that an index can take, ascending; None where they are too many to try."""
        value = self.indices.expand(value)
        return values_of(value, self.indices.ranges)


def divides(divisor: int, value: Index) -> bool:
    """Whether every term of an index is a multiple of `divisor`, whatever its variables are."""
    return value.constant % divisor == 0 and all(
        factor % divisor == 0
        or (
            isinstance(atom, Min | Max)
            and all(divides(divisor // math.gcd(divisor, factor), o) for o in atom.operands)
        )
        for atom, factor in value.terms
    )


def values_of(value: Index, ranges: Mapping[Var, Range]) -> tuple[int, ...] | None:
    """All values of `value` over `ranges`, ascending; None where there are too many."""
    variables = sorted(value.variables(), key=str)
    spans = [range(ranges[v][0], ranges[v][1] + 1) for v in variables]
    if math.prod(map(len, spans)) > MOST_VALUES:
        return None
    found = {
        value.evaluate(dict(zip(variables, point, strict=True)))
        for point in itertools.product(*spans)
    }
    return tuple(sorted(found))
