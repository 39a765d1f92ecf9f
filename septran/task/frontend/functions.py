"""NumPy-named functions on tensor expressions."""

from __future__ import annotations

from typing import Any

from septran.task.trace.symbols import Expression, apply, function, reduction, where

__all__ = [
    "abs", "ceil", "cos", "equal", "erf", "exp", "exp2", "floor", "floor_divide", "gelu",
    "log", "log2", "max", "maximum", "min", "minimum", "power", "relu", "round", "rsqrt",
    "sigmoid", "silu", "sin", "sqrt", "sum", "tanh", "where",
]  # fmt: skip


def max(x: Any, axis: int | None = None, keepdims: bool = False) -> Expression:
    """The greatest element along an axis; NaN where there is one."""
    return reduction("max", x, axis, keepdims)


def min(x: Any, axis: int | None = None, keepdims: bool = False) -> Expression:
    """The least element along an axis; NaN where there is one."""
    return reduction("min", x, axis, keepdims)


def sum(x: Any, axis: int | None = None, keepdims: bool = False) -> Expression:
    """The sum along an axis."""
    return reduction("sum", x, axis, keepdims)


def maximum(x: Any, y: Any) -> Expression:
    """The greater of two; NaN where one is."""
    return apply("maximum", x, y)


def minimum(x: Any, y: Any) -> Expression:
    """The lesser of two; NaN where one is."""
    return apply("minimum", x, y)


def power(x: Any, y: Any) -> Expression:
    """X to the power of y."""
    return apply("power", x, y)


def floor_divide(x: Any, y: Any) -> Expression:
    """Division rounded down."""
    return apply("floor_divide", x, y)


def equal(x: Any, y: Any) -> Expression:
    """Whether elements are equal."""
    return apply("equal", x, y)


def exp(x: Any) -> Expression:
    """E to the power of x."""
    return function("exp", x)


def exp2(x: Any) -> Expression:
    """2 to the power of x."""
    return function("exp2", x)


def log(x: Any) -> Expression:
    """The natural logarithm."""
    return function("log", x)


def log2(x: Any) -> Expression:
    """The logarithm to base 2."""
    return function("log2", x)


def sqrt(x: Any) -> Expression:
    """The square root."""
    return function("sqrt", x)


def rsqrt(x: Any) -> Expression:
    """1 / sqrt(x)."""
    return function("rsqrt", x)


def tanh(x: Any) -> Expression:
    """The hyperbolic tangent."""
    return function("tanh", x)


def sigmoid(x: Any) -> Expression:
    """1 / (1 + exp(-x))."""
    return function("sigmoid", x)


def erf(x: Any) -> Expression:
    """The error function."""
    return function("erf", x)


def sin(x: Any) -> Expression:
    """The sine."""
    return function("sin", x)


def cos(x: Any) -> Expression:
    """The cosine."""
    return function("cos", x)


def floor(x: Any) -> Expression:
    """Rounded down."""
    return function("floor", x)


def ceil(x: Any) -> Expression:
    """Rounded up."""
    return function("ceil", x)


def round(x: Any) -> Expression:
    """Rounded to the nearest integer, halves to even."""
    return function("round", x)


def abs(x: Any) -> Expression:
    """The absolute value."""
    return function("abs", x)


def relu(x: Any) -> Expression:
    """max(x, 0)."""
    return apply("maximum", x, 0)


def silu(x: Any) -> Expression:
    """X * sigmoid(x)."""
    return apply("multiply", x, sigmoid(x))


def gelu(x: Any) -> Expression:
    """X times the normal distribution function of x, by erf (torch's default)."""
    half = apply("multiply", x, 0.5)
    return apply("multiply", half, 1.0 + erf(apply("multiply", x, 0.7071067811865476)))
