"""Element types by name: sizes, promotion, NumPy equivalents.

`TYPES` has all that the compiler knows of a type in general; each target decides how it holds a
type, and refuses those that it cannot.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Dtype:
    """One element type; floats have an implied leading bit and subnormals, as in IEEE 754."""

    name: str
    kind: Literal["float", "signed", "unsigned", "bool"]
    bits: int
    exponent: int = 0
    """The number of exponent bits of a float."""
    fraction: int = 0
    """The number of fraction bits of a float, without the implied leading one."""
    infinity: bool = True
    """Whether a float type has infinities; where it has none, an overflow becomes NaN."""
    foreign: bool = False
    """Whether NumPy gets the type from ml_dtypes, a dependency of TVM."""


TYPES = {
    known.name: known
    for known in (
        Dtype("float16", "float", 16, 5, 10),
        Dtype("bfloat16", "float", 16, 8, 7, foreign=True),
        Dtype("float32", "float", 32, 8, 23),
        Dtype("float64", "float", 64, 11, 52),
        Dtype("float8_e4m3fn", "float", 8, 4, 3, infinity=False, foreign=True),
        *(Dtype(f"int{bits}", "signed", bits) for bits in (8, 16, 32, 64)),
        *(Dtype(f"uint{bits}", "unsigned", bits) for bits in (8, 16, 32, 64)),
        Dtype("bool", "bool", 8),
    )
}
"""The table of element types.

A new type is an entry here, a name in `septran.task`, and code in the targets.
"""

ALL = tuple(TYPES)
FLOATS = tuple(t.name for t in TYPES.values() if t.kind == "float")
SHORT = tuple(name for name in FLOATS if TYPES[name].bits < 32)
"""Floats of 16 and 8 bits; arithmetic on them is done in float32."""

POISON = 0xFF
"""The byte of memory that nobody has written: NaN in every float type, -1 in signed integers."""
C_TYPES: Mapping[str, str] = {
    "bool": "uint8_t", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
    "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double", "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t",
}  # fmt: skip
"""C types of elements; short floats are their bits."""


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return TYPES[dtype].bits // 8


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a floating-point type."""
    return dtype in FLOATS


def has_infinity(dtype: str) -> bool:
    """Return whether a type has infinities, as all floats but some of 8 bits do."""
    return dtype not in TYPES or TYPES[dtype].infinity


def unit_roundoff(dtype: str) -> float:
    """Return half the gap between 1 and the next number; 0 for integers, which are exact."""
    return 2.0 ** -(TYPES[dtype].fraction + 1) if is_float(dtype) else 0.0


def least_subnormal(dtype: str) -> float:
    """The smallest positive number of a float type."""
    known = TYPES[dtype]
    # The least normal number is 2 ** (2 - 2 ** (exponent - 1)), as IEEE 754 has its bias.
    return float(2.0 ** (2 - 2 ** (known.exponent - 1) - known.fraction))


def compute_dtype(dtype: str) -> str:
    """Return the type in which arithmetic on `dtype` is done: float32 for 16- and 8-bit floats."""
    return "float32" if dtype in SHORT else dtype


def accumulator_dtype(dtype: str) -> str:
    """Return the type in which products of `dtype` are summed: int32 for 8- and 16-bit integers."""
    if dtype in ("int8", "uint8", "int16", "uint16", "bool"):
        return "int32"
    return compute_dtype(dtype)


@functools.cache
def promote(*dtypes: str) -> str:
    """Return the common type of `dtypes`.

    For floats it is the smallest type with at least their exponent and fraction bits: float16 and
    bfloat16 meet in float32. An integer does not widen a float, as in torch. Integers alone follow
    NumPy.
    """
    if len(set(dtypes)) == 1:
        return dtypes[0]
    floats = [TYPES[d] for d in dtypes if is_float(d)]
    if not floats:
        return str(np.result_type(*sorted(set(dtypes))))
    exponent, fraction = max(f.exponent for f in floats), max(f.fraction for f in floats)
    wide = [t for t in TYPES.values() if t.exponent >= exponent and t.fraction >= fraction]
    return min(wide, key=lambda t: t.bits).name


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return the NumPy type of the same bits (bfloat16 and float8 are from ml_dtypes)."""
    if dtype in TYPES and TYPES[dtype].foreign:
        import ml_dtypes  # imported late to keep imports fast

        foreign: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
        return foreign
    return np.dtype(dtype)


def bits_dtype(dtype: str) -> str | None:
    """The integer type through which NumPy and torch exchange `dtype`, None if not needed."""
    known = TYPES.get(dtype)
    return f"int{known.bits}" if known and known.foreign else None
