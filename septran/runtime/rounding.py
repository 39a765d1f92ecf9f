"""Numbers with error bounds: how far rounding may take each operation from the exact value.

A `Bounded` has the value that exact arithmetic would give (in float64) and, element by element, a
bound on the error of a kernel that rounds every operation to its dtype and sums in any order.
Basic operations are taken to be rounded correctly; the functions below may be off by as many units
of roundoff as `UNITS` says: that is the accuracy that every target promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from septran.dtypes import (
    bits_dtype,
    has_infinity,
    is_float,
    numpy_dtype,
    promote,
    unit_roundoff,
)
from septran.ir.expressions import COMPARISONS
from septran.ir.numerics import BINARY, UNARY, convert, identity
from septran.ir.scans import scanned
from septran.ir.sorting import first_in_order, order
from septran.runtime.shared_errors import ErrorSources, joined

Array = np.ndarray[Any, Any]

UNITS: Mapping[str, float] = {
    "exp": 8, "exp2": 8, "log": 8, "log2": 8, "sqrt": 2, "rsqrt": 4, "tanh": 16,
    "sigmoid": 16, "erf": 16, "sin": 8, "cos": 8, "power": 32, "divide": 2,
}  # fmt: skip
"""The units of roundoff (half an ulp) that a function's result may be off by; else 1."""


@dataclass(frozen=True)
class Bounded:
    """Values with a bound on the error of each; truth values are exact or unknown."""

    value: Array
    error: Array
    """The bounds, not negative; infinite where nothing can be promised."""
    dtype: str
    """The type in which a kernel holds the value."""
    sources: ErrorSources | None = None
    """The part of the errors whose sources are known; None where they are not followed."""

    @property
    def rest(self) -> Array:
        """The part of the errors of which no source is known."""
        if self.sources is None:
            return self.error
        return np.asarray(np.maximum(self.error - self.sources.reach, 0.0))

    def of(self, sources: ErrorSources | None) -> Bounded:
        """Return the number with the sources of its errors, where these are not lost."""
        if sources is None:
            return self
        return replace(self, sources=sources.where((self.error > 0) & np.isfinite(self.error)))

    @property
    def reach(self) -> Array:
        """The greatest magnitude that a kernel may have here, except for certain infinities."""
        return size(self.value) + self.error


def exact(value: Any) -> Bounded:
    """Return a number without error, in its own dtype; floats are held in float64."""
    array = np.asarray(value)
    dtype = str(array.dtype)
    if array.dtype.kind not in "iub":
        array = array.astype(np.float64)
    return Bounded(array, np.zeros(array.shape), dtype)


ADDED = 32
"""Products of 8 bits that a tensor core adds at once."""


def rounded(value: Array, error: Array, dtype: str, units: float = 1.0) -> Bounded:
    """Return the result of a float operation off by `units` of roundoff; 0 for exact ones.

    A certain overflow is infinite, or NaN in a type without infinities; a possible one is unknown.
    """
    magnitude, greatest = size(value), largest(dtype)
    if units:  # else 0 times what is unknown would make it known
        error = error + units * unit_roundoff(dtype) * (magnitude + error) + smallest(dtype)
    certain = magnitude - error > greatest
    unsure = (magnitude + error > greatest) & np.isfinite(value) & ~certain
    value = np.where(certain, np.copysign(np.inf, value), value)
    if not has_infinity(dtype):
        value = np.where(np.isinf(value), np.nan, value)
    error = np.where(certain, 0.0, np.where(unsure, np.inf, error))
    return Bounded(value, _settled(value, error), dtype)


def size(value: Array) -> Array:
    """Return the magnitude; 0 for infinities and NaN, which no rounding changes."""
    real = np.abs(_real(value))
    return np.where(np.isfinite(real), real, 0.0)


def gamma(count: Array | float, dtype: str) -> Any:
    """Return the relative error of `count` roundings in a row: ``n*u / (1 - n*u)``.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, lemma 3.1.
    """
    product = np.asarray(count) * unit_roundoff(dtype)
    # The lemma needs n*u < 1; from 1/2 on its bound is the whole value, and promises nothing.
    return np.where(product < 0.5, product / (1 - np.minimum(product, 0.5)), np.inf)


def cut_terms(a: Array, b: Array, before: Array, bits: int) -> Any:
    """Return a bound on what is lost of ``before + a @ b`` where an adder keeps so many bits.

    Tensor cores add `ADDED` products and the sum so far at once: they align these terms to the
    greatest of them, and cut off what is below the last of its bits. Source: Fasi, Higham, Mikaitis
    and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7 (2021), e330.
    """
    total = _real(before)
    count = a.shape[1]
    largest_products = size(a).max(1, initial=0)[:, None] * size(b).max(0, initial=0)
    greatest = np.maximum(size(before), largest_products)
    for first in range(0, count, ADDED):
        step = slice(first, first + ADDED)
        total = total + _real(a)[:, step] @ _real(b)[step]
        greatest = np.maximum(greatest, size(total))
    return (count + -(-count // ADDED)) * 2.0 ** (1 - bits) * greatest


def smallest(dtype: str) -> float:
    """Return the error of an underflow: the least normal number, as hardware may flush to zero."""
    return float(_info(dtype).smallest_normal)


def flushed(x: Bounded) -> Bounded:
    """Return a number that may be zero where it is below the normal ones."""
    small = (size(x.value) > 0) & (size(x.value) - x.error < smallest(x.dtype))
    return replace(x, error=np.where(small, x.error + size(x.value), x.error))


def overflows(value: Array, magnitude: Array, dtype: str) -> Array:
    """Return where a sum may overflow on the way to its `value`, and then end elsewhere.

    `magnitude` is the sum of the finite terms' magnitudes: any order may add those of one sign
    first. Infinities of both signs would make NaN of it; NaN stays what it is.
    """
    greatest, finite = largest(dtype), np.isfinite(value)
    # The terms of the value's sign, and those of the other one, as far as they are known apart.
    along = np.where(finite, (magnitude + size(value)) / 2, magnitude)
    against = np.where(finite, (magnitude - size(value)) / 2, magnitude)
    certain = (np.abs(_real(value)) > greatest) & (against <= greatest)
    return (along > greatest) & ~np.isnan(value) & ~certain


def largest(dtype: str) -> float:
    """Return the greatest finite number."""
    return float(_info(dtype).max)


def cast(x: Bounded, dtype: str) -> Bounded:
    """Return the number in another dtype; widening a float loses nothing."""
    if dtype == x.dtype or (is_float(x.dtype) and promote(x.dtype, dtype) == dtype):
        return replace(x, dtype=dtype)
    if is_float(dtype):
        value = _real(x.value)
        return rounded(value, x.error, dtype, 0.0 if _fits(value, dtype) else 1.0).of(x.sources)
    target = numpy_dtype(dtype)
    if x.value.dtype.kind in "iub":
        error = _unknown(x.error > 0) if dtype == "bool" else within(x.value, x.error, dtype)
        return Bounded(convert(x.value, target), error, dtype)
    if dtype == "bool":
        unsure = (np.abs(x.value) <= x.error) & (x.error > 0)
        return Bounded(convert(x.value, target), _unknown(unsure), dtype)
    # Truncation is monotone, so the ends of the interval decide.
    whole, low, high = (np.trunc(x.value + e) for e in (0, -x.error, x.error))
    error = np.where(low != high, np.fmax(whole - low, high - whole), 0.0)
    error = np.where(np.isnan(x.value), np.where(x.error == 0, 0.0, np.inf), error)
    return Bounded(convert(x.value, target), within(whole, error, dtype), dtype)


def within(value: Array, error: Array, dtype: str) -> Array:
    """Return an integer's error; infinite where it may wrap, or is not known."""
    limits = np.iinfo(numpy_dtype(dtype))
    real = _real(value)
    with np.errstate(invalid="ignore"):
        inside = (real - error >= limits.min) & (real + error <= limits.max)
    return np.where(error == 0, 0.0, np.where(inside, error, np.inf))


def off_by(a: Bounded, b: Bounded) -> Array:
    """Return the error bound of a product of integer matrices, given those of its operands."""
    with np.errstate(invalid="ignore"):
        error = size(a.value) @ b.error + a.error @ (size(b.value) + b.error)
    return np.where(np.isnan(error), np.inf, error)


def unary(function: str, x: Bounded, dtype: str) -> Bounded:
    """Return a function of one element, in `dtype`."""
    if function == "not":
        return Bounded(np.logical_not(x.value), _unknown(x.error > 0), dtype)
    x = cast(x, dtype)
    if not is_float(dtype):
        return Bounded(UNARY[function](x.value), x.error, dtype)
    value, error = _UNARY[function](x.value, x.error)
    if function in ("sin", "cos"):  # relative to 1: near a root no kernel keeps digits
        return rounded(value, error + UNITS[function] * unit_roundoff(dtype), dtype, 0.0)
    exactly = function in ("neg", "abs", "floor", "ceil", "round")
    result = rounded(value, error, dtype, 0.0 if exactly else UNITS[function])
    if function == "neg" and x.sources is not None:
        return result.of(x.sources.scaled(-1.0))
    vanished = np.isinf(x.value) & (x.error == 0) & (value == 0)  # exp(-inf) is 0, not tiny
    return replace(result, error=np.where(vanished, 0.0, result.error))


def binary(function: str, x: Bounded, y: Bounded, dtype: str, common: str) -> Bounded:
    """Return a function of two elements, which are converted to `common` first."""
    x, y = cast(x, common), cast(y, common)
    if function in COMPARISONS:
        near = np.abs(_real(x.value) - _real(y.value)) <= x.error + y.error
        unsure = near & ((x.error > 0) | (y.error > 0))
        return Bounded(BINARY[function](x.value, y.value), _unknown(unsure), dtype)
    if not is_float(dtype):
        whole = np.asarray(BINARY[function](x.value, y.value))
        return Bounded(whole, _unknown((x.error > 0) | (y.error > 0)), dtype)
    value, error = _BINARY[function](x, y)
    linear, sources = function in ("add", "subtract"), None
    if linear and (x.sources is not None or y.sources is not None):
        sources = _sum_of_sources(x, y, 1.0 if function == "add" else -1.0)
        error = sources.reach + x.rest + y.rest
    choice = function in ("maximum", "minimum")
    result = rounded(value, error, dtype, 0.0 if choice else UNITS.get(function, 1.0))
    # A sum of certain zeros is none that may have lost something: log of it is -inf.
    vanished = (value == 0) & (error == 0) & linear
    return replace(result, error=np.where(vanished, 0.0, result.error)).of(sources)


def _sum_of_sources(x: Bounded, y: Bounded, sign: float) -> ErrorSources:
    """Return the sources of ``x + sign * y``, of which one has some."""
    parts = [s for s in (x.sources, y.sources and y.sources.scaled(sign)) if s is not None]
    return joined(*parts)


def select(condition: Bounded, yes: Bounded, no: Bounded, dtype: str) -> Bounded:
    """Return one of two; where the condition is unsure, either."""
    yes, no = cast(yes, dtype), cast(no, dtype)
    truth = condition.value.astype(bool)
    value = np.where(truth, yes.value, no.value)
    error = np.where(truth, yes.error, no.error)
    if condition.error.any():
        same = _real(yes.value) == _real(no.value)
        apart = np.where(same, 0.0, np.abs(_real(yes.value) - _real(no.value)))
        either = apart + np.maximum(yes.error, no.error)
        error = np.where(condition.error > 0, np.where(np.isnan(either), np.inf, either), error)
    sure = condition.error == 0
    parts = [
        x.sources.where(sure & chosen)
        for x, chosen in ((yes, truth), (no, ~truth)) if x.sources is not None
    ]  # fmt: skip
    return Bounded(value, error, dtype).of(joined(*parts) if parts else None)


def reduce(function: str, x: Bounded, axis: int, dtype: str) -> Bounded:
    """Return a reduction along one axis, in any order."""
    x = cast(x, dtype)
    if function != "sum":
        pick = np.maximum if function == "max" else np.minimum
        value = pick.reduce(x.value, axis=axis, initial=identity(function, x.value.dtype))
        return Bounded(value, _of_winners(function, x, axis), dtype)
    if not is_float(dtype):
        value = np.sum(x.value, axis=axis, dtype=x.value.dtype)
        return Bounded(value, _unknown(x.error.any(axis=axis)), dtype)
    # A sum of n terms takes n - 1 additions in any order (Higham, section 4.2).
    count = max(0, x.value.shape[axis] - 1)
    value, magnitude = x.value.sum(axis=axis), x.reach.sum(axis=axis)
    error = x.error.sum(axis=axis) + gamma(count, dtype) * magnitude
    error = np.where(overflows(value, magnitude, dtype), np.inf, error)
    return rounded(value, error, dtype, 0.0)


def _of_winners(function: str, x: Bounded, axis: int) -> Array:
    """Return the greatest error among those along an axis that may be the extreme."""
    sign = 1.0 if function == "max" else -1.0
    signed, error = sign * _real(x.value), np.broadcast_to(x.error, x.value.shape)
    sure = np.fmax.reduce(signed - error, axis=axis, keepdims=True, initial=-np.inf)
    behind = signed + error < sure  # never of NaN, which wins
    found: Array = np.where(behind, 0.0, error).max(axis=axis, initial=0.0)
    return found


def scan(x: Bounded, dtype: str, **attributes: Any) -> Bounded:
    """Return a scan along one axis, whose parts are joined in any grouping."""
    function, x = attributes["function"], cast(x, dtype)

    def along(values: Array, how: str) -> Array:
        return scanned(values, **{**attributes, "function": how})

    value = along(x.value, function)
    if not is_float(dtype):
        return Bounded(value, _unknown(along(x.error, "sum") > 0), dtype)
    if function in ("max", "min"):
        return Bounded(value, along(x.error, "max").clip(0.0), dtype)
    count = np.maximum(along(np.ones(x.value.shape), "sum") - 1, 0)
    if function == "sum":
        magnitude = along(x.reach, "sum")
        error = along(x.error, "sum") + gamma(count, dtype) * magnitude
        error = np.where(overflows(value, magnitude, dtype), np.inf, error)
    else:
        reach = along(x.reach, "prod")
        error = reach * (1 + gamma(count, dtype)) - size(value)
        error = np.where(_leaves_range(x, along, dtype), np.inf, error)
    return rounded(value, error, dtype, 0.0)


def sort(x: Bounded, count: int, *, descending: bool) -> Bounded:
    """Return the first elements of each row in order, each off by no more than any of its row.

    Numbers that differ by at most e from others differ, once both are in order, by at most e.
    """
    value = first_in_order(x.value, count, descending=descending)
    error = np.broadcast_to(x.error, x.value.shape).max(axis=-1, keepdims=True, initial=0.0)
    return Bounded(value, np.broadcast_to(error, value.shape), x.dtype)


def argsort(x: Bounded, count: int, *, descending: bool) -> Bounded:
    """Return the places of the first elements of each row in order.

    A place is known where no element before it and none behind it may change places with it.
    """
    value = order(x.value, descending=descending)
    sign = -1.0 if descending else 1.0
    ranked = sign * np.take_along_axis(x.value.astype(float), value, -1)
    error = np.take_along_axis(np.broadcast_to(x.error, x.value.shape), value, -1)
    low, high = ranked - error, ranked + error
    # The greatest of those before each place, and the least of those behind it.
    none = np.full((*low.shape[:-1], 1), np.inf)
    before = np.concatenate([-none, np.maximum.accumulate(high, -1)[..., :-1]], -1)
    behind = np.minimum.accumulate(low[..., ::-1], -1)[..., ::-1]
    behind = np.concatenate([behind[..., 1:], none], -1)
    exact = ~error.any(axis=-1, keepdims=True)
    unsure = ~(exact | ((before < low) & (high < behind)))
    return Bounded(value[..., :count], _unknown(unsure)[..., :count], "int64")


def lost(x: Bounded) -> Bounded:
    """Return the same values, of which none is known."""
    return replace(x, error=np.full(np.shape(x.value), np.inf))


def solved(lower: Bounded, right: Bounded, dtype: str, *, unit: bool) -> Bounded:
    """Return X with L X = B by substitution, whose sums are in any order.

    A row found in any order is the exact one of ``b[i] = sum over j <= i of (1 + t[j]) l[i, j]
    x[j]`` with ``|t[j]| <= gamma(i + 1)``, where a division may be off by two units (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd edition, lemma 8.4, theorem 8.5). The
    differences from the exact rows then satisfy a triangular system in magnitudes, which is
    solved from the first row on, as for the comparison matrix M(L) there (section 8.2).
    """
    low, right = cast(lower, dtype), cast(right, dtype)
    value, error = np.array(right.value), np.array(right.error)
    size_of, tiny = size(low.value), smallest(dtype)
    for i in range(len(value)):
        known, off = slice(0, i), gamma(i + UNITS["divide"], dtype)
        reach = size(value[known]) + error[known]
        row, doubt = size_of[i, known], low.error[i, known]
        rest = error[i] + row @ error[known] + doubt @ reach + off * ((row + doubt) @ reach)
        rest = rest + (i + 1) * tiny  # products and sums below the normal numbers
        most = size(value[i]) + error[i] + (row + doubt) @ reach
        value[i] -= low.value[i, known] @ value[known]
        # The diagonal's own doubt: of ones there is only that of the sum's roundings.
        own, unsure = (1.0, 0.0) if unit else (size_of[i, i], low.error[i, i])
        loose = unsure + off * (own + unsure)
        if not unit:
            value[i] /= low.value[i, i]
        sure = own - loose
        error[i] = np.where(sure > 0, (rest + loose * size(value[i])) / sure + tiny, np.inf)
        # Some order of a sum may overflow on the way.
        error[i] = np.where(np.isnan(error[i]) | (most > largest(dtype)), np.inf, error[i])
    return rounded(value, error, dtype, 0.0)


def _leaves_range(x: Bounded, along: Callable[[Array, str], Array], dtype: str) -> Array:
    """Return where some grouping of a product's factors may overflow, or be below normal numbers.

    Exact zeros, infinities and NaN are left out: what they are multiplied by is in range.
    """
    certain = (x.error == 0) & ((x.value == 0) | ~np.isfinite(x.value))
    greatest, least = (np.where(certain, 1.0, size(x.value) + e) for e in (x.error, -x.error))
    high = along(np.log2(np.maximum(greatest, 1.0)), "sum")
    low = along(np.log2(np.clip(least, 0.0, 1.0)), "sum")
    several = along(np.ones(x.value.shape), "sum") > 1
    beyond = (high >= np.log2(largest(dtype))) | (low <= np.log2(smallest(dtype)) + 1)
    return np.asarray(several & beyond)


def _info(dtype: str) -> Any:
    if bits_dtype(dtype) is not None:
        import ml_dtypes

        limits: Any = ml_dtypes.finfo  # it has no annotations
        return limits(dtype)
    return np.finfo(dtype)


def _fits(value: Array, dtype: str) -> bool:
    """Return whether every value can be represented in `dtype`."""
    kept = convert(value, numpy_dtype(dtype)).astype(np.float64)
    return bool(np.all((kept == value) | np.isnan(value)))


def _real(value: Array) -> Array:
    return value if value.dtype == np.float64 else value.astype(np.float64)


def _unknown(where: Any) -> Array:
    return np.where(where, np.inf, 0.0)


def _settled(value: Array, error: Array) -> Array:
    """Return errors with 0 for certain infinities and NaN, and infinity where nothing is known."""
    error = np.broadcast_to(error, np.shape(value))
    if value.dtype.kind != "f":
        return error
    finite = np.isfinite(value)
    error = np.where(np.isnan(error), np.where(finite, np.inf, 0.0), error)
    return np.where(finite | np.isinf(error), error, 0.0)


Ends = tuple[Array, Array]


def _ends(function: Callable[[Array], Array]) -> Callable[[Array, Array], Ends]:
    """Return the rule of a monotone function: how far its values at both ends are."""

    def rule(v: Array, e: Array) -> Ends:
        value = function(v)
        if not np.any(e):
            return value, np.zeros(np.shape(value))
        low, high = np.abs(function(v - e) - value), np.abs(function(v + e) - value)
        return value, np.fmax(low, high)

    return rule


def _slope(
    function: Callable[[Array], Array], steepest: Callable[[Array], Array]
) -> Callable[[Array, Array], Ends]:
    """Return the rule of a function whose slope falls with |x|: the error times the slope."""

    def rule(v: Array, e: Array) -> Ends:
        return function(v), e * steepest(np.maximum(np.abs(v) - e, 0.0))

    return rule


def _logarithm(function: Callable[[Array], Array], scale: float) -> Callable[[Array, Array], Ends]:
    def rule(v: Array, e: Array) -> Ends:
        inside = v > e
        # log is concave, so it changes most to the left: log(v) - log(v - e) = -log1p(-e / v).
        ratio = np.where(inside, e / np.where(inside, v, 1.0), 0.0)
        error = np.where(inside, -np.log1p(-ratio) * scale, np.where(e > 0, np.inf, 0.0))
        return function(v), error

    return rule


def _sqrt(v: Array, e: Array) -> Ends:
    value = np.sqrt(v)
    # sqrt is concave, so it changes most to the left.
    unsure = (v < e) & (e > 0) & (v - e < 0)
    error = np.where(unsure & (v < 0), np.inf, value - np.sqrt(np.maximum(v - e, 0.0)))
    return value, error


def _rsqrt(v: Array, e: Array) -> Ends:
    value = 1 / np.sqrt(v)
    inside = v > e
    # rsqrt is convex and falls, so it changes most to the left.
    low = np.where(inside, v - e, 1.0)
    return value, np.where(inside, 1 / np.sqrt(low) - value, np.where(e > 0, np.inf, 0.0))


def _exponential(function: Callable[[Array], Array], log: float) -> Callable[[Array, Array], Ends]:
    """Return the rule of a power of a base with this logarithm, which grows most to the right."""

    def rule(v: Array, e: Array) -> Ends:
        value = function(v)
        # By factors where the end is near; far from it, as of -1e30 to within 1e23, those overflow.
        far = np.where(np.isinf(value), np.inf, function(v + e) * _UPWARDS - value)
        return value, np.where(e > 1, far, value * np.expm1(e * log))

    return rule


_UPWARDS = 1 + 1e-12
"""What makes up for the rounding of an exponent's sum, in float64, up to its largest number."""
_erf = np.vectorize(math.erf, otypes=[np.float64])

# Each rule bounds |f(v + d) - f(v)| for |d| <= e: exp(v + e) - exp(v) is exp(v) * expm1(e).
_UNARY: Mapping[str, Callable[[Array, Array], Ends]] = {
    "neg": lambda v, e: (-v, e),
    "abs": lambda v, e: (np.abs(v), e),
    "exp": _exponential(np.exp, 1.0),
    "exp2": _exponential(np.exp2, math.log(2)),
    "log": _logarithm(np.log, 1.0),
    "log2": _logarithm(np.log2, 1 / math.log(2)),
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "tanh": _slope(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": _slope(lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
    "erf": _slope(_erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x**2))),
    # No slope is above 1, and no two values are more than 2 apart.
    "sin": lambda v, e: (np.sin(v), np.minimum(e, 2.0)),
    "cos": lambda v, e: (np.cos(v), np.minimum(e, 2.0)),
    "floor": _ends(np.floor),
    "ceil": _ends(np.ceil),
    "round": _ends(np.rint),
}


def _multiply(x: Bounded, y: Bounded) -> Ends:
    value = x.value * y.value
    error = size(x.value) * y.error + x.error * size(y.value) + x.error * y.error
    # Infinity times what may be 0, or of either sign, can be anything.
    unsure = ~np.isfinite(value) & (near_zero(x) | near_zero(y))
    return value, np.where(unsure, np.inf, error)


def _divide(x: Bounded, y: Bounded) -> Ends:
    value = x.value / y.value
    # (x + dx) / (y + dy) - x / y = (dx - x / y * dy) / (y + dy)
    room = np.abs(y.value) - y.error
    inside = room > 0
    error = (x.error + size(value) * y.error) / np.where(inside, room, 1.0)
    return value, np.where(inside, error, np.where(y.error > 0, np.inf, 0.0))


def near_zero(x: Bounded) -> Array:
    """Return where a number may be 0 or of either sign."""
    return (x.error > 0) & (np.abs(x.value) <= x.error)


def _floor_divide(x: Bounded, y: Bounded) -> Ends:
    _, error = _divide(x, y)
    return _ends(np.floor)(x.value / y.value, error)


def _remainder(x: Bounded, y: Bounded) -> Ends:
    whole, jump = _floor_divide(x, y)
    error = x.error + size(whole) * y.error
    # Where the quotient may jump, the remainder may be anything below the divisor.
    reach = np.abs(y.value) + y.error
    return np.remainder(x.value, y.value), np.where(jump > 0, reach, error)


def _power(x: Bounded, y: Bounded) -> Ends:
    value = np.power(x.value, y.value)
    if not (np.any(x.error) or np.any(y.error)):
        return value, np.zeros(np.shape(value))
    error = np.zeros(np.shape(value))
    # Of bases above 0 the power is monotone in both, so that the corners have its extremes.
    for base in (x.value - x.error, x.value + x.error):
        for exponent in (y.value - y.error, y.value + y.error):
            error = np.maximum(error, np.abs(np.power(base, exponent) - value))
    crosses = np.abs(x.value) <= x.error  # the base may be 0, and the extreme lie there
    crosses &= x.error > 0
    whole = (y.error == 0) & (y.value == np.rint(y.value)) & (y.value >= 0)
    inside = np.where(whole, np.maximum(error, np.abs(value)), np.inf)
    return value, np.where(crosses, inside, error)


def _of_winner(x: Bounded, y: Bounded, ahead: Array) -> Array:
    """Return the error of what is chosen, of either if unsure: x is `ahead` of y by so much."""
    doubt = x.error + y.error
    found = np.where(-ahead > doubt, y.error, np.maximum(x.error, y.error))
    return np.where(ahead > doubt, x.error, found)


_BINARY: Mapping[str, Callable[[Bounded, Bounded], Ends]] = {
    "add": lambda x, y: (x.value + y.value, x.error + y.error),
    "subtract": lambda x, y: (x.value - y.value, x.error + y.error),
    "multiply": _multiply,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "maximum": lambda x, y: (np.maximum(x.value, y.value), _of_winner(x, y, x.value - y.value)),
    "minimum": lambda x, y: (np.minimum(x.value, y.value), _of_winner(x, y, y.value - x.value)),
}
