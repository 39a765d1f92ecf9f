"""Scans of a tile: what comes of the elements up to each one, along an axis."""

from __future__ import annotations

from typing import Any

from septran.task.trace.scans import pending
from septran.task.trace.symbols import Expression
from septran.task.trace.tracing import current


def scan(
    function: str, x: Any, axis: int, reverse: bool = False, exclusive: bool = False
) -> Expression:
    """Return, for each element, what the elements up to it along an axis give together.

    Args:
        function: ``sum``, ``prod``, ``max`` or ``min``; NaN goes on to all that come after it.
        x: A tensor or an expression; 16- and 8-bit floats are joined in float32, sums and products
            of short integers in int32.
        axis: The axis, counted from 0, or from the end by -1.
        reverse: Begin at the end: the elements from each one on.
        exclusive: Leave the element itself out: the first result is 0 for sums, 1 for products,
            else the least or greatest value.
    """
    return pending(current(), x, function, axis, reverse, exclusive)


def cumsum(x: Any, axis: int, reverse: bool = False, exclusive: bool = False) -> Expression:
    """Return the sums of the elements up to each one along an axis; see `scan`."""
    return pending(current(), x, "sum", axis, reverse, exclusive)


def cumprod(x: Any, axis: int, reverse: bool = False, exclusive: bool = False) -> Expression:
    """Return the products of the elements up to each one along an axis; see `scan`."""
    return pending(current(), x, "prod", axis, reverse, exclusive)
