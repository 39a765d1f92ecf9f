"""TensorIR values: their type, their lanes, and the same value as another type."""

from __future__ import annotations

from tvm import tirx

from septran.dtypes import itemsize
from septran.targets.lower.writer import Expr


def vector_type(dtype: str, lanes: int) -> str:
    """TensorIR's name of the type."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def lanes_of(value: Expr) -> int:
    """Return how many lanes an expression has."""
    text = str(value.ty.dtype)
    _, _, count = text.partition("x")
    return int(count) if count else 1


def element_of(value: Expr) -> str:
    """The dtype of each lane."""
    return str(value.ty.dtype).partition("x")[0]


def broadcast(value: Expr, lanes: int) -> Expr:
    """A scalar in every lane; vectors stay themselves."""
    if lanes == 1 or lanes_of(value) == lanes:
        return value
    return tirx.Broadcast(value, lanes)


def cast(value: Expr, dtype: str) -> Expr:
    """Each lane converted to `dtype`, as the target's language does it."""
    if element_of(value) == dtype:
        return value
    return tirx.Cast(vector_type(dtype, lanes_of(value)), value)


def bits(value: Expr, dtype: str) -> Expr:
    """The same bits read as elements of another type, more or fewer where these differ in size."""
    if element_of(value) == dtype:
        return value
    size = lanes_of(value) * itemsize(element_of(value))
    return tirx.reinterpret(vector_type(dtype, size // itemsize(dtype)), value)
