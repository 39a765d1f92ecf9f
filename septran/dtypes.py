"""Element types by name: sizes, promotion, NumPy equivalents."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn")
SHORT = ("float16", "bfloat16", "float8_e4m3fn")
"""Floats of 16 and 8 bits: arithmetic on them is done in float32."""
_FOREIGN = ("bfloat16", "float8_e4m3fn")
"""Types that NumPy has from ml_dtypes, a dependency of TVM."""
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
ALL = (*FLOATS, *SIGNED, *UNSIGNED, "bool")

_BYTES = {"bfloat16": 2, "bool": 1, "float8_e4m3fn": 1}
_EPSILON = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    if dtype in _BYTES:
        return _BYTES[dtype]
    return int(dtype.lstrip("uintfloa")) // 8


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype in FLOATS


def has_infinity(dtype: str) -> bool:
    """Whether a float type has infinities; what is too large becomes NaN in one without."""
    return dtype != "float8_e4m3fn"


def unit_roundoff(dtype: str) -> float:
    """Half the gap between 1 and the next number; 0 for exact (integer) types."""
    return _EPSILON.get(dtype, 0.0)


def compute_dtype(dtype: str) -> str:
    """The type in which arithmetic on `dtype` is done: 16- and 8-bit floats in float32."""
    return "float32" if dtype in SHORT else dtype


def accumulator_dtype(dtype: str) -> str:
    """The type in which products of `dtype` are summed: 8- and 16-bit integers in int32."""
    if dtype in ("int8", "uint8", "int16", "uint16", "bool"):
        return "int32"
    return compute_dtype(dtype)


@functools.cache
def promote(*dtypes: str) -> str:
    """The common type, as NumPy's, with bfloat16 + float16 = float32; 8-bit floats give way."""
    kinds = set(dtypes)
    if len(kinds) == 1:
        return dtypes[0]
    if "float8_e4m3fn" in kinds:  # each float has all of its numbers
        rest = {d for d in kinds if is_float(d)} - {"float8_e4m3fn"}
        return promote(*sorted(rest)) if rest else "float8_e4m3fn"
    if "bfloat16" in kinds:
        rest = {d for d in kinds if d != "bfloat16" and is_float(d)}
        return "bfloat16" if not rest else promote("float32", *rest)
    floats = [d for d in kinds if is_float(d)]
    if floats:  # as in torch, an integer does not widen a float
        return str(np.result_type(*floats))
    return str(np.result_type(*kinds))


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type of the same bits (bfloat16 and float8 from ml_dtypes)."""
    if dtype in _FOREIGN:
        import ml_dtypes  # imported late to keep imports fast

        foreign: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
        return foreign
    return np.dtype(dtype)


def bits_dtype(dtype: str) -> str | None:
    """The integers that hold its bits, of a type that NumPy and torch exchange by them only."""
    return {"bfloat16": "int16", "float8_e4m3fn": "int8"}.get(dtype)
