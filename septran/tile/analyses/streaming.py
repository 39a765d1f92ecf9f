"""Outputs that are written past the caches."""

from __future__ import annotations

import math

from septran.dtypes import itemsize
from septran.tile.analyses.loops import walk
from septran.tile.nodes import Buffer, Compute, TileProgram, reads, writes


def streamed(program: TileProgram, buffer: Buffer) -> bool:
    """Return whether a buffer is only written, by vectors, and exceeds the caches."""
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
