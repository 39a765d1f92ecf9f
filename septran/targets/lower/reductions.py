"""What reductions are on any target."""

from __future__ import annotations

import math

from septran.dtypes import is_float


def identity(function: str, dtype: str) -> float | int:
    """What changes nothing: 0 for a sum, the least value for a maximum."""
    if function == "sum":
        return 0
    if is_float(dtype):
        return -math.inf if function == "max" else math.inf
    if dtype == "bool":
        return function == "min"
    size = int("".join(c for c in dtype if c.isdigit()))
    signed = dtype[0] == "i"
    low, high = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if signed else (0, 2**size - 1)
    return low if function == "max" else high
