"""Arithmetic of extents that depend on loop indices: minimum, maximum, and ceiling division."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from septran.ir.index import Index, ceil_div, maximum, minimum
from septran.location import Location
from septran.task.errors import IndexingError
from septran.task.trace.symbols import Count, Extent, as_index, extent, nominal, symbol


def least(*values: Any) -> Any:
    """Return the least of integers and symbols; raises IndexingError without values."""
    return _extreme(values, minimum, min)


def greatest(*values: Any) -> Any:
    """Return the greatest of integers and symbols; raises IndexingError without values."""
    return _extreme(values, maximum, max)


def _extreme(values: tuple[Any, ...], fold: Callable[..., Index], full: Callable[..., int]) -> Any:
    if not values:
        raise IndexingError(
            "task.least and task.greatest take values",
            Location.of_caller(),
            hint="write task.least(n, 64)",
        )
    if any(isinstance(v, Count) for v in values):
        return Count(fold(*(v.index if isinstance(v, Count) else as_index(v) for v in values)))
    index = fold(*map(as_index, values))
    if all(isinstance(nominal(v), int) for v in values):
        return extent(full(map(nominal, values)), index)
    return symbol(index)


def _divisor(value: Any) -> int:
    """Return a divisor of an index, an integer greater than 0; raises IndexingError."""
    number = as_index(value).as_int() if as_index(value).is_constant else 0
    if number > 0:
        return number
    raise IndexingError(
        f"an index can only be divided by a positive integer, not {value!r}", Location.of_caller(),
        hint="take it from a shape, a tunable or a static parameter",
    )  # fmt: skip


def ceiling(value: Any, divisor: int) -> Any:
    """Return ``ceil(value / divisor)``; raises IndexingError unless the divisor is positive."""
    divisor = _divisor(divisor)
    if isinstance(value, Count):
        return Count(ceil_div(value.index, divisor))
    index = ceil_div(as_index(value), divisor)
    if isinstance(value, Extent):
        return extent(-(-value.nominal // divisor), index)
    return symbol(index)
