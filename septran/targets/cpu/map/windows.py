"""Reductions over the elements of small windows, written out as expressions of whole vectors.

A window's elements are few, and the same ones are in the windows beside it. Reduced by itself each
window would be a vector of which most lanes are empty, and then one number. Written out,
``sum(x[i + r], r)`` is ``x[i] + x[i + 1] + ...``: lanes go along the windows, and what is done
with the result is done for a vector of them.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.targets.lower.expressions import position

MOST = 64
"""The most elements of a window that are written out, over all of its axes: more is long code."""
_JOINS = {"sum": "add", "max": "maximum", "min": "minimum"}


def written_out(expr: ex.Expr) -> ex.Expr:
    """`expr` with the reductions over windows of at most `MOST` elements written out."""
    known: dict[ex.Expr, ex.Expr] = {}

    def change(node: ex.Expr) -> ex.Expr:
        if not isinstance(node, ex.Reduce) or not _over_window(node):
            return ex.map_children(node, change)
        # What occurs twice, as x in x * sigmoid(x), becomes one object, which is computed once.
        if node not in known:
            known[node] = _joined(node, MOST) or node
        return known[node]

    return change(expr)


def _joined(expr: ex.Expr, most: int) -> ex.Expr | None:
    """A reduction over a window of at most `most` elements, written out; None for all else."""
    if not isinstance(expr, ex.Reduce) or not _over_window(expr) or expr.operand.dtype == "bool":
        return None
    count = expr.operand.shape[expr.axis]
    if not 1 <= count <= most or expr.operand.valid[expr.axis] != Index.of(count):
        return None
    back = len(expr.operand.shape) - expr.axis
    parts = [_fixed(expr.operand, back, n) for n in range(count)]
    inner = [_joined(part, most // count) or part for part in parts]
    # All axes of a window or none: what is left to reduce would be so once for each part.
    if any(isinstance(node, ex.Reduce) for node in ex.walk(inner[0])):
        return None
    wide = (p if p.dtype == expr.dtype else ex.Cast(p, expr.dtype) for p in inner)
    return functools.reduce(functools.partial(ex.binary, _JOINS[expr.function]), wide)


def _over_window(expr: ex.Reduce) -> bool:
    """Whether some coordinate that is read moves with the reduced axis and with one that stays."""
    if not expr.shape:
        return False
    return any(
        isinstance(node, ex.Load) and _slides(node, len(expr.operand.shape) - expr.axis)
        for node in ex.walk(expr.operand)
    )


def _slides(load: ex.Load, back: int) -> bool:
    own = axis(load.view.rank - back)
    others = {axis(n) for n in range(load.view.rank)} - {own}
    return any(
        own in entry.variables() and not others.isdisjoint(entry.variables())
        for entry in load.view.index
    )


def _fixed(expr: ex.Expr, back: int, at: int) -> ex.Expr:
    """`expr` at one coordinate of an axis, which it then has no more.

    `back` counts axes from the end, where those of operands meet.
    """
    rank = len(expr.shape)
    if back > rank:
        return expr
    own = rank - back
    shape = expr.shape[:own] + expr.shape[own + 1 :]
    valid = expr.valid[:own] + expr.valid[own + 1 :]
    coordinate = at if expr.shape[own] > 1 else 0
    match expr:
        case ex.Load():
            return replace(expr, view=expr.view.without(own, coordinate))
        case ex.Position():
            return ex.IndexValue(position(expr, Index.of(coordinate)), expr.dtype)
        case ex.Cast():
            return replace(expr, operand=_fixed(expr.operand, back, at))
        case ex.Expand():
            kept = tuple(n - (n > own) for n in expr.axes if n != own)
            later = sum(n not in expr.axes for n in range(own, rank))
            operand = expr.operand if own in expr.axes else _fixed(expr.operand, later, at)
            return ex.expand(operand, kept) if kept else operand
        case ex.Reduce():
            place = own + (own >= expr.axis)
            operand = _fixed(expr.operand, len(expr.operand.shape) - place, at)
            along = expr.axis - (place < expr.axis)
            return replace(expr, operand=operand, axis=along, shape=shape, valid=valid)
        case ex.Unary() | ex.Binary() | ex.Select():
            own_shape = replace(expr, shape=shape, valid=valid)
            return ex.map_children(own_shape, lambda child: _fixed(child, back, at))
    return expr
