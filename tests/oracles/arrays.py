"""Arrays of any element type with the values at which functions break, and NumPy's answers.

After the tests of the Python array API standard: every function of elements that the standard
and the language both have, on every element type, on arrays that Hypothesis draws and on all
pairs of corner values. NumPy computes in float64 (float64 itself in extended precision), and
integers in their own type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as extra

from septran.dtypes import is_float, numpy_dtype
from tests.oracles import language
from tests.oracles.judging import Array, Sample

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = (*FLOATS, *INTEGERS, "bool")

UNARY: Mapping[str, Callable[[Any], Any]] = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "log2": np.log2,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "round": np.round, "invert": np.invert, "square": np.square,
    "reciprocal": lambda x: 1 / x, "isnan": np.isnan, "isinf": np.isinf,
    "logical_not": np.logical_not,
}  # fmt: skip
BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "equal": np.equal, "not_equal": np.not_equal, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}  # fmt: skip
_TRUTH = ("isnan", "isinf", "logical_not", *(f for f in BINARY if "equal" in f), "less", "greater")
_WHOLE = ("invert", *(f for f in BINARY if "bitwise" in f or "shift" in f))
_NUMBERS = ("exp", "log", "log2", "sqrt", "sin", "cos", "tanh", "reciprocal", "divide")
"""What is a float, also of integers."""
_NOT_OF_TRUTH = (
    "neg", "subtract", "floor_divide", "remainder", "power", "left_shift", "right_shift", "abs",
    "floor", "ceil", "round",
)  # fmt: skip
"""What the standard leaves out for truth values."""


def covers(function: str, dtype: str) -> bool:
    """Whether the standard has the function in the element type."""
    if dtype == "bool":
        return function not in _NOT_OF_TRUTH
    return not (is_float(dtype) and function in _WHOLE)


def corners(dtype: str) -> Array:
    """The values at which functions of this type break."""
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return np.array([False, True])
    if not is_float(dtype):
        info = np.iinfo(dtype)
        bits = info.bits
        near = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, bits - 1, bits]
        return np.array([n for n in (*near, -1, -2, -7) if info.min <= n <= info.max], dtype)
    largest, least = (float(f(dtype)) for f in (_largest, _least))
    found = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, np.nan, np.inf, -np.inf)
    with np.errstate(all="ignore"):
        return np.array([*found, largest, -largest, least, -least]).astype(kind)


def _largest(dtype: str) -> float:
    from septran.runtime.rounding import largest

    return largest(dtype)


def _least(dtype: str) -> float:
    from septran.runtime.rounding import smallest

    return smallest(dtype)


@st.composite
def drawn(draw: Any, dtype: str) -> Array:
    """An array of any shape up to three axes, in one."""
    shape = draw(extra.array_shapes(min_dims=0, max_dims=3, max_side=5))
    special = st.sampled_from(corners(dtype).tolist())
    if dtype == "bool":
        elements = st.booleans()
    elif is_float(dtype):
        elements = special | st.floats(width=64 if dtype == "float64" else 32)
    else:
        info = np.iinfo(dtype)
        elements = special | st.integers(int(info.min), int(info.max))
    wide = dtype if dtype in ("bool", "float64") or not is_float(dtype) else "float32"
    found = draw(extra.arrays(wide, shape, elements=elements, fill=st.nothing()))
    with np.errstate(all="ignore"):
        return found.astype(numpy_dtype(dtype)).reshape(-1)


def pairs(dtype: str) -> tuple[Array, Array]:
    """Every corner value beside every other."""
    values = corners(dtype)
    left, right = np.meshgrid(values, values)
    return left.reshape(-1), right.reshape(-1)


def samples(dtype: str, a: Array, b: Array) -> Iterator[Sample]:
    """Every function on these operands, with NumPy's answer."""
    for name, function in UNARY.items():
        if covers(name, dtype):
            yield _sample(name, dtype, language.unary, (a,), function)
    for name, function in BINARY.items():
        if covers(name, dtype):
            yield _sample(name, dtype, language.binary, _within(name, a, b), function)


def _within(name: str, a: Array, b: Array) -> tuple[Array, Array]:
    """Operands for which the standard says what comes out."""
    if not is_float(str(b.dtype)) and b.dtype.kind != "b":
        if name in ("left_shift", "right_shift"):  # by less than the width
            return a, (b.astype(np.int64) % (8 * b.dtype.itemsize)).astype(b.dtype)
        if name in ("floor_divide", "remainder"):  # the standard leaves division by 0 open
            return a, np.where(b == 0, np.ones_like(b), b)
        if name == "power":  # and negative powers of integers
            return a, np.where(b < 0, np.zeros_like(b), b)
    return a, b


def _sample(
    name: str, dtype: str, logic: Any, operands: tuple[Array, ...], function: Callable[..., Any]
) -> Sample:
    kind = "bool" if name in _TRUTH else dtype
    if name in _NUMBERS and not is_float(dtype):
        kind = "float32"
    with np.errstate(all="ignore"):
        wide = [x.astype(_precise(dtype, kind)) for x in operands]
        wanted = np.asarray(function(*wide))
        if is_float(kind):
            wanted = wanted.astype(np.float64)  # beyond its range: infinity
    static = (("function", name),)
    origin = f"numpy {name} {dtype}"
    return Sample(origin, logic, operands, (wanted,), (kind,), static, joined="elements")


def _precise(dtype: str, kind: str) -> Any:
    """The type in which NumPy computes."""
    if is_float(dtype):
        return np.longdouble if dtype == "float64" else np.float64
    return np.float64 if is_float(kind) else np.dtype(dtype)
