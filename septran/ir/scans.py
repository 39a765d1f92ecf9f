"""Scans: what comes of the elements up to each one along an axis, by an associative function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from septran.dtypes import accumulator_dtype, compute_dtype
from septran.ir.numerics import identity

Array = np.ndarray[Any, Any]

JOINS: Mapping[str, str] = {
    "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"
}  # fmt: skip
"""The functions of scans, each with the binary function that joins two parts."""
_UFUNCS: Mapping[str, Callable[..., Any]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum
}  # fmt: skip


def scan_dtype(function: str, dtype: str) -> str:
    """Return the type in which elements of `dtype` are joined, and in which a scan's result is."""
    wide = function in ("sum", "prod") or dtype == "bool"
    return accumulator_dtype(dtype) if wide else compute_dtype(dtype)


def neutral(function: str, dtype: str) -> float | int:
    """Return what changes nothing: 0 for sums, 1 for products, for a maximum the least value."""
    if function in ("sum", "prod"):
        return int(function == "prod")
    kind = np.dtype(dtype)
    found: float | int = np.asarray(identity(function, kind), kind).item()
    return found


def shifted(x: Array, axis: int, first: float | int) -> Array:
    """Return the elements one place further along an axis, where it begins with `first`."""
    begin = np.full_like(np.take(x, [0], axis), first) if x.shape[axis] else x
    rest = x[(slice(None),) * axis + (slice(None, -1),)]
    return np.concatenate([begin, rest], axis=axis)


def scanned(
    x: Array, function: str, axis: int, reverse: bool = False, exclusive: bool = False
) -> Array:
    """Return a scan in the elements' own type; integers wrap."""
    along = np.flip(x, axis) if reverse else x
    if exclusive:
        along = shifted(along, axis % x.ndim, neutral(function, str(x.dtype)))
    with np.errstate(all="ignore"):
        found: Array = _UFUNCS[function].accumulate(along, axis=axis, dtype=x.dtype)  # type: ignore[attr-defined]
    return np.flip(found, axis) if reverse else found
