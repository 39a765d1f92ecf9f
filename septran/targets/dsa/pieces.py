"""A computation in two halves, where what it holds at one time is too much for its temporaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.ir.views import View
from septran.targets.lower.expressions import axes_of
from septran.targets.lower.statements import value_of
from septran.tile.nodes import Compute, Region


def halves(node: Compute, held: Callable[[Compute], int]) -> tuple[tuple[Compute, Index], ...]:
    """The halves of a computation, each with how much of it exists; empty where none holds less.

    It is cut along the axis of its target after which a half holds least, by `held`. An
    expression that reads other elements of its target than it writes must see all of it as it
    was, so it has no halves.
    """
    target, value = node.operands[0], value_of(node)
    # X[1:] = X[:-1]: the first half would overwrite what the second reads.
    if any(v.tensor == target.buffer and v != target for v in ex.loads(value)):
        return ()
    cuts = [n for n, extent in enumerate(target.shape) if extent > 1]
    ways = [(n, *_halves(node, value, n)) for n in cuts]
    best = min(ways, key=lambda way: held(way[1]), default=None)
    if best is None or held(best[1]) >= held(node):
        return ()
    return tuple((half, half.operands[0].valid[best[0]]) for half in best[1:])


def _halves(node: Compute, value: ex.Expr, axis: int) -> tuple[Compute, Compute]:
    extent = node.operands[0].shape[axis]
    middle = -(-extent // 2)
    first = _piece(node, value, axis, 0, middle)
    return first, _piece(node, value, axis, middle, extent - middle)


def _piece(node: Compute, value: ex.Expr, axis: int, start: int, length: int) -> Compute:
    """The elements of the target from `start` on, `length` along an axis."""
    target = _block(node.operands[0], axis, start, length)
    value = _along(value, node.operands[0].shape, None, axis, start, length)
    loaded = tuple(view for view in ex.loads(value) if isinstance(view, Region))
    return replace(node, primitive="map", operands=(target, *loaded), expression=value)


def _part(expr: ex.Expr, axis: int, start: int, length: int) -> ex.Expr:
    """The elements of an expression from `start` on, `length` along one of its axes."""
    if isinstance(expr, ex.Load):
        return replace(expr, view=_block(expr.view, axis, start, length))
    if isinstance(expr, ex.Position):
        return replace(expr, view=_block(expr.view, expr.axis, start, length))
    if isinstance(expr, ex.Reduce):
        # The operand has the reduced axis, too: those behind it are one further.
        inside = axis if axis < expr.axis else axis + 1
        found: ex.Expr = replace(expr, operand=_part(expr.operand, inside, start, length))
    else:
        shape = expr.shape
        found = ex.map_children(expr, lambda e: _along(e, shape, expr, axis, start, length))
    if isinstance(found, ex.Cast):  # which has the extents of its operand
        return found
    whole = View.whole("", expr.shape, expr.valid)
    extents: dict[str, Any] = {
        name: getattr(_block(whole, axis, start, length), name) for name in ("shape", "valid")
    }
    return replace(found, **extents)


def _along(
    expr: ex.Expr, shape: tuple[int, ...], parent: ex.Expr | None,
    axis: int, start: int, length: int,
) -> ex.Expr:  # fmt: skip
    """The part of an operand that a part of its parent takes; all of it where it is broadcast."""
    axes = axes_of(expr, shape, parent)
    return _part(expr, axes.index(axis), start, length) if axis in axes else expr


def _block(view: Any, axis: int, start: int, length: int) -> Any:
    """The part of a view, or of a region, along one axis."""
    offsets = tuple(start if n == axis else 0 for n in range(view.rank))
    extents = tuple(length if n == axis else e for n, e in enumerate(view.shape))
    return view.block(offsets, extents)
