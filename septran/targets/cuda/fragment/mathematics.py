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

from septran.dtypes import SHORT, is_float, itemsize
from septran.ir.expressions import COMPARISONS
from septran.targets.cuda.writer import CudaWriter
from septran.targets.lower.writer import Expr

_CALLS = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "tanh": "tanh", "erf": "erf", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
    "round": "rint",
}  # fmt: skip
_COMPARE: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "less": tirx.LT, "less_equal": tirx.LE, "greater": tirx.GT, "greater_equal": tirx.GE,
    "equal": tirx.EQ, "not_equal": tirx.NE,
}  # fmt: skip
_BITWISE: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "add": tirx.Add, "subtract": tirx.Sub, "multiply": tirx.Mul,
}  # fmt: skip
"""Not operators, which fold ``x * 0`` to 0, NaN or not."""

EXTREME = """\
__forceinline__ __device__ float {name}(float a, float b) {{
  float result;
  asm("{function}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}}
"""
"""One instruction from sm_80 on."""
WHOLE = """\
__forceinline__ __device__ {result} {name}({argument} x) {{
  {argument} rest = {whole};
  rest = fma(rint(rest * {inverse}), -{modulus}, rest);
  return rest == rest ? ({result})(rest < {half} ? rest : -{half}) : 0;
}}
"""
"""A float's integer part modulo a power of two, as a signed number; 0 for infinities and NaN.

C++ leaves what does not fit undefined ([conv.fpint]), and PTX's cvt clamps to the type's ends.
"""
ODD = """\
__forceinline__ __device__ float septran_odd_single(double x) {
  float near = float(x);
  double back = near;
  uint32_t bits = __float_as_uint(near);
  if (back == x || (bits & 1) || !(near - near == 0.0f)) return near;
  return __uint_as_float(fabs(back) < fabs(x) ? bits | 1 : bits - 1);
}
"""
"""As `task.numerics.odd_single`: rounding the result to 16 or 8 bits is rounding once."""
SHORTENED = """\
__forceinline__ __device__ double septran_{kind}_shortened({kind}_t x) {{
  {kind}_t top = x >> 48, low = x & 0xfffff;
  return double(top == 0 || top == ({kind}_t)-{signed} ? x : (x ^ low) | (low ? 0x80000 : 0));
}}
"""
"""A long integer as one that double has: see `task.numerics`."""


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
        value = _single(value, kind)
    if kind in SHORT and dtype != "float32":
        value, kind = tirx.Cast("float32", value), "float32"
    if is_float(kind) and not is_float(dtype):
        value = _whole(value, kind, 64 if itemsize(dtype) == 8 else 32)
    return value if dtype_of(value) == dtype else tirx.Cast(dtype, value)


def _single(value: Expr, kind: str) -> Expr:
    """A number as float32, such that rounding it again is rounding once."""
    if kind in SHORT or (kind[0] in "iu" and itemsize(kind) < 4):
        return tirx.Cast("float32", value)
    if kind in ("int64", "uint64"):
        code = SHORTENED.format(kind=kind, signed=int(kind == "int64"))
        name = f"septran_{kind}_shortened"
        value = T.cuda.func_call(name, value, source_code=code, return_type="float64")
    elif kind != "float64":
        value = tirx.Cast("float64", value)
    return T.cuda.func_call("septran_odd_single", value, source_code=ODD, return_type="float32")


def _whole(value: Expr, kind: str, bits: int) -> Expr:
    """A float as an integer of 32 or 64 bits, modulo that."""
    name, result = f"septran_{kind}_to_int{bits}", f"int{bits}"
    # What is too large for 32 bits has a fraction in float64 alone.
    fraction = kind == "float64" and bits == 32
    end = "f" if kind == "float32" else ""
    code = WHOLE.format(
        name=name, result=f"{result}_t", argument="float" if end else "double",
        whole="trunc(x)" if fraction else "x", inverse=f"{2.0**-bits!r}{end}",
        modulus=f"{2.0**bits!r}{end}", half=f"{2.0 ** (bits - 1)!r}{end}",
    )  # fmt: skip
    return T.cuda.func_call(name, value, source_code=code, return_type=result)


def wrapped(function: str, a: Expr, b: Expr) -> Expr:
    """``add``, ``subtract`` or ``multiply``: integers wrap.

    C++ leaves the overflow of signed integers undefined, so that compilers take ``x + 1 > x``
    for true; unsigned ones wrap ([basic.fundamental]). Those shorter than int become int.
    """
    dtype = dtype_of(a)
    if is_float(dtype):
        return _ARITHMETIC[function](a, b)
    wide = "uint64" if itemsize(dtype) == 8 else "uint32"
    left, right = _converted(a, wide), _converted(b, wide)
    if function == "subtract":  # TVM's bounds of unsigned differences stop at 0, by an error
        right = tirx.call_pure_extern(wide, f"{wide}_t", b)
    return _converted(_ARITHMETIC[function](left, right), dtype)


def _converted(value: Expr, dtype: str) -> Expr:
    """An integer as another integer type."""
    if isinstance(value, tirx.IntImm) and int(value.value) < 0 and dtype[0] == "u":
        # TVM folds conversions of constants, and refuses to make these; this one is C++'s own.
        return tirx.call_pure_extern(dtype, f"{dtype}_t", value)
    return value if dtype_of(value) == dtype else tirx.Cast(dtype, value)


def apply(writer: CudaWriter, function: str, value: Expr, dtype: str) -> Expr:
    """A function of `task.expressions.UNARY`; the result is of `dtype`."""
    if function == "not":
        return tirx.Not(cast(value, "bool"))
    if function == "invert" and dtype == "bool":
        return tirx.Not(value)
    value = cast(value, dtype)
    if function == "neg":
        return -value if is_float(dtype) else wrapped("subtract", constant(0, dtype), value)
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


def combine(writer: CudaWriter, function: str, a: Expr, b: Expr) -> Expr:
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
        floored = _floored if is_float(dtype) else _floored_integers
        return floored(writer, function, a, b, dtype)
    if function in ("left_shift", "right_shift"):
        return _shift(writer, function, a, b, dtype)
    return wrapped(function, a, b) if function in _ARITHMETIC else _BITWISE[function](a, b)


def compare(function: str, a: Expr, b: Expr) -> Expr:
    """A comparison of two values of one type."""
    return _COMPARE[function](a, b)


def extreme(writer: CudaWriter, function: str, a: Expr, b: Expr) -> Expr:
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


def _absolute(writer: CudaWriter, value: Expr, dtype: str) -> Expr:
    if is_float(dtype):
        return _call("fabs", dtype, value)
    if dtype[0] in "ub":
        return value
    value = writer.bind("x", value)
    zero = constant(0, dtype)
    return tirx.Select(value < zero, wrapped("subtract", zero, value), value)


def _logical(function: str, a: Expr, b: Expr) -> Expr:
    match function:
        case "and" | "multiply":
            return tirx.And(a, b)
        case "or" | "add":
            return tirx.Or(a, b)
        case _:
            return tirx.NE(a, b)


def _floored(writer: CudaWriter, function: str, a: Expr, b: Expr, dtype: str) -> Expr:
    """Rounded towards minus infinity, with a remainder of the divisor's sign, as NumPy's."""
    a, b = writer.bind("a", a), writer.bind("b", b)
    zero, one = constant(0, dtype), constant(1, dtype)
    rest = writer.bind("rest", _call("fmod", dtype, a, b))
    wrong = tirx.And(rest != zero, (rest < zero) != (b < zero))
    if function == "remainder":
        none = _call("copysign", dtype, zero, b)
        return tirx.Select(tirx.EQ(rest, zero), none, tirx.Select(wrong, rest + b, rest))
    quotient = writer.bind("quotient", tirx.Div(a - rest, b))
    quotient = writer.bind("quotient", tirx.Select(wrong, quotient - one, quotient))
    near = writer.bind("near", _call("floor", dtype, quotient))
    whole = tirx.Select(quotient - near > constant(0.5, dtype), near + one, near)
    ratio = writer.bind("ratio", tirx.Div(a, b))  # infinite where b is 0
    none = _call("copysign", dtype, zero, ratio)
    whole = tirx.Select(tirx.EQ(quotient, zero), none, whole)
    return tirx.Select(tirx.EQ(b, zero), ratio, whole)


def _floored_integers(writer: CudaWriter, function: str, a: Expr, b: Expr, dtype: str) -> Expr:
    """The same of integers; 0 where the divisor is 0."""
    a, b = writer.bind("a", a), writer.bind("b", b)
    zero, one = constant(0, dtype), constant(1, dtype)
    signed = dtype[0] == "i"
    # The least integer divided by -1 does not fit: C++ leaves it undefined, x86 faults.
    away = tirx.EQ(b, zero)
    if signed:
        away = tirx.Or(away, tirx.EQ(b, constant(-1, dtype)))
    safe = writer.bind("safe", tirx.Select(away, one, b))
    rest = writer.bind("rest", tirx.truncmod(a, safe))
    wrong = tirx.And(tirx.NE(rest, zero), tirx.NE(rest < zero, safe < zero))
    if function == "remainder":
        return tirx.Select(wrong, rest + safe, rest) if signed else rest
    whole = writer.bind("whole", tirx.truncdiv(a, safe))
    if signed:
        whole = tirx.Select(wrong, whole - one, whole)
        minus = wrapped("subtract", zero, a)
        whole = tirx.Select(tirx.EQ(b, constant(-1, dtype)), minus, whole)
    return tirx.Select(tirx.EQ(b, zero), zero, whole)


def _shift(writer: CudaWriter, function: str, a: Expr, b: Expr, dtype: str) -> Expr:
    """Bits that are shifted out are lost, all of them where there are no more than the count."""
    a, b = writer.bind("a", a), writer.bind("b", b)
    zero, bits = constant(0, dtype), itemsize(dtype) * 8
    fits = b < constant(bits, dtype)
    if dtype[0] == "i":
        fits = tirx.And(b >= zero, fits)
    count = writer.bind("count", tirx.Select(fits, b, zero))
    if function == "right_shift":
        rest = zero if dtype[0] == "u" else a >> constant(bits - 1, dtype)
        return tirx.Select(fits, a >> count, rest)
    wide = "uint64" if bits == 64 else "uint32"
    moved = _converted(_converted(a, wide) << _converted(count, wide), dtype)
    return tirx.Select(fits, moved, zero)


def _power(writer: CudaWriter, base: Expr, exponent: Expr, dtype: str) -> Expr:
    """An integer to an integer, modulo its type, by squaring: one step for each bit.

    Of a negative exponent 1 and -1 have integer powers, others get 0.
    """
    zero, one = constant(0, dtype), constant(1, dtype)
    base, exponent = writer.bind("base", base), writer.bind("exponent", exponent)
    if dtype[0] == "i":
        unit = tirx.Or(tirx.EQ(base, one), tirx.EQ(base, constant(-1, dtype)))
        base = tirx.Select(tirx.Or(unit, exponent >= zero), base, zero)
    bits = itemsize(dtype) * 8
    held = writer.allocate("power", 1, dtype), writer.allocate("factor", 1, dtype)
    for buffer, value in zip(held, (one, base), strict=True):
        writer.store(buffer, 0, value)
    with writer.loop("bit", bits) as bit:
        total, factor = (writer.load(buffer, 0) for buffer in held)
        odd = tirx.NE(exponent >> tirx.Cast(dtype, bit) & one, zero)
        more = wrapped("multiply", total, factor)
        writer.store(held[0], 0, tirx.Select(odd, more, total))
        writer.store(held[1], 0, wrapped("multiply", factor, factor))
    return writer.load(held[0], 0)
