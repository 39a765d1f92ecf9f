"""Logarithms, powers, sine and cosine on float32 vectors, with stated errors.

Errors are in units in the last place against float64, over all finite inputs. Zeros,
infinities and NaN come out as in NumPy.

======== ===== ==================================================================
function error method
======== ===== ==================================================================
log      1     exponent and mantissa apart, polynomial of the mantissa
log2     2     the same
sin      2     x - n pi/2 in three parts, polynomials; from 2^17 the C library's
cos      2     the same
power    1     exp2(y log2(x)) in float64; from exponents of 2^22 the C library's
======== ===== ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tvm import tirx

from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic.exponential import (
    MAGIC,
    all_normal,
    magnitude_of,
    none_beyond,
    polynomial,
    unless,
)
from septran.targets.cpu.simd import constant, like
from septran.targets.lower.values import bits, cast, lanes_of
from septran.targets.lower.writer import Expr, Writer

_LOG = (
    0.0674659163, -0.116756387, 0.118881777, -0.124055922, 0.142195508, -0.166679963,
    0.200021192, -0.250000089, 0.333333135,
)  # fmt: skip
"""Of (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f from sqrt(1/2) to sqrt(2), to 2^-30 (Remez)."""
_SINE = (2.71787485e-6, -1.98392896e-4, 8.33332911e-3, -0.166666672)
"""Of (sin(r) / r - 1) / r^2, by r^2, where |r| <= 0.79, to 2^-37 of sin (Remez)."""
_COSINE = (2.44342136e-5, -1.38873316e-3, 4.16666456e-2)
"""Of (cos(r) - 1 + r^2 / 2) / r^4, by r^2, where |r| <= 0.79, to 2^-33 (Remez)."""
_ATANH = (
    0.3407382865337749, 0.41167222142673393, 0.5770835944148639, 0.9617966732844084,
    2.8853900817901406,
)  # fmt: skip
"""Of 2 atanh(s) / (s ln2), by s^2, where |s| <= 3 - 2 sqrt(2), to 2^-37 (Remez)."""
_EXP2 = (
    1.520191815387699e-05, 1.546929103745636e-4, 1.3333922575980914e-3, 9.618027254000669e-3,
    5.550410353435745e-2, 0.2402265119815507, 0.693147180728451, 0.9999999999616822,
)  # fmt: skip
"""Of 2^r where |r| <= 1/2, to 2^-34 (Remez)."""
# ln2 in two parts, after Cody and Waite: 355/512 times an exponent is exact in float32.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
"""pi / 2 in three float32."""
_FARTHEST = 131072.0
"""Up to here n is below 2^17, so that three parts of pi/2 leave r to 2^-50 and its last place."""
_SQRT_HALF = 0x3F3504F3
"""The bits of the least mantissa, sqrt(1/2)."""
_LEAST_NORMAL = 2.0**-126
_LARGEST = 3.4028234663852886e38
_DOUBLE_MAGIC = 1.5 * 2.0**52
"""As `MAGIC`, of float64."""


def _parts(writer: Writer, x: Expr) -> tuple[Expr, Expr]:
    """E and f, where ``x = 2^e * (1 + f)`` for x above 0 and 1 + f is from sqrt(1/2) to sqrt(2).

    Denormals are first made normal.
    """
    tiny = x < like(x, _LEAST_NORMAL)
    exponent, f = _split(writer, writer.bind("x", tirx.Select(tiny, x * like(x, 2.0**23), x)))
    return writer.bind("e", tirx.Select(tiny, exponent - like(x, 23.0), exponent)), f


def _split(writer: Writer, normal: Expr) -> tuple[Expr, Expr]:
    """The same of a normal number."""
    lanes = lanes_of(normal)
    raw = writer.bind("raw", bits(normal, "int32") - constant(_SQRT_HALF, "int32", lanes))
    exponent = writer.bind("e", cast(raw >> constant(23, "int32", lanes), "float32"))
    mantissa = (raw & constant(0x7FFFFF, "int32", lanes)) + constant(_SQRT_HALF, "int32", lanes)
    return exponent, writer.bind("f", bits(mantissa, "float32") - like(normal, 1.0))


def _curved(writer: Writer, f: Expr) -> Expr:
    """``log(1 + f) - f``."""
    square = writer.bind("s", f * f)
    cubic = writer.bind("p", polynomial(writer, f, _LOG) * f)
    return writer.bind("p", simd.fma(cubic, square, like(f, -0.5) * square))


def _of_positive(x: Expr, value: Expr) -> Expr:
    """A logarithm where x is positive and finite; else what NumPy has: -inf, NaN, or x itself."""
    below = tirx.Select(tirx.EQ(x, like(x, 0.0)), like(x, -math.inf), like(x, math.nan))
    above = tirx.Select(x <= like(x, _LARGEST), value, x)
    # NaN fails both comparisons, and so is its own logarithm.
    return tirx.Select(x <= like(x, 0.0), below, above)


def _logarithm(result: Callable[[Writer, Expr, Expr], Expr]) -> Callable[[Writer, Expr], Expr]:
    """The function of x for what is `result` of the parts of a positive finite one."""

    def function(writer: Writer, x: Expr) -> Expr:
        def plain() -> Expr:
            return result(writer, *_split(writer, x))

        def careful() -> Expr:
            return _of_positive(x, result(writer, *_parts(writer, x)))

        return unless(writer, x, lambda: all_normal(writer, x), plain, careful)

    return function


def _log(writer: Writer, e: Expr, f: Expr) -> Expr:
    low = writer.bind("y", simd.fma(e, like(f, _LN2_LOW), _curved(writer, f)))
    return simd.fma(e, like(f, _LN2_HIGH), writer.bind("y", low + f))


def _log_of_2(writer: Writer, e: Expr, f: Expr) -> Expr:
    """By the logarithm of base e: times 1 and a rest, of which the 1 rounds nothing."""
    rest, curved = like(f, math.log2(math.e) - 1), _curved(writer, f)
    low = writer.bind("y", simd.fma(f, rest, simd.fma(curved, rest, curved)))
    return writer.bind("y", low + f) + e


def _circular(name: str, quarters: int) -> Callable[[Writer, Expr], Expr]:
    """Sine, some quarters of a turn on: cosine is one quarter ahead."""

    def function(writer: Writer, x: Expr) -> Expr:
        def plain() -> Expr:
            return _by_quarters(writer, x, quarters)

        def careful() -> Expr:
            return simd.call("float32", lanes_of(x), f"llvm.{name}", x)

        return unless(writer, x, lambda: none_beyond(writer, x, _FARTHEST), plain, careful)

    return function


def _by_quarters(writer: Writer, x: Expr, quarters: int) -> Expr:
    """The sine of x and some quarters of a turn, of magnitudes up to `_FARTHEST`."""
    biased = writer.bind("n", simd.fma(x, like(x, 2 / math.pi), like(x, MAGIC)))
    n = writer.bind("n", biased - like(x, MAGIC))
    r = x
    # The first step is exact: both terms are multiples of 2^-24, and the difference is below 1.
    for part in _HALF_PI:
        r = writer.bind("r", simd.fma(n, like(x, -part), r))
    square = writer.bind("s", r * r)
    sine = polynomial(writer, square, _SINE)
    sine = writer.bind("y", simd.fma(writer.bind("c", square * r), sine, r))
    cosine = polynomial(writer, square, (*_COSINE, -0.5, 1.0))
    lanes = lanes_of(x)
    turn = writer.bind("q", bits(biased, "int32") + constant(quarters, "int32", lanes))
    one = constant(1, "int32", lanes)
    odd = tirx.EQ(turn & one, one)
    chosen = bits(tirx.Select(odd, cosine, sine), "int32")
    # The second bit of the quarter is the sign.
    sign = (turn >> one) << constant(31, "int32", lanes)
    return bits(chosen ^ sign, "float32")


def power(writer: Writer, x: Expr, y: Expr) -> Expr:
    """X to the power of y, as C's `pow` has it."""

    def usual() -> Expr:
        bases, exponents = none_beyond(writer, x, _LARGEST), none_beyond(writer, y, 2.0**22)
        return tirx.And(bases, exponents)

    def plain() -> Expr:
        return _powered(writer, x, y)

    def careful() -> Expr:
        return simd.call("float32", lanes_of(x), "llvm.pow", x, y)

    return unless(writer, x, usual, plain, careful)


def _powered(writer: Writer, x: Expr, y: Expr) -> Expr:
    """x^y for a finite x and an exponent up to 2^22, above which all are even."""
    lanes = lanes_of(x)
    size = writer.bind("t", magnitude_of(x))
    value = cast(_exp2(writer, cast(y, "float64") * _log2(writer, size)), "float32")
    biased = writer.bind("n", y + like(y, MAGIC))
    whole = tirx.EQ(biased - like(y, MAGIC), y)
    # The lowest bit of `biased` says whether a whole exponent is odd: then x keeps its sign.
    negative = bits(biased, "uint32") << constant(31, "uint32", lanes) & bits(x, "uint32")
    odd = tirx.Select(whole, negative, constant(0, "uint32", lanes))
    signed = bits(bits(value, "uint32") ^ odd, "float32")
    nowhere = tirx.And(x < like(x, 0.0), tirx.Not(whole))
    return tirx.Select(nowhere, like(x, math.nan), signed)


def _log2(writer: Writer, size: Expr) -> Expr:
    """log2 in float64 of a float32 that is not negative, to 2^-37; of 0 a huge negative number.

    Of s = f / (2 + f), 2 atanh(s) is log(1 + f), and odd.
    """
    exponent, mantissa = _parts(writer, size)
    e, f = cast(exponent, "float64"), writer.bind("f", cast(mantissa, "float64"))
    s = writer.bind("s", f / (f + like(f, 2.0)))
    odd = polynomial(writer, writer.bind("s2", s * s), _ATANH)
    value = writer.bind("l", simd.fma(odd, s, e))
    zero = tirx.EQ(cast(size, "float64"), like(f, 0.0))
    return writer.bind("l", tirx.Select(zero, like(f, -1e300), value))


def _exp2(writer: Writer, z: Expr) -> Expr:
    """2^z in float64, to 2^-34; what float32 rounds to 0 or infinity only as far as that."""
    low, high = like(z, -160.0), like(z, 140.0)
    z = writer.bind("z", z)
    z = writer.bind("z", tirx.Select(z < low, low, z))
    z = writer.bind("z", tirx.Select(z > high, high, z))
    magic = like(z, _DOUBLE_MAGIC)
    biased = writer.bind("n", z + magic)
    r = writer.bind("r", z - writer.bind("n", biased - magic))
    value = polynomial(writer, r, _EXP2)
    raised = bits(biased, "int64") << constant(52, "int64", lanes_of(z))
    return bits(bits(value, "int64") + raised, "float64")


SINGLE: Mapping[str, Callable[[Writer, Expr], Expr]] = {
    "log": _logarithm(_log),
    "log2": _logarithm(_log_of_2),
    "sin": _circular("sin", 0),
    "cos": _circular("cos", 1),
}
"""Functions of one value, by the name that expressions have for them."""
