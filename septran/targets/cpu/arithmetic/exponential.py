"""The exponential and its kin on float32 vectors, with stated errors.

Errors are in units in the last place against float64, over all finite inputs, denormal
results included. Infinities and NaN come out as in NumPy.

======== ===== ==========================================
function error method
======== ===== ==========================================
exp      1     2^n times a polynomial on [-ln2/2, ln2/2]
exp2     1     2^n times a polynomial on [-1/2, 1/2]
tanh     2     polynomial below 0.625, else from exp
sigmoid  3     from exp(-|x|)
erf      1     polynomial below 0.93, else 1 - exp(p(|x|))
======== ===== ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvm import tirx

from septran.targets.cpu import simd
from septran.targets.cpu.simd import constant, like
from septran.targets.lower.values import bits, element_of, lanes_of
from septran.targets.lower.writer import Expr, Writer

MAGIC = 12582912.0
"""1.5 * 2^23: added to a small float, it leaves the nearest integer in the low bits."""
_LEAST_NORMAL_BITS, _INFINITE_BITS = 0x00800000, 0x7F800000
"""Of float32."""
_BIASES = 254.0
"""Twice the bias of float32's exponents."""
FEWEST_LANES = 8
"""Lanes of float32 in a register of AVX2. One comparison of it decides for a wider vector."""
_EXP = (1.3814598e-3, 8.3687166e-3, 4.1668388e-2, 0.16666521, 0.49999994)
"""Of (exp(r) - 1 - r) / r^2 where |r| <= ln2/2, so that exp errs by at most 2^-28 (Remez)."""
_EXP2 = (1.5326464e-4, 1.3390806e-3, 9.618506e-3, 5.55036e-2, 0.24022648, 0.6931472)
"""Of (2^r - 1) / r where |r| <= 1/2, so that exp2 errs by at most 2^-28 (Remez)."""
_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -0.33333281942)
_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 0.112819925, -0.376125336, 0.128379166)
# ln2 in two parts, after Cody and Waite: the high one is 355/512, of 9 bits, so that n times it
# is exact in float32.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_LOG2_E = 1.4426950408889634


def polynomial(writer: Writer, x: Expr, coefficients: Sequence[float]) -> Expr:
    """After Horner, the highest coefficient first."""
    first, *rest = coefficients
    total = like(x, first)
    for coefficient in rest:
        total = writer.bind("p", simd.fma(total, x, like(x, coefficient)))
    return total


def _scale(writer: Writer, value: Expr, raw: Expr) -> Expr:
    """``value * 2^n`` for the bits of ``n + MAGIC + _BIASES``; in two steps, for denormals.

    Half of the bits, rounded down, has half of n and one bias at its low end, and so has
    the rest: shifted up, each is a power of two.
    """
    lanes = lanes_of(raw)
    half = writer.bind("h", raw >> constant(1, "int32", lanes))
    mantissa = constant(23, "int32", lanes)
    powers = [bits(p << mantissa, "float32") for p in (half, raw - half)]
    return tirx.Mul(writer.bind("q", tirx.Mul(value, powers[0])), powers[1])


def unless(
    writer: Writer,
    x: Expr,
    usual: Callable[[], Expr],
    plain: Callable[[], Expr],
    careful: Callable[[], Expr],
) -> Expr:
    """`plain` where `usual` holds of all lanes, which it mostly does, else `careful`.

    `plain` is computed in any case: only what every iteration of a loop does has its
    constants loaded before the loop. A single lane is not worth the question.
    """
    lanes = lanes_of(x)
    if lanes == 1:
        return careful()
    zero, result = writer.index(0), writer.allocate("e", lanes, "float32")
    simd.store(writer, result, zero, plain(), lanes)
    with writer.when(simd.unlikely(tirx.Not(usual()))):
        simd.store(writer, result, zero, careful(), lanes)
    return simd.load(result, zero, lanes)


def none_beyond(writer: Writer, x: Expr, limit: float) -> Expr:
    """Whether all magnitudes are at most `limit`; false where one is NaN.

    As integers, magnitudes are ordered like floats, and NaN is above infinity.
    """
    greatest = _greatest(writer, bits(magnitude_of(x), "int32"))
    return simd.every(bits(greatest, "float32") <= constant(limit, "float32", lanes_of(greatest)))


def all_normal(writer: Writer, x: Expr) -> Expr:
    """Whether all lanes are positive, finite and no denormals: false where one is NaN.

    As unsigned integers, counted from the least of these, all others are behind the last one.
    """
    shifted = bits(x, "uint32") - constant(_LEAST_NORMAL_BITS, "uint32", lanes_of(x))
    greatest = _greatest(writer, shifted)
    most = constant(_INFINITE_BITS - _LEAST_NORMAL_BITS, "uint32", lanes_of(greatest))
    return simd.every(greatest < most)


def _greatest(writer: Writer, sizes: Expr) -> Expr:
    """Integers of which one register is left: whole ones are joined, for one comparison."""
    lanes = lanes_of(sizes)
    while lanes > FEWEST_LANES:
        spare = writer.allocate("size", lanes, element_of(sizes))
        simd.store(writer, spare, writer.index(0), sizes, lanes)
        lanes //= 2
        low, high = (
            writer.bind("size", simd.load(spare, writer.index(start), lanes))
            for start in (0, lanes)
        )
        sizes = writer.bind("size", tirx.Select(low > high, low, high))
    return sizes


def exp(writer: Writer, x: Expr) -> Expr:
    """The natural exponential of each lane."""

    def plain() -> Expr:
        raw, r = _reduced(writer, x, MAGIC)
        return _raised(writer, _near_zero(writer, r), raw)

    def careful() -> Expr:
        # exp(-104) is below 2^-150, half of the least denormal, and rounds to 0; exp(89) is inf.
        clamped = writer.bind("x", _clamp(writer, x, -104.0, 89.0))
        raw, r = _reduced(writer, clamped, MAGIC + _BIASES)
        return _scale(writer, _near_zero(writer, r), raw)

    # Results are normal numbers from -87.33 to 88.72; one limit serves both signs.
    return unless(writer, x, lambda: none_beyond(writer, x, 87.0), plain, careful)


def _reduced(writer: Writer, x: Expr, shift: float) -> tuple[Expr, Expr]:
    """The bits of ``n + shift``, and r, where ``x = n * ln2 + r``."""
    biased = writer.bind("n", simd.fma(x, like(x, _LOG2_E), like(x, shift)))
    n = writer.bind("n", biased - like(x, shift))
    r = writer.bind("r", simd.fma(n, like(x, -_LN2_HIGH), x))
    return bits(biased, "int32"), writer.bind("r", simd.fma(n, like(x, -_LN2_LOW), r))


def exp2(writer: Writer, x: Expr) -> Expr:
    """2 to the power of each lane."""

    def reduced(x: Expr, shift: float) -> tuple[Expr, Expr]:
        biased = writer.bind("n", x + like(x, shift))
        n = writer.bind("n", biased - like(x, shift))
        # Exact, as the difference is at most 1/2 and a multiple of the last place of x.
        return bits(biased, "int32"), writer.bind("r", x - n)

    def plain() -> Expr:
        raw, r = reduced(x, MAGIC)
        return _raised(writer, _near_half(writer, r), raw)

    def careful() -> Expr:
        # 2^-151 is below half of the least denormal, and so rounds to 0; 2^129 overflows.
        clamped = writer.bind("x", _clamp(writer, x, -151.0, 129.0))
        raw, r = reduced(clamped, MAGIC + _BIASES)
        return _scale(writer, _near_half(writer, r), raw)

    return unless(writer, x, lambda: none_beyond(writer, x, 125.0), plain, careful)


def _raised(writer: Writer, value: Expr, raw: Expr) -> Expr:
    """``value * 2^n`` for the bits of ``n + MAGIC``, where the result is a normal number.

    n is added to the exponent; what else the bits hold is shifted out.
    """
    raised = bits(value, "int32") + (raw << constant(23, "int32", lanes_of(raw)))
    return writer.bind("q", bits(raised, "float32"))


def _near_zero(writer: Writer, r: Expr) -> Expr:
    """The exponential where ``|r| <= ln2 / 2``.

    After Estrin, in pairs, so that fewer steps wait for each other; 1 is added last, for
    the least rounding.
    """
    sixth, fifth, fourth, third, second = (like(r, c) for c in _EXP)
    square = writer.bind("s", r * r)
    low = writer.bind("p", simd.fma(third, r, second))
    high = writer.bind("p", simd.fma(fifth, r, fourth))
    high = writer.bind("p", simd.fma(sixth, square, high))
    both = writer.bind("p", simd.fma(high, square, low))
    return writer.bind("p", simd.fma(both, square, r)) + like(r, 1.0)


def _near_half(writer: Writer, r: Expr) -> Expr:
    """2 to the power r where ``|r| <= 1/2``: after Horner, for the least error (0.8 units)."""
    return polynomial(writer, r, (*_EXP2, 1.0))


def _clamp(writer: Writer, x: Expr, low: float, high: float) -> Expr:
    """`x` between two bounds; NaN stays NaN, as both comparisons then choose `x`."""
    bottom, top = like(x, low), like(x, high)
    above = writer.bind("x", tirx.Select(bottom > x, bottom, x))
    return tirx.Select(top < above, top, above)


def _or_nan(x: Expr, value: Expr) -> Expr:
    return tirx.Select(simd.unequal(x, x), x, value)


def magnitude_of(x: Expr) -> Expr:
    """A float32 without its sign."""
    mask = constant(0x7FFFFFFF, "int32", lanes_of(x))
    return bits(bits(x, "int32") & mask, "float32")


def _signed(value: Expr, sign_of: Expr) -> Expr:
    """`value`, which is not negative, with the sign of another."""
    sign = bits(sign_of, "uint32") & constant(0x80000000, "uint32", lanes_of(value))
    return bits(bits(value, "uint32") | sign, "float32")


def tanh(writer: Writer, x: Expr) -> Expr:
    """The hyperbolic tangent."""
    size = writer.bind("t", magnitude_of(x))
    e = writer.bind("e", exp(writer, writer.bind("x2", size + size)))
    # Where exp overflows, 2 / inf is 0 and leaves 1. Near 0 the difference would cancel.
    large = like(x, 1.0) - like(x, 2.0) / (e + like(x, 1.0))
    square = writer.bind("s", x * x)
    p = polynomial(writer, square, _TANH)
    small = writer.bind("y", simd.fma(p * square, x, x))
    # NaN fails the comparison and so takes the polynomial, which keeps it.
    return tirx.Select(size >= like(x, 0.625), _signed(large, x), small)


def sigmoid(writer: Writer, x: Expr) -> Expr:
    """1 / (1 + exp(-x))."""
    # Of -|x|, exp is at most 1, so that neither sign overflows.
    e = writer.bind("e", exp(writer, writer.bind("m", -magnitude_of(x))))
    one = like(x, 1.0)
    above = tirx.Select(x < like(x, 0.0), e, one)
    return _or_nan(x, above / (e + one))


def erf(writer: Writer, x: Expr) -> Expr:
    """The error function, after N. Juffa's single-precision erff."""
    t = writer.bind("t", magnitude_of(x))
    s = writer.bind("s", x * x)
    u = simd.fma(like(x, -3.88396438e-3), t, like(x, 2.42546219e-2))
    r = simd.fma(like(x, -1.72853470e-5), t, like(x, 3.83197126e-4))
    r = writer.bind("r", simd.fma(r, s, u))
    for coefficient in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = writer.bind("r", simd.fma(r, t, like(x, coefficient)))
    large = like(x, 1.0) - exp(writer, writer.bind("r", simd.fma(r, t, -t)))
    p = writer.bind("p", polynomial(writer, s, _ERF_SMALL))
    small = simd.fma(p, x, x)
    # NaN fails the comparison and so takes the polynomial, which keeps it.
    return tirx.Select(t > like(x, 0.927734375), _signed(writer.bind("y", large), x), small)


SINGLE: Mapping[str, Callable[[Writer, Expr], Expr]] = {
    "exp": exp,
    "exp2": exp2,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
}
"""By the name that expressions have for it."""
