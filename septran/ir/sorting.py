"""The order of the elements of rows: NaN is the greatest, equal ones stay in their order."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def order(x: Array, *, descending: bool) -> Array:
    """Return the places of the elements along the last axis, the least or the greatest first."""
    # Types of ml_dtypes are of kind V, and not sorted by NumPy; float32 has all their numbers.
    known = x.astype(np.float32) if x.dtype.kind == "V" else x
    if not descending:
        return np.argsort(known, axis=-1, kind="stable")
    last = x.shape[-1] - 1
    # From the end on, so that among equals the first is the last of an ascending order.
    found: Array = last - np.argsort(known[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return found


def first_in_order(x: Array, count: int, *, descending: bool) -> Array:
    """Return the first `count` elements of each row in that order."""
    return np.take_along_axis(x, order(x, descending=descending)[..., :count], axis=-1)
