"""Scans of a tile: what comes of the elements up to each one, along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from septran.location import Location
from septran.task.errors import ScanError
from septran.task.frontend.joined_scans import joined_scan
from septran.task.trace.scans import pending
from septran.task.trace.symbols import Expression
from septran.task.trace.tracing import current


def scan(
    function: str | Callable[[Any, Any], Any], x: Any, axis: int, reverse: bool = False,
    exclusive: bool = False, identity: Any = None,
) -> Any:  # fmt: skip
    """Return, for each element, what the elements up to it along an axis give together.

    Args:
        function: ``sum``, ``prod``, ``max`` or ``min``, of which NaN goes on to all that come
            after it; or an associative function of two parts, the first of which comes before the
            other: of two tuples, where `x` is one, which returns a tuple as long.
        x: A tensor or an expression, or a tuple of some, which are scanned together; 16- and 8-bit
            floats are joined in float32, short integers in int32 (but for ``max`` and ``min``).
        axis: The axis, counted from 0, or from the end by -1.
        reverse: Begin at the end: the elements from each one on.
        exclusive: Leave the element itself out: the first result is 0 for sums, 1 for products,
            else the least or greatest value.
        identity: With a function of the logic, what an exclusive scan begins with: a number, or one
            for each of a tuple, which changes nothing that it is joined with.

    By a function of the logic it is computed where it stands, and the results are tensors.

    Raises:
        ScanError: the function is not associative, or the identity changes something or has no use.
    """
    if callable(function):
        return joined_scan(current(), function, x, axis, bool(reverse), bool(exclusive), identity)
    found = pending(current(), x, function, axis, reverse, exclusive)
    if identity is not None:
        raise ScanError(
            f"a scan by {function!r} has an identity", Location.of_caller(),
            hint="leave it out: it knows what to begin with; only functions of the logic do not",
        )  # fmt: skip
    return found


def cumsum(x: Any, axis: int, reverse: bool = False, exclusive: bool = False) -> Expression:
    """Return the sums of the elements up to each one along an axis; see `scan`."""
    return pending(current(), x, "sum", axis, reverse, exclusive)


def cumprod(x: Any, axis: int, reverse: bool = False, exclusive: bool = False) -> Expression:
    """Return the products of the elements up to each one along an axis; see `scan`."""
    return pending(current(), x, "prod", axis, reverse, exclusive)
