"""Functions of elements as CUDA computes them: which call, which operator, which order.

float32 goes to CUDA's accurate functions (`expf`, `erff`, ...: at most 2 units in the last
place), float64 to their double counterparts; nothing is approximated by fast-math.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import SHORT, is_float
from septran.targets.cuda.writer import Expr, Writer
from septran.task.expressions import COMPARISONS

_CALLS = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "tanh": "tanh", "erf": "erf", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
    "round": "rint",
}  # fmt: skip
_COMPARE: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "less": tirx.LT, "less_equal": tirx.LE, "greater": tirx.GT, "greater_equal": tirx.GE,
    "equal": tirx.EQ, "not_equal": tirx.NE,
}  # fmt: skip
_PLAIN: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << b, "right_shift": lambda a, b: a >> b,
}  # fmt: skip

EXTREME = """\
__forceinline__ __device__ float {name}(float a, float b) {{
  float result;
  asm("{function}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}}
"""
"""One instruction from sm_80 on."""


def dtype_of(value: Expr) -> str:
    """The type of a TensorIR scalar."""
    return str(value.ty.dtype)


def constant(value: float | int | bool, dtype: str) -> Expr:
    """A number of a type, rounded to it."""
    if dtype == "bool":
        return tirx.IntImm("bool", int(bool(value)))
    if is_float(dtype):
        rounded = float(value) if dtype == "float64" else float(np.float32(value))
        if dtype in SHORT:  # whose literals the printer writes with functions of CUDA's headers
            return tirx.Cast(dtype, tirx.FloatImm("float32", rounded))
        return tirx.FloatImm(dtype, rounded)
    if math.isinf(value):
        raise ValueError(f"infinity is not a number of {dtype}")
    number = int(value)
    if dtype == "int64" and number == -(2**63):
        return tirx.min_value("int64")
    return tirx.IntImm(dtype, number)


def cast(value: Expr, dtype: str) -> Expr:
    """The value in another type; numbers become bool by being other than 0."""
    kind = dtype_of(value)
    if kind == dtype:
        return value
    if isinstance(value, tirx.FloatImm) and is_float(dtype):
        return constant(float(value.value), dtype)
    if dtype == "bool":
        return tirx.NE(value, constant(0, kind))
    if kind == "bool":
        return tirx.Select(value, constant(1, dtype), constant(0, dtype))
    if dtype in SHORT and kind != "float32":
        value = tirx.Cast("float32", value)
    if kind in SHORT and dtype != "float32":
        value = tirx.Cast("float32", value)
    return tirx.Cast(dtype, value)


def apply(writer: Writer, function: str, value: Expr, dtype: str) -> Expr:
    """A function of `task.expressions.UNARY`; the result is of `dtype`."""
    if function == "not":
        return tirx.Not(cast(value, "bool"))
    if function == "invert" and dtype == "bool":
        return tirx.Not(value)
    value = cast(value, dtype)
    if function == "neg":
        return -value if is_float(dtype) else constant(0, dtype) - value
    if function == "invert":
        return ~value
    if function == "abs":
        return _absolute(writer, value, dtype)
    if function == "sigmoid":
        one = constant(1, dtype)
        return one / (one + _call("exp", dtype, -value))
    if not is_float(dtype):
        return value  # an integer is its own floor
    return _call(_CALLS[function], dtype, value)


def combine(writer: Writer, function: str, a: Expr, b: Expr) -> Expr:
    """A function of `task.expressions.BINARY` of two values of one type."""
    dtype = dtype_of(a)
    if function in COMPARISONS:
        return _COMPARE[function](a, b)
    if function in ("maximum", "minimum"):
        return extreme(writer, "max" if function == "maximum" else "min", a, b)
    if dtype == "bool":
        return _logical(function, a, b)
    if function == "divide":
        return tirx.Div(a, b)
    if function == "power":
        return _call("pow", dtype, a, b) if is_float(dtype) else _power(writer, a, b, dtype)
    if function in ("floor_divide", "remainder"):
        return _floored(writer, function, a, b, dtype)
    return _PLAIN[function](a, b)


def compare(function: str, a: Expr, b: Expr) -> Expr:
    """A comparison of two values of one type."""
    return _COMPARE[function](a, b)


def extreme(writer: Writer, function: str, a: Expr, b: Expr) -> Expr:
    """``max`` or ``min``; NaN where one of the two is NaN."""
    dtype = dtype_of(a)
    if dtype == "bool":
        return tirx.Or(a, b) if function == "max" else tirx.And(a, b)
    if not is_float(dtype):
        return tirx.Max(a, b) if function == "max" else tirx.Min(a, b)
    if dtype == "float32" and writer.nan_extremes:
        name = f"septran_{function}"
        code = EXTREME.format(name=name, function=function)
        return T.cuda.func_call(name, a, b, source_code=code, return_type="float32")
    a, b = writer.bind("a", a), writer.bind("b", b)
    first = a > b if function == "max" else a < b
    return tirx.Select(tirx.Or(first, tirx.NE(a, a)), a, b)


def _call(name: str, dtype: str, *values: Expr) -> Expr:
    return tirx.call_pure_extern(dtype, f"{name}f" if dtype == "float32" else name, *values)


def _absolute(writer: Writer, value: Expr, dtype: str) -> Expr:
    if is_float(dtype):
        return _call("fabs", dtype, value)
    if dtype[0] in "ub":
        return value
    value = writer.bind("x", value)
    zero = constant(0, dtype)
    return tirx.Select(value < zero, zero - value, value)


def _logical(function: str, a: Expr, b: Expr) -> Expr:
    match function:
        case "and" | "multiply":
            return tirx.And(a, b)
        case "or" | "add":
            return tirx.Or(a, b)
        case _:
            return tirx.NE(a, b)


def _floored(writer: Writer, function: str, a: Expr, b: Expr, dtype: str) -> Expr:
    """Rounded towards minus infinity, with a remainder of the divisor's sign, as NumPy's."""
    a, b = writer.bind("a", a), writer.bind("b", b)
    zero = constant(0, dtype)
    if is_float(dtype):
        rest = writer.bind("rest", _call("fmod", dtype, a, b))
        wrong = tirx.And(rest != zero, (rest < zero) != (b < zero))
        if function == "remainder":
            return tirx.Select(wrong, rest + b, rest)
        whole = _call("rint", dtype, tirx.Div(a - rest, b))
        return tirx.Select(wrong, whole - constant(1, dtype), whole)
    rest = writer.bind("rest", tirx.truncmod(a, b))
    wrong = tirx.And(rest != zero, (rest < zero) != (b < zero))
    if function == "remainder":
        return tirx.Select(wrong, rest + b, rest)
    whole = tirx.truncdiv(a, b)
    return tirx.Select(wrong, whole - constant(1, dtype), whole) if dtype[0] == "i" else whole


def _power(writer: Writer, base: Expr, exponent: Expr, dtype: str) -> Expr:
    """An integer to an integer, by squaring: one step for each bit of an exponent up to 63."""
    result, factor = constant(1, dtype), writer.bind("factor", base)
    left = writer.bind("left", exponent)
    for _ in range(6):
        odd = tirx.NE(left & constant(1, dtype), constant(0, dtype))
        result = writer.bind("power", tirx.Select(odd, result * factor, result))
        factor = writer.bind("factor", factor * factor)
        left = writer.bind("left", left >> constant(1, dtype))
    return result
