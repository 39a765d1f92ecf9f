"""Which loops are worth more than one core."""

from __future__ import annotations

import math
from collections.abc import Mapping

from septran.ir.index import Range, Var
from septran.tile.analyses.loops import trips, walk
from septran.tile.nodes import Compute, Copy, For, regions

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
