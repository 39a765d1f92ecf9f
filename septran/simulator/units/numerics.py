"""Numbers as the units compute with them: conversions, functions, products."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from septran.dtypes import numpy_dtype
from septran.ir import numerics
from septran.ir.numerics import convert
from septran.simulator.commands import DTYPES

Array = np.ndarray[Any, Any]

_FLOAT8 = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
TYPES: tuple[np.dtype[Any], ...] = tuple(
    np.dtype(_FLOAT8[name]) if name in _FLOAT8 else numpy_dtype(name) for name in DTYPES
)
"""NumPy's types by number."""
NARROW = frozenset(
    n for n, name in enumerate(DTYPES) if name in ("float16", "bfloat16") or name in _FLOAT8
)
"""Floats that are computed with in float32 and rounded once."""
HALF, SINGLE = np.dtype("float16"), np.dtype("float32")

UNARY: Mapping[str, Callable[[Any], Any]] = {**numerics.UNARY, "erf": lambda x: erf(x)}
BINARY = numerics.BINARY
REDUCTIONS: Mapping[str, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def wide(number: int) -> np.dtype[Any]:
    """The type that arithmetic on a dtype is done in."""
    return SINGLE if number in NARROW else TYPES[number]


def immediate(bits: int, number: int) -> Any:
    """A `VALUE` argument as a number of its dtype, widened for arithmetic."""
    kind = TYPES[number]
    if kind.kind in "iub":
        return np.array(bits).astype(kind)[()]
    value = struct.unpack("<d", struct.pack("<q", bits))[0]
    return convert(convert(value, kind), wide(number))[()]


def identity(function: str, kind: np.dtype[Any]) -> Any:
    """Return what a reduction of nothing is."""
    if function == "sum":
        return kind.type(0)
    if kind.kind == "b":
        return function == "min"
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return info.min if function == "max" else info.max
    return -np.inf if function == "max" else np.inf


_SHIFT = np.float32(2.0**112)
_SIGN_AND_REST = np.int32(-0x70002000)
"""0x8fffe000: the sign, and the other 15 bits 13 places up."""


def to_single(x: Array) -> Array:
    """A copy in float32; of float16 in a fifth of the time that NumPy takes.

    The bits of a float16, moved 13 places up, are a float32 that is 2**112 times too
    small; only infinities and NaN are not, and then NumPy converts.
    """
    if x.dtype != HALF:
        return x.astype(SINGLE)
    bits = x.view(np.int16).astype(np.int32)
    bits <<= 13
    # The sign is in bits 28 to 31 now, as int16 was widened with it; only the last may stay.
    bits &= _SIGN_AND_REST
    result: Array = bits.view(SINGLE)
    result *= _SHIFT
    # The largest finite float16 is 65504; the exponent of infinities and NaN gives 2**16 and more.
    if result.size and (result.max() >= 65536 or result.min() <= -65536):
        return x.astype(SINGLE)
    return result


def product_type(c: int, ab: int, k: int) -> np.dtype[Any]:
    """A type in which BLAS sums `k` products, exactly where they are integers."""
    kind = TYPES[ab]
    if kind.kind in "iub":
        # float32 has all integers up to 2**24; a product of int8 is at most 2**14, of uint8
        # below 2**16.
        if kind.itemsize == 1 and k * 2 ** (14 if kind.kind == "i" else 16) <= 2**24:
            return SINGLE
        return np.dtype("float64" if kind.itemsize <= 2 else TYPES[c])
    return np.promote_types(wide(ab), wide(c))


_STEPS = 512
"""Points a unit at which `erf` and its derivatives are known."""
# From 6 on erf is 1 in float64.
_POINTS = np.arange(6 * _STEPS + 2) / _STEPS
_ERF = np.array([math.erf(x) for x in _POINTS])
_SLOPE = 2 / math.sqrt(math.pi) * np.exp(-_POINTS * _POINTS)


def erf(x: Array) -> Array:
    """The error function: a Taylor series around the nearest of many known points.

    Its relative error is below 1e-12; for float64 the standard library's is used.
    """
    if x.dtype == np.float64:
        values = [math.erf(v) for v in x.reshape(-1).tolist()]
        return np.array(values, np.float64).reshape(x.shape)
    size = np.minimum(np.abs(x).astype(np.float64), 6.0)
    near = np.where(np.isnan(size), 0.0, np.rint(size * _STEPS)).astype(np.int64)
    point = _POINTS[near]
    h = size - point
    # The next derivatives over the first one and 2!, 3!, 4!: -2x, 4x**2 - 2 and -8x**3 + 12x.
    second, third = -point, (4 * point * point - 2) / 6
    fourth = -(2 * point**3 - 3 * point) / 6
    series = h * (1 + h * (second + h * (third + h * fourth)))
    return np.copysign(_ERF[near] + _SLOPE[near] * series, x).astype(x.dtype)
