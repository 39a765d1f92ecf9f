"""Indexing of an expression: ``x[:, None]`` inserts axes, nothing else has a meaning."""

from __future__ import annotations

from typing import Any

from septran.ir import expressions as ex
from septran.location import Location
from septran.task.errors import IndexingError


def expanded(expr: ex.Expr, key: Any) -> ex.Expr:
    """Return the expression of ``x[:, None]``: full slices keep axes, None inserts one."""
    items = key if isinstance(key, tuple) else (key,)
    full = sum(1 for item in items if item is not None and item is not Ellipsis)
    # Filtered by identity first: `in` alone would compare, and == of tensors is an expression.
    if Ellipsis in [i for i in items if i is Ellipsis]:
        at = next(n for n, i in enumerate(items) if i is Ellipsis)
        missing = len(expr.shape) - full
        items = (*items[:at], *([slice(None)] * missing), *items[at + 1 :])
    else:
        items = (*items, *([slice(None)] * (len(expr.shape) - full)))
    if not all(item is None or is_full(item) for item in items):
        raise IndexingError(
            "an expression can only be indexed by ':' and None", Location.of_caller(),
            hint="store it in a temporary first, then slice that",
        )  # fmt: skip
    return ex.expand(expr, tuple(n for n, item in enumerate(items) if item is None))


def is_full(item: Any) -> bool:
    """Return whether an index is ``:``; symbols in it are not compared."""
    return isinstance(item, slice) and (item.start is item.stop is item.step is None)
