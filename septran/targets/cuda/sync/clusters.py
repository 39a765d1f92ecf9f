"""Clusters: blocks that run at the same time and write into each other's shared memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.ir.index import Index, Var
from septran.targets.cuda.context import Context
from septran.targets.cuda.text.ptx import ptx
from septran.targets.lower.writer import Expr
from septran.tile.nodes import For

Over = tuple[tuple[Var, int], ...]
"""Loops over blocks of a cluster, with their extents."""
ARRIVALS = {
    False: ("septran_remote_arrive", ""),
    True: ("septran_remote_release", ".release.cluster"),
}
"""Name and qualifiers of an arrival in another block, by whether it releases what threads did.

What PTX takes without qualifiers is `.release.cta`. For the other block that orders nothing,
and nothing is left to order where wgmma alone read the stage: its reads are complete when
`wgmma.wait_group` returns. CUTLASS's `ClusterBarrier::arrive` is this instruction, too. Reads
of threads are ordered by `.release.cluster`, which nvcc makes a barrier of the whole GPU's
memory (`MEMBAR.ALL.GPU`) before the arrival.
"""
REMOTE_ARRIVE = """\
__forceinline__ __device__ void {name}(unsigned barrier, unsigned rank) {{
  unsigned remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(barrier), "r"(rank));
  asm volatile("mbarrier.arrive{order}.shared::cluster.b64 _, [%0];" : : "r"(remote) : "memory");
}}
"""


@dataclass(frozen=True)
class Cluster:
    """The loops over the blocks of a kernel's clusters: the innermost ones of its grid."""

    loops: Over = ()

    @staticmethod
    def of(loops: Iterable[For]) -> Cluster:
        """Those of a kernel's parallel loops that are clusters."""
        return Cluster(tuple((n.variable, n.extent.as_int()) for n in loops if n.cluster))

    @property
    def size(self) -> int:
        """Blocks of one."""
        return math.prod(extent for _, extent in self.loops)

    @property
    def strides(self) -> Mapping[Var, int]:
        """The distance between the ranks of neighbours along each loop; the last is innermost."""
        found, stride = {}, 1
        for variable, extent in reversed(self.loops):
            found[variable], stride = stride, stride * extent
        return found

    def rank(self, shifts: Mapping[Var, int] | None = None) -> Index:
        """This block's rank, or that of the block so many steps on (around) along each loop."""
        total, strides = Index(), self.strides
        for variable, extent in self.loops:
            step = (shifts or {}).get(variable, 0)
            # Around: whoever is last along a loop has the first one for its neighbour.
            digit = (Index.of(variable) + step) % extent if step else Index.of(variable)
            total = total + digit * strides[variable]
        return total

    def part(self, over: Over) -> Index:
        """Return which of the blocks that share a copy this one is."""
        total = Index()
        for variable, extent in over:
            total = total * extent + variable
        return total

    def mask(self, context: Context, over: Over) -> Expr:
        """The blocks that share a copy with this one, as a multicast's mask."""
        strides, names = self.strides, dict(over)
        pattern = 0
        for digits in itertools.product(*(range(extent) for _, extent in over)):
            steps = (strides[v] * n for v, n in zip(names, digits, strict=True))
            # PTX ISA, `.multicast::cluster`: bit r stands for the block of rank r.
            pattern |= 1 << sum(steps)
        shift = Index()
        for variable, _ in self.loops:
            if variable not in names:
                shift = shift + Index.of(variable) * strides[variable]
        if shift.is_constant:
            return T.uint16(pattern)
        # The pattern is that of rank 0's neighbours; the loops that do not share shift it.
        moved = T.shift_left(T.uint32(pattern), T.Cast("uint32", context.lower(shift)))
        return T.Cast("uint16", moved)

    def peers(self, shared: Iterable[Over]) -> tuple[Mapping[Var, int], ...]:
        """Steps to each block that writes to this one's memory, itself first."""
        found: dict[tuple[tuple[Var, int], ...], None] = {(): None}
        for over in shared:
            for digits in itertools.product(*(range(extent) for _, extent in over)):
                steps = zip((v for v, _ in over), digits, strict=True)
                found[tuple(sorted(((v, n) for v, n in steps if n), key=str))] = None
        return tuple(dict(steps) for steps in found)


def meet(context: Context) -> None:
    """All threads of all blocks of a cluster meet."""
    ptx(context, "barrier.cluster.arrive.release")
    ptx(context, "barrier.cluster.wait.acquire")


def remote_arrive(context: Context, barrier: Any, rank: Expr, release: bool) -> None:
    """One arrival at the mbarrier of another block that is where `barrier` is in this one.

    `release` orders before it what this block's threads read and wrote themselves.
    """
    name, order = ARRIVALS[release]
    text = REMOTE_ARRIVE.format(name=name, order=order)
    at = T.cuda.cvta_generic_to_shared(barrier)
    call = T.cuda.func_call(name, at, T.Cast("uint32", rank), source_code=text)
    context.writer.evaluate(call)
