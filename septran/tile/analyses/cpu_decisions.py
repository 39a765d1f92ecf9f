"""Decisions of the CPU's code that its performance model has to know: cores, streamed stores."""

from __future__ import annotations

import math
from collections.abc import Mapping

from septran.dtypes import itemsize
from septran.ir.index import Range, Var
from septran.tile.analyses.loops import trips, walk
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    TileProgram,
    reads,
    regions,
    writes,
)

PARALLEL_WORK = 1 << 15
"""The number of operations below which waking other threads costs more than it saves."""
GEMM_RATE = 12
"""The multiply-adds of a product in the time of another operation."""


def work_of(loop: For, known: Mapping[Var, Range]) -> int:
    """About how many operations all iterations do together, where loops around are bounded."""
    total = 0
    for node, around in walk((loop,)):
        if isinstance(node, Compute | Copy):
            each = max((math.prod(r.shape) for r in regions(node)), default=0)
            if isinstance(node, Compute) and node.primitive == "gemm":
                each = each * node.operands[1].shape[1] // GEMM_RATE
            total += each * trips(around, known)
    return total


def streamed(program: TileProgram, buffer: Buffer) -> bool:
    """Return whether a buffer is written past the caches.

    Such a buffer is only written, by vectors, and exceeds the caches.
    """
    caches = [m.capacity_bytes or 0 for m in program.machine.memories if m.cached]
    if math.prod(buffer.shape) * itemsize(buffer.dtype) < max(caches, default=math.inf):
        return False
    for node, _ in walk(program.body):
        if any(r.buffer == buffer.name for r in reads(node)):
            return False
        gemm = isinstance(node, Compute) and node.primitive == "gemm"
        if gemm and any(r.buffer == buffer.name for r in writes(node)):
            return False
    return True
