"""Work-items and OpenCL C, where they are otherwise than CUDA's threads and C++."""

from __future__ import annotations

from septran.targets.cuda.dialect import Dialect
from septran.targets.lower.writer import Expr, Writer

WORK_ITEMS = 128
"""Of a work-group. A driver may allow fewer, which a call then says."""


def _partner(writer: Writer, dtype: str, value: Expr, stride: int) -> Expr:
    del writer, dtype, value, stride
    raise AssertionError("no lanes exchange values where each work-item is alone")


# No sub-groups, which are optional in every version: what work-items exchange goes through local
# memory, with a barrier.
OPENCL = Dialect(lanes=1, partner=_partner, power="", pairs=False, smallest=WORK_ITEMS)
