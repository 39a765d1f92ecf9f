"""Corner values: the rules for where arithmetic may differ, and values that reach these cases.

`docs/language.md` shows the table, and the tests try `corners` of all types on all executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.dtypes import SHORT, is_float, itemsize, least_subnormal, numpy_dtype

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CornerRule:
    """The result of one kind of operation at the corners of its types."""

    case: str
    result: str
    others: str
    """How NumPy, torch or C differ, or that NumPy agrees."""


RULES = (
    CornerRule(
        "integers: `+`, `-`, `*`, `**`, sums, products, `-x`, `abs(x)`",
        "modulo 2^bits, as two's complement",
        "as NumPy; in C, undefined",
    ),
    CornerRule(
        "integer to a shorter or unsigned integer",
        "modulo 2^bits",
        "as NumPy",
    ),
    CornerRule(
        "float to integer",
        "the integer part, modulo 2^bits; 0 for NaN and infinities",
        "as NumPy where the type, or for unsigned types int64, has the integer part; beyond, "
        "NumPy gives what the processor does, C and CUDA nothing or the type's end",
    ),
    CornerRule(
        "to `bool`",
        "whether it is not 0; NaN is true",
        "as NumPy",
    ),
    CornerRule(
        "to a float",
        "rounded once, to nearest, ties to even; beyond the largest number infinity, "
        "in float8_e4m3fn NaN",
        "NumPy and torch round float64 and long integers to bfloat16 twice",
    ),
    CornerRule(
        "integers: `x // 0`, `x % 0`",
        "0",
        "as NumPy; in C a fault",
    ),
    CornerRule(
        "the least integer `// -1`, `% -1`",
        "itself, and 0",
        "as NumPy; in C a fault",
    ),
    CornerRule(
        "integers: `x << n`, `x >> n` of n < 0 or n >= bits",
        "0; -1 for `>>` of a negative number",
        "as NumPy; in C, undefined",
    ),
    CornerRule(
        "integers: `x ** n` of n < 0",
        "1 for 1, 1 or -1 for -1, else 0",
        "as torch; NumPy refuses",
    ),
    CornerRule(
        "floats: `x // 0`, `x % 0`",
        "`x / 0`, and NaN",
        "as NumPy",
    ),
    CornerRule(
        "floats: `x // y`, `x % y`",
        "rounded down, `x % y` with y's sign, also of 0 and infinities: `1.0 // -inf` is -1, "
        "`1.0 % -inf` is -inf, `-4.0 % 2.0` is 0.0, `4.0 % -2.0` is -0.0",
        "as NumPy",
    ),
    CornerRule(
        "`maximum`, `minimum`, `max`, `min` of NaN",
        "NaN",
        "as NumPy",
    ),
    CornerRule(
        "`maximum`, `minimum`, `max`, `min` of 0.0 and -0.0",
        "either",
        "as NumPy",
    ),
    CornerRule(
        "comparisons with NaN",
        "false; `!=` true",
        "as NumPy",
    ),
    CornerRule(
        "`round`",
        "to nearest, halves to even; zeros keep their sign, as of `floor` and `ceil`",
        "as NumPy",
    ),
    CornerRule(
        "`bool`: `+`, `maximum`; `*`, `minimum`",
        "or; and",
        "as NumPy",
    ),
    CornerRule(
        "`bool`: `-`, `//`, `%`, `**`, `<<`, `>>` of two",
        "refused (SEP106)",
        "NumPy refuses `-` alone",
    ),
    CornerRule(
        "which NaN: its sign and its bits",
        "any",
        "as NumPy",
    ),
)  # fmt: skip


def table() -> str:
    """Return the rules as a table in Markdown."""
    rows = [f"| {rule.case} | {rule.result} | {rule.others} |" for rule in RULES]
    return "\n".join(["| of | result | others |", "| --- | --- | --- |", *rows])


def corners(dtype: str) -> Array:
    """Return the values of a type at which conversions and functions may differ."""
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return np.array([False, True])
    return _floats(dtype, kind) if is_float(dtype) else _integers(kind)


def _integers(kind: np.dtype[Any]) -> Array:
    """Return the ends of this and of shorter types' ranges, with their neighbours."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    found = {0, 1, -1, 2, 3, 7, -2, -3, low, low + 1, high, high - 1}
    # Powers of two at the ends of integer types, and of the significands of bfloat16 (8 bits),
    # float32 (24) and float64 (53).
    for bits in (7, 8, 15, 16, 24, 31, 32, 53, 63):
        found |= {2**bits - 1, 2**bits, 2**bits + 1, -(2**bits), -(2**bits) - 1, 1 - 2**bits}
    for top in (30, 40, 62):  # half-way between two of bfloat16, but for the last digit
        found |= {
            2**top + 2 ** (top - 8) + 1,
            2**top + 2 ** (top - 8),
            -(2**top) - 3 * 2 ** (top - 8) + 1,
        }
    return np.array(sorted(n for n in found if low <= n <= high), kind)


def _floats(dtype: str, kind: np.dtype[Any]) -> Array:
    """Return zeros, halves, subnormals, infinities, NaN, and neighbours of integer types' ends."""
    found = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 0.1, 1e-3, 7.0, 300.0, 463.0, 465.0, 65519.0]
    found += [65521.0, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-4 + 2.0**-40]
    # Beyond these powers of two a conversion to the integer type of so many bits wraps around.
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        found += [2.0**bits - 1, 2.0**bits - 0.5, 2.0**bits, 2.0**bits + 1, 1.5 * 2.0**bits]
    found += [2.0**80 + 2.0**40, 3e38, 1e300, float("inf"), float("nan")]
    least = least_subnormal(dtype if dtype in SHORT else "float32")
    found += [least, 3 * least]
    with np.errstate(over="ignore"):
        values = np.array([*found, *(-x for x in found)]).astype(kind)
    top = 2 ** (itemsize(dtype) * 8 - 1)
    codes = values.view(f"u{kind.itemsize}")
    return np.array(sorted({int(c) for c in codes}, key=lambda c: (c % top, c)), codes.dtype).view(
        kind
    )
