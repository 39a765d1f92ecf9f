"""NumPy-named functions on tensor expressions."""

from __future__ import annotations

from typing import Any

from septran.task.trace.symbols import Axes, Expression, apply, function, reduction, where

__all__ = [
    "abs", "ceil", "cos", "equal", "erf", "exp", "exp2", "floor", "floor_divide", "gelu",
    "log", "log2", "max", "maximum", "min", "minimum", "power", "relu", "round", "rsqrt",
    "sigmoid", "silu", "sin", "sqrt", "sum", "tanh", "where",
]  # fmt: skip


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Expression:
    """Return the greatest element along an axis, several axes, or of all; NaN if one is NaN."""
    return reduction("max", x, axis, keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Expression:
    """Return the least element along an axis, several axes, or of all; NaN if one is NaN."""
    return reduction("min", x, axis, keepdims)


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Expression:
    """Return the sum along an axis, several axes, or of all; short integers are summed in int32."""
    return reduction("sum", x, axis, keepdims)


def maximum(x: Any, y: Any) -> Expression:
    """Return the greater of two elements; NaN if one is NaN."""
    return apply("maximum", x, y)


def minimum(x: Any, y: Any) -> Expression:
    """Return the lesser of two elements; NaN if one is NaN."""
    return apply("minimum", x, y)


def power(x: Any, y: Any) -> Expression:
    """X to the power of y; for integers modulo the type, for negative exponents 1, -1 or 0."""
    return apply("power", x, y)


def floor_divide(x: Any, y: Any) -> Expression:
    """Return x / y rounded down; an integer divided by 0 is 0."""
    return apply("floor_divide", x, y)


def equal(x: Any, y: Any) -> Expression:
    """Return whether elements are equal, as bool."""
    return apply("equal", x, y)


def exp(x: Any) -> Expression:
    """Return e to the power of x."""
    return function("exp", x)


def exp2(x: Any) -> Expression:
    """Return 2 to the power of x."""
    return function("exp2", x)


def log(x: Any) -> Expression:
    """Return the natural logarithm."""
    return function("log", x)


def log2(x: Any) -> Expression:
    """Return the logarithm to base 2."""
    return function("log2", x)


def sqrt(x: Any) -> Expression:
    """Return the square root."""
    return function("sqrt", x)


def rsqrt(x: Any) -> Expression:
    """Return 1 / sqrt(x)."""
    return function("rsqrt", x)


def tanh(x: Any) -> Expression:
    """Return the hyperbolic tangent."""
    return function("tanh", x)


def sigmoid(x: Any) -> Expression:
    """Return 1 / (1 + exp(-x))."""
    return function("sigmoid", x)


def erf(x: Any) -> Expression:
    """Return the error function."""
    return function("erf", x)


def sin(x: Any) -> Expression:
    """Return the sine of x in radians."""
    return function("sin", x)


def cos(x: Any) -> Expression:
    """Return the cosine of x in radians."""
    return function("cos", x)


def floor(x: Any) -> Expression:
    """Return x rounded down."""
    return function("floor", x)


def ceil(x: Any) -> Expression:
    """Return x rounded up."""
    return function("ceil", x)


def round(x: Any) -> Expression:
    """Return x rounded to the nearest integer, halves to even."""
    return function("round", x)


def abs(x: Any) -> Expression:
    """Return the absolute value."""
    return function("abs", x)


def relu(x: Any) -> Expression:
    """Return max(x, 0)."""
    return apply("maximum", x, 0)


def silu(x: Any) -> Expression:
    """Return x * sigmoid(x)."""
    return apply("multiply", x, sigmoid(x))


def gelu(x: Any) -> Expression:
    """Return x times the normal distribution function of x, by erf (torch's default form)."""
    # The normal distribution function is (1 + erf(x / sqrt(2))) / 2, and 0.7071... is 1 / sqrt(2).
    half = apply("multiply", x, 0.5)
    return apply("multiply", half, 1.0 + erf(apply("multiply", x, 0.7071067811865476)))
