"""Functions of elements as vector code, with stated errors.

Errors are in units in the last place of float32 against float64, over all finite inputs,
denormal results included; float64 goes to the C library lane by lane, as do the rare
functions (logarithms, sine and cosine, powers). Infinities and NaN come out as in NumPy.

======== ===== ==========================================
function error method
======== ===== ==========================================
exp      1     2^n times a polynomial on [-ln2/2, ln2/2]
exp2     1     the same, after scaling by ln2
tanh     2     polynomial below 0.625, else from exp
sigmoid  3     from exp(-|x|)
erf      1     polynomial below 0.93, else 1 - exp(p(|x|))
======== ===== ==========================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import tirx

from septran.dtypes import is_float, itemsize
from septran.targets.cpu import simd
from septran.targets.cpu.simd import constant, element_of, lanes_of
from septran.targets.cpu.writer import Expr, Writer
from septran.task.expressions import COMPARISONS

_MAGIC = 12582912.0
"""1.5 * 2^23: added to a small float, it leaves the nearest integer in the low bits."""
_BIAS = 127.0
"""Of float32's exponents."""
_EXP = (1.3814598e-3, 8.3687166e-3, 4.1668388e-2, 0.16666521, 0.49999994)
"""Of (exp(r) - 1 - r) / r^2 where |r| <= ln2/2, so that exp errs by at most 2^-28 (Remez)."""
_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -0.33333281942)
_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 0.112819925, -0.376125336, 0.128379166)
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_LN2 = 0.6931471805599453
_LOG2_E = 1.4426950408889634


def apply(writer: Writer, function: str, value: Expr, dtype: str) -> Expr:
    """A function of `task.expressions.UNARY` on each lane; the result is of `dtype`."""
    if function == "not":
        return _truth_not(value)
    if element_of(value) == "bool" and function != "invert":
        value = simd.cast(value, dtype)
    if element_of(value) != dtype:
        value = simd.cast(value, dtype)
    value = writer.bind("x", value) if dtype != "bool" else value
    if dtype == "float32" and function in _SINGLE:
        return _SINGLE[function](writer, value)
    if function == "erf":
        return _lane_by_lane(writer, "erf", value)
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


def _like(value: Expr, number: float) -> Expr:
    return constant(number, element_of(value), lanes_of(value))


def _polynomial(writer: Writer, x: Expr, coefficients: Sequence[float]) -> Expr:
    first, *rest = coefficients
    total = _like(x, first)
    for coefficient in rest:
        total = writer.bind("p", simd.fma(total, x, _like(x, coefficient)))
    return total


def _scale(writer: Writer, value: Expr, n: Expr) -> Expr:
    """``value * 2^n`` for an integral float n; in two steps, for denormal results.

    Added to a constant, n and its half come to lie in the low bits with the exponent's bias
    on top, and one shift makes a power of two of each.
    """
    mantissa = constant(23, "int32", lanes_of(value))
    half = writer.bind(
        "h", simd.bits(simd.fma(n, _like(n, 0.5), _like(n, _MAGIC + _BIAS)), "int32")
    )
    both = simd.bits(n + _like(n, _MAGIC + 2 * _BIAS), "int32")
    powers = [simd.bits(p << mantissa, "float32") for p in (half, both - half)]
    return tirx.Mul(writer.bind("q", tirx.Mul(value, powers[0])), powers[1])


def _exp(writer: Writer, x: Expr) -> Expr:
    clamped = writer.bind("x", _clamp(writer, x, -104.0, 89.0))
    biased = writer.bind("n", simd.fma(clamped, _like(x, _LOG2_E), _like(x, _MAGIC)))
    n = writer.bind("n", biased - _like(x, _MAGIC))
    r = writer.bind("r", simd.fma(n, _like(x, -_LN2_HIGH), clamped))
    r = writer.bind("r", simd.fma(n, _like(x, -_LN2_LOW), r))
    return _scale(writer, _near_zero(writer, r), n)


def _exp2(writer: Writer, x: Expr) -> Expr:
    clamped = writer.bind("x", _clamp(writer, x, -151.0, 129.0))
    biased = writer.bind("n", clamped + _like(x, _MAGIC))
    n = writer.bind("n", biased - _like(x, _MAGIC))
    r = writer.bind("r", clamped - n)
    r = writer.bind("r", r * _like(x, _LN2))
    return _scale(writer, _near_zero(writer, r), n)


def _near_zero(writer: Writer, r: Expr) -> Expr:
    """The exponential where ``|r| <= ln2 / 2``."""
    return _polynomial(writer, r, (*_EXP, 1.0, 1.0))


def _clamp(writer: Writer, x: Expr, low: float, high: float) -> Expr:
    """`x` between two bounds; NaN stays NaN, as both comparisons then choose `x`."""
    bottom, top = _like(x, low), _like(x, high)
    above = writer.bind("x", tirx.Select(bottom > x, bottom, x))
    return tirx.Select(top < above, top, above)


def _or_nan(x: Expr, value: Expr) -> Expr:
    return tirx.Select(simd.unequal(x, x), x, value)


def _magnitude(x: Expr) -> Expr:
    mask = constant(0x7FFFFFFF, "int32", lanes_of(x))
    return simd.bits(simd.bits(x, "int32") & mask, "float32")


def _signed(value: Expr, sign_of: Expr) -> Expr:
    """`value`, which is not negative, with the sign of another."""
    sign = simd.bits(sign_of, "uint32") & constant(0x80000000, "uint32", lanes_of(value))
    return simd.bits(simd.bits(value, "uint32") | sign, "float32")


def _tanh(writer: Writer, x: Expr) -> Expr:
    size = writer.bind("t", _magnitude(x))
    e = writer.bind("e", _exp(writer, writer.bind("x2", size + size)))
    large = _like(x, 1.0) - _like(x, 2.0) / (e + _like(x, 1.0))
    square = writer.bind("s", x * x)
    p = _polynomial(writer, square, _TANH)
    small = writer.bind("y", simd.fma(p * square, x, x))
    return tirx.Select(size >= _like(x, 0.625), _signed(large, x), small)


def _sigmoid(writer: Writer, x: Expr) -> Expr:
    e = writer.bind("e", _exp(writer, writer.bind("m", -_magnitude(x))))
    one = _like(x, 1.0)
    above = tirx.Select(x < _like(x, 0.0), e, one)
    return _or_nan(x, above / (e + one))


def _erf(writer: Writer, x: Expr) -> Expr:
    """After N. Juffa's single-precision erff."""
    t = writer.bind("t", _magnitude(x))
    s = writer.bind("s", x * x)
    u = simd.fma(_like(x, -3.88396438e-3), t, _like(x, 2.42546219e-2))
    r = simd.fma(_like(x, -1.72853470e-5), t, _like(x, 3.83197126e-4))
    r = writer.bind("r", simd.fma(r, s, u))
    for coefficient in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = writer.bind("r", simd.fma(r, t, _like(x, coefficient)))
    large = _like(x, 1.0) - _exp(writer, writer.bind("r", simd.fma(r, t, -t)))
    p = writer.bind("p", _polynomial(writer, s, _ERF_SMALL))
    small = simd.fma(p, x, x)
    return tirx.Select(t > _like(x, 0.927734375), _signed(writer.bind("y", large), x), small)


def _absolute(x: Expr) -> Expr:
    if not is_float(element_of(x)):
        return tirx.Select(x < _like(x, 0), -x, x) if element_of(x)[0] == "i" else x
    return simd.call(element_of(x), lanes_of(x), "llvm.fabs", x)


def _intrinsic(name: str) -> Callable[[Expr], Expr]:
    def call(x: Expr) -> Expr:
        return simd.call(element_of(x), lanes_of(x), f"llvm.{name}", x)

    return call


def _rounding(name: str) -> Callable[[Expr], Expr]:
    def call(x: Expr) -> Expr:
        return _intrinsic(name)(x) if is_float(element_of(x)) else x

    return call


def _plain_sigmoid(x: Expr) -> Expr:
    return tirx.Div(_like(x, 1.0), _like(x, 1.0) + _intrinsic("exp")(-x))


def _invert(x: Expr) -> Expr:
    return tirx.Not(x) if element_of(x) == "bool" else tirx.bitwise_not(x)


_SINGLE: dict[str, Callable[[Writer, Expr], Expr]] = {
    "exp": _exp,
    "exp2": _exp2,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
}
_SIMPLE: dict[str, Callable[[Expr], Expr]] = {
    "neg": lambda x: -x if is_float(element_of(x)) else _like(x, 0) - x,
    "abs": _absolute,
    "exp": _intrinsic("exp"),
    "exp2": _intrinsic("exp2"),
    "log": _intrinsic("log"),
    "log2": _intrinsic("log2"),
    "sqrt": _intrinsic("sqrt"),
    "rsqrt": lambda x: _like(x, 1.0) / _intrinsic("sqrt")(x),
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
    if function in ("and", "or", "xor") and element_of(left) == "bool":
        return _logic(function, left, right)
    if function in COMPARISONS and element_of(left) == "bool":
        left, right = simd.cast(left, "int32"), simd.cast(right, "int32")
    if function in ("maximum", "minimum"):
        left, right = writer.bind("x", left), writer.bind("y", right)
        return extreme(function, left, right)
    if function in ("floor_divide", "remainder", "power", "left_shift", "right_shift"):
        left, right = writer.bind("x", left), writer.bind("y", right)
        return _CAREFUL[function](writer, left, right)
    return _BINARY[function](left, right)


def extreme(function: str, left: Expr, right: Expr) -> Expr:
    """The greater or lesser, NaN where either is: three instructions on x86, no branch.

    The NaN is a constant: if it were `left`, LLVM would join both conditions to one, which
    costs a register more and, on single elements, a branch that nobody can predict.
    """
    chosen = ordered_extreme(function, left, right)
    if not is_float(element_of(left)):
        return chosen
    return tirx.Select(tirx.EQ(left, left), chosen, _like(left, math.nan))


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
        quotient = writer.bind("d", (x - _float_remainder(writer, x, y)) / y)
        near = writer.bind("f", _intrinsic("floor")(quotient))
        whole = tirx.Select(quotient - near > _like(x, 0.5), near + _like(x, 1.0), near)
        return tirx.Select(tirx.EQ(y, _like(y, 0.0)), x / y, whole)  # infinite, as NumPy's
    safe = writer.bind("y", _safe_divisor(y))
    whole = writer.bind("q", tirx.truncdiv(x, safe))
    value = whole - _adjust(x, safe, tirx.truncmod(x, safe))
    return tirx.Select(tirx.EQ(y, _like(y, 0)), _like(x, 0), _negated_by_one(x, y, value))


def _remainder(writer: Writer, x: Expr, y: Expr) -> Expr:
    if is_float(element_of(x)):
        return _float_remainder(writer, x, y)
    safe = writer.bind("y", _safe_divisor(y))
    rest = writer.bind("m", tirx.truncmod(x, safe))
    value = rest + _adjust(x, safe, rest) * safe
    return tirx.Select(tirx.EQ(y, safe), value, _like(x, 0))


def _safe_divisor(y: Expr) -> Expr:
    """1 instead of 0 and -1, by which x86 faults for some dividends."""
    bad = tirx.EQ(y, _like(y, 0))
    if element_of(y)[0] == "i":
        bad = tirx.Or(bad, tirx.EQ(y, _like(y, -1)))
    return tirx.Select(bad, _like(y, 1), y)


def _negated_by_one(x: Expr, y: Expr, value: Expr) -> Expr:
    if element_of(y)[0] != "i":
        return value
    return tirx.Select(tirx.EQ(y, _like(y, -1)), _like(x, 0) - x, value)


def _adjust(x: Expr, y: Expr, rest: Expr) -> Expr:
    """1 where truncation went up: a remainder of the other sign than the divisor."""
    if element_of(x)[0] != "i":
        return _like(x, 0)
    wrong = tirx.And(tirx.NE(rest, _like(x, 0)), (rest ^ y) < _like(x, 0))
    return tirx.Select(wrong, _like(x, 1), _like(x, 0))


def _float_remainder(writer: Writer, x: Expr, y: Expr) -> Expr:
    function = "fmodf" if element_of(x) == "float32" else "fmod"
    rest = writer.bind("m", _lane_by_lane(writer, function, x, y))
    wrong = tirx.And(
        tirx.NE(rest, _like(x, 0)),
        tirx.NE(simd.cast(rest < _like(x, 0), "int32"), simd.cast(y < _like(x, 0), "int32")),
    )
    return tirx.Select(wrong, rest + y, rest)


def _power(writer: Writer, x: Expr, y: Expr) -> Expr:
    dtype, lanes = element_of(x), lanes_of(x)
    if is_float(dtype):
        return simd.call(dtype, lanes, "llvm.pow", x, y)
    zero, one = writer.index(0), _like(x, 1)
    total, base = (writer.allocate(stem, lanes, dtype) for stem in ("power", "base"))
    simd.store(writer, total, zero, one, lanes)
    simd.store(writer, base, zero, x, lanes)
    with writer.loop("bit", itemsize(dtype) * 8) as bit:  # by squaring, modulo 2^bits
        odd = (y >> simd.broadcast(simd.cast(bit, dtype), lanes)) & one
        so_far, square = simd.load(total, zero, lanes), simd.load(base, zero, lanes)
        more = tirx.Mul(so_far, square)
        simd.store(writer, total, zero, tirx.Select(tirx.EQ(odd, one), more, so_far), lanes)
        simd.store(writer, base, zero, tirx.Mul(square, square), lanes)
    return simd.load(total, zero, lanes)


def _left_shift(writer: Writer, x: Expr, y: Expr) -> Expr:
    fits, amount = _shift(y)
    return tirx.Select(fits, x << amount, _like(x, 0))


def _right_shift(writer: Writer, x: Expr, y: Expr) -> Expr:
    fits, amount = _shift(y)
    rest = x >> _like(x, itemsize(element_of(x)) * 8 - 1)
    return tirx.Select(fits, x >> amount, rest if element_of(x)[0] == "i" else _like(x, 0))


def _shift(y: Expr) -> tuple[Expr, Expr]:
    """Whether a shift is within the type's bits, and one that always is."""
    top = _like(y, itemsize(element_of(y)) * 8)
    fits = y < top
    if element_of(y)[0] == "i":
        fits = tirx.And(fits, y >= _like(y, 0))
    return fits, tirx.Select(fits, y, _like(y, 0))


_CAREFUL = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": tirx.Add,  # not operators, which fold x * 0 to 0, NaN or not
    "subtract": tirx.Sub,
    "multiply": tirx.Mul,
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
