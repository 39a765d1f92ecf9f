"""Functions of elements as vector code.

`exponential` has those of float32 that are computed here, with their errors. float64 goes
to the C library lane by lane, as do the rare functions (logarithms, sine and cosine,
powers). Infinities and NaN come out as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import tirx

from septran.dtypes import is_float, itemsize
from septran.ir.expressions import COMPARISONS
from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.arithmetic.exponential import SINGLE
from septran.targets.cpu.simd import constant, element_of, lanes_of, like
from septran.targets.lower.writer import Expr, Writer


def apply(writer: Writer, function: str, value: Expr, dtype: str) -> Expr:
    """A function of `task.expressions.UNARY` on each lane; the result is of `dtype`."""
    if function == "not":
        return _truth_not(value)
    if element_of(value) == "bool" and function != "invert":
        value = simd.cast(value, dtype)
    if element_of(value) != dtype:
        value = simd.cast(value, dtype)
    value = writer.bind("x", value) if dtype != "bool" else value
    if dtype == "float32" and function in SINGLE:
        return SINGLE[function](writer, value)
    match function:
        case "erf":
            return _lane_by_lane(writer, "erf", value)
        case "neg":
            return wrapping.negative(writer, value)
        case "abs":
            return magnitude(writer, value)
        case _:
            return _SIMPLE[function](value)


def _lane_by_lane(writer: Writer, function: str, *values: Expr) -> Expr:
    """A function of the C library, which knows no vectors."""
    dtype, lanes = element_of(values[0]), lanes_of(values[0])
    if lanes == 1:
        return tirx.call_pure_extern(dtype, function, *values)
    spare = [writer.allocate("lanes", lanes, dtype) for _ in values]
    for buffer, value in zip(spare, values, strict=True):
        simd.store(writer, buffer, writer.index(0), value, lanes)
    with writer.loop("lane", lanes) as lane:
        arguments = [simd.load(buffer, lane, 1) for buffer in spare]
        result = tirx.call_pure_extern(dtype, function, *arguments)
        simd.store(writer, spare[0], lane, result, 1)
    return simd.load(spare[0], writer.index(0), lanes)


def _truth_not(value: Expr) -> Expr:
    if element_of(value) == "bool":
        return tirx.Not(value)
    return tirx.EQ(value, constant(0, element_of(value), lanes_of(value)))


def magnitude(writer: Writer, x: Expr) -> Expr:
    """A number without its sign; of the least integer, itself."""
    dtype = element_of(x)
    if is_float(dtype):
        return simd.call(dtype, lanes_of(x), "llvm.fabs", x)
    if dtype[0] != "i":
        return x
    return tirx.Select(x < like(x, 0), wrapping.negative(writer, x), x)


def _intrinsic(name: str) -> Callable[[Expr], Expr]:
    def call(x: Expr) -> Expr:
        return simd.call(element_of(x), lanes_of(x), f"llvm.{name}", x)

    return call


def _rounding(name: str) -> Callable[[Expr], Expr]:
    def call(x: Expr) -> Expr:
        return _intrinsic(name)(x) if is_float(element_of(x)) else x

    return call


def _plain_sigmoid(x: Expr) -> Expr:
    return tirx.Div(like(x, 1.0), like(x, 1.0) + _intrinsic("exp")(-x))


def _invert(x: Expr) -> Expr:
    return tirx.Not(x) if element_of(x) == "bool" else tirx.bitwise_not(x)


_SIMPLE: dict[str, Callable[[Expr], Expr]] = {
    "exp": _intrinsic("exp"),
    "exp2": _intrinsic("exp2"),
    "log": _intrinsic("log"),
    "log2": _intrinsic("log2"),
    "sqrt": _intrinsic("sqrt"),
    "rsqrt": lambda x: like(x, 1.0) / _intrinsic("sqrt")(x),
    "tanh": _intrinsic("tanh"),
    "sigmoid": _plain_sigmoid,
    "sin": _intrinsic("sin"),
    "cos": _intrinsic("cos"),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "round": _rounding("nearbyint"),
    "invert": _invert,
}


def combine(writer: Writer, function: str, left: Expr, right: Expr) -> Expr:
    """A function of `task.expressions.BINARY` on each lane; both sides of one type."""
    lanes = max(lanes_of(left), lanes_of(right))
    left, right = simd.broadcast(left, lanes), simd.broadcast(right, lanes)
    if function in _TRUTH and element_of(left) == "bool":
        return _logic(_TRUTH[function], left, right)
    if function in COMPARISONS and element_of(left) == "bool":
        left, right = simd.cast(left, "int32"), simd.cast(right, "int32")
    if function in ("maximum", "minimum"):
        left, right = writer.bind("x", left), writer.bind("y", right)
        return extreme(function, left, right)
    if function in ("floor_divide", "remainder", "power", "left_shift", "right_shift"):
        left, right = writer.bind("x", left), writer.bind("y", right)
        return _CAREFUL[function](writer, left, right)
    if function in _WRAPPING:
        return _WRAPPING[function](writer, left, right)
    return _BINARY[function](left, right)


def extreme(function: str, left: Expr, right: Expr) -> Expr:
    """The greater or lesser, NaN where either is: three instructions on x86, no branch.

    The NaN is a constant: if it were `left`, LLVM would join both conditions to one, which
    costs a register more and, on single elements, a branch that nobody can predict.
    """
    chosen = ordered_extreme(function, left, right)
    if not is_float(element_of(left)):
        return chosen
    return tirx.Select(tirx.EQ(left, left), chosen, like(left, math.nan))


def ordered_extreme(function: str, left: Expr, right: Expr) -> Expr:
    """The greater or lesser, `right` where either is NaN: one instruction on x86."""
    better = left > right if function in ("maximum", "max") else left < right
    return tirx.Select(better, left, right)


def _logic(function: str, left: Expr, right: Expr) -> Expr:
    if function == "and":
        return tirx.And(left, right)
    if function == "or":
        return tirx.Or(left, right)
    return tirx.NE(simd.cast(left, "int32"), simd.cast(right, "int32"))


def _floor_divide(writer: Writer, x: Expr, y: Expr) -> Expr:
    if is_float(element_of(x)):
        return _float_floor_divide(writer, x, y)
    safe = writer.bind("y", _safe_divisor(y))
    whole = writer.bind("q", tirx.truncdiv(x, safe))
    value = whole - _adjust(x, safe, tirx.truncmod(x, safe))
    return tirx.Select(tirx.EQ(y, like(y, 0)), like(x, 0), _negated_by_one(writer, x, y, value))


def _float_floor_divide(writer: Writer, x: Expr, y: Expr) -> Expr:
    """As NumPy's, also of infinities: 1 // -inf is -1, and 0 has the quotient's sign."""
    rest = _float_rest(writer, x, y)
    quotient = writer.bind("d", (x - rest) / y)
    below = tirx.Select(_wrong_sign(rest, y), quotient - like(x, 1.0), quotient)
    below = writer.bind("d", below)
    near = writer.bind("f", _intrinsic("floor")(below))
    whole = tirx.Select(below - near > like(x, 0.5), near + like(x, 1.0), near)
    none = _zero_signed_as(x / y)
    whole = tirx.Select(tirx.EQ(below, like(x, 0.0)), none, whole)
    return tirx.Select(tirx.EQ(y, like(y, 0.0)), x / y, whole)  # infinite, as NumPy's


def _remainder(writer: Writer, x: Expr, y: Expr) -> Expr:
    if is_float(element_of(x)):
        rest = _float_rest(writer, x, y)
        value = tirx.Select(_wrong_sign(rest, y), rest + y, rest)
        return tirx.Select(tirx.EQ(rest, like(x, 0.0)), _zero_signed_as(y), value)
    safe = writer.bind("y", _safe_divisor(y))
    rest = writer.bind("m", tirx.truncmod(x, safe))
    value = rest + _adjust(x, safe, rest) * safe
    return tirx.Select(tirx.EQ(y, safe), value, like(x, 0))


def _safe_divisor(y: Expr) -> Expr:
    """1 instead of 0 and -1, by which x86 faults for some dividends."""
    bad = tirx.EQ(y, like(y, 0))
    if element_of(y)[0] == "i":
        bad = tirx.Or(bad, tirx.EQ(y, like(y, -1)))
    return tirx.Select(bad, like(y, 1), y)


def _negated_by_one(writer: Writer, x: Expr, y: Expr, value: Expr) -> Expr:
    if element_of(y)[0] != "i":
        return value
    return tirx.Select(tirx.EQ(y, like(y, -1)), wrapping.negative(writer, x), value)


def _adjust(x: Expr, y: Expr, rest: Expr) -> Expr:
    """1 where truncation went up: a remainder of the other sign than the divisor."""
    if element_of(x)[0] != "i":
        return like(x, 0)
    wrong = tirx.And(tirx.NE(rest, like(x, 0)), (rest ^ y) < like(x, 0))
    return tirx.Select(wrong, like(x, 1), like(x, 0))


def _float_rest(writer: Writer, x: Expr, y: Expr) -> Expr:
    """What truncating division leaves, which is exact and has the dividend's sign."""
    function = "fmodf" if element_of(x) == "float32" else "fmod"
    return writer.bind("m", _lane_by_lane(writer, function, x, y))


def _wrong_sign(rest: Expr, y: Expr) -> Expr:
    """Whether a remainder that is not 0 has another sign than the divisor."""
    signs = (simd.cast(value < like(value, 0.0), "int32") for value in (rest, y))
    return tirx.And(tirx.NE(rest, like(rest, 0.0)), tirx.NE(*signs))


def _zero_signed_as(x: Expr) -> Expr:
    return simd.call(element_of(x), lanes_of(x), "llvm.copysign", like(x, 0.0), x)


def _power(writer: Writer, x: Expr, y: Expr) -> Expr:
    dtype, lanes = element_of(x), lanes_of(x)
    if is_float(dtype):
        return simd.call(dtype, lanes, "llvm.pow", x, y)
    zero, one = writer.index(0), like(x, 1)
    if dtype[0] == "i":  # of a negative exponent 1 and -1 have integer powers, others get 0
        unit = tirx.Or(tirx.EQ(x, one), tirx.EQ(x, like(x, -1)))
        x = tirx.Select(tirx.Or(unit, y >= like(y, 0)), x, like(x, 0))
    total, base = (writer.allocate(stem, lanes, dtype) for stem in ("power", "base"))
    simd.store(writer, total, zero, one, lanes)
    simd.store(writer, base, zero, x, lanes)
    with writer.loop("bit", itemsize(dtype) * 8) as bit:  # by squaring, modulo 2^bits
        odd = (y >> simd.broadcast(simd.cast(bit, dtype), lanes)) & one
        so_far, square = simd.load(total, zero, lanes), simd.load(base, zero, lanes)
        more = wrapping.multiply(writer, so_far, square)
        simd.store(writer, total, zero, tirx.Select(tirx.EQ(odd, one), more, so_far), lanes)
        simd.store(writer, base, zero, wrapping.multiply(writer, square, square), lanes)
    return simd.load(total, zero, lanes)


def _left_shift(writer: Writer, x: Expr, y: Expr) -> Expr:
    fits, amount = _shift(y)
    return tirx.Select(fits, x << amount, like(x, 0))


def _right_shift(writer: Writer, x: Expr, y: Expr) -> Expr:
    fits, amount = _shift(y)
    rest = x >> like(x, itemsize(element_of(x)) * 8 - 1)
    return tirx.Select(fits, x >> amount, rest if element_of(x)[0] == "i" else like(x, 0))


def _shift(y: Expr) -> tuple[Expr, Expr]:
    """Whether a shift is within the type's bits, and one that always is."""
    top = like(y, itemsize(element_of(y)) * 8)
    fits = y < top
    if element_of(y)[0] == "i":
        fits = tirx.And(fits, y >= like(y, 0))
    return fits, tirx.Select(fits, y, like(y, 0))


_CAREFUL = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
}
_TRUTH = {
    "and": "and", "multiply": "and", "minimum": "and", "or": "or", "add": "or",
    "maximum": "or", "xor": "xor",
}  # fmt: skip
"""What functions of numbers are of truth values."""
_WRAPPING = {
    "add": wrapping.add,
    "subtract": wrapping.subtract,
    "multiply": wrapping.multiply,
}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "divide": tirx.Div,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "less": tirx.LT,
    "less_equal": tirx.LE,
    "greater": tirx.GT,
    "greater_equal": tirx.GE,
    "equal": tirx.EQ,
    "not_equal": simd.unequal,
}
