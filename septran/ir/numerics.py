"""Functions and conversions of elements in NumPy: the meaning that all executors share.

They are NumPy's own, except where NumPy refuses or leaves the result to the processor: conversions
of floats beyond the range of the integer type, and integer powers with negative exponents.
`docs/language.md` has the table of corner values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_NEAR = float(2**62)
"""The magnitude below which a float's integer part fits int64, with room to spare."""
_LONG = float(2**48)
"""The magnitude from which on the last bits of an integer are joined before float64 rounds it."""
_STICKY = 20
"""The number of low bits of such an integer that no 16-bit float can represent."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def power(x: Any, y: Any) -> Any:
    """Return NumPy's power, modulo the integer type; negative exponents give 1, -1 or 0.

    For a negative integer exponent only the bases 1 and -1 have an integer result; others give 0.
    """
    if np.result_type(x, y).kind != "i":
        return np.power(x, y)
    x, y = np.broadcast_arrays(x, y)
    below = y < 0
    base = np.where(below & (x != 1) & (x != -1), np.zeros_like(x), x)
    return np.power(base, np.where(below, 2 - (y & 1), y))  # of a unit only the parity counts


def _integral(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a rounding function that keeps integers, which some of NumPy's turn into floats."""
    return lambda x: x if np.asarray(x).dtype.kind in "iub" else function(x)


UNARY: Mapping[str, Callable[[Any], Any]] = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log,
    "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": lambda x: _erf(x).astype(x.dtype),
    "sin": np.sin, "cos": np.cos, "floor": _integral(np.floor), "ceil": _integral(np.ceil),
    "round": _integral(np.rint), "not": np.logical_not, "invert": np.invert,
}  # fmt: skip
BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": power,
    "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "left_shift": np.left_shift, "right_shift": np.right_shift,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip


def identity(function: str, dtype: np.dtype[Any]) -> Any:
    """Return the result of an empty maximum or minimum."""
    if dtype.kind == "b":
        return function == "min"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if function == "max" else info.max
    return -np.inf if function == "max" else np.inf


def convert(values: Any, dtype: np.dtype[Any]) -> Array:
    """Return `values` converted to `dtype`, unchanged if they have it."""
    array = np.asarray(values)
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and array.dtype.kind not in "iub":
            return _whole(array, dtype)
        # A conversion from float64 through float32 would round twice.
        if is_short(dtype):
            array = _once(array)
        return array.astype(dtype)


def is_short(dtype: np.dtype[Any]) -> bool:
    """Return whether `dtype` is a float of 16 or 8 bits."""
    return dtype.kind not in "iub" and dtype.itemsize <= 2


def _whole(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return the integer part, modulo the type's power of two; 0 for infinities and NaN."""
    x = x.astype(np.float64)
    # C leaves the conversion of what does not fit undefined, and processors differ.
    if not np.all(np.abs(x) < _NEAR):
        x = np.where(np.isfinite(x), x, 0.0)
        x = np.fmod(x, 2.0**64)
        size = np.abs(x).astype(np.uint64)
        return np.where(x < 0, np.negative(size), size).astype(dtype)
    return x.astype(np.int64).astype(dtype)


def _once(x: Array) -> Array:
    """Return float32 values whose rounding to 16 bits equals rounding the originals once."""
    if x.dtype.itemsize <= 2 or x.dtype == np.float32:
        return x.astype(np.float32, copy=False)
    return odd_single(_shortened(x).astype(np.float64))


def _shortened(x: Array) -> Array:
    """Integers that float64 represents; the low bits of longer ones become one sticky bit."""
    if x.dtype.kind not in "iu" or x.dtype.itemsize < 8:
        return x
    one = x.dtype.type(1)
    low = x & ((one << _STICKY) - one)
    joined = (x - low) | np.where(low != 0, one << (_STICKY - 1), one - one)
    near = (x.astype(np.float64) < _LONG) & (x.astype(np.float64) > -_LONG)
    return np.where(near, x, joined)


def odd_single(x: Array) -> Array:
    """Return float64 as float32, rounded to odd: a value between two numbers becomes the odd one.

    Rounding that to fewer bits equals rounding once (Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums", 2008).
    """
    near = x.astype(np.float32)
    back, bits = near.astype(np.float64), near.view(np.uint32)
    between = np.isfinite(near) & (back != x) & (bits & 1 == 0)
    other = np.where(np.abs(back) < np.abs(x), bits + np.uint32(1), bits - np.uint32(1))
    return np.where(between, other, bits).astype(np.uint32).view(np.float32)
