"""Where elements are: the places of extremes, and what of a padded window is in its tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.ir.index import axis as axis_variable
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import IndexingError, ShapeError
from septran.task.trace.symbols import Expression, apply, operand, reduction, where
from septran.task.trace.tensors import Tile
from septran.task.trace.tracing import Frame, current


def argmax(x: Any, axis: int) -> Expression:
    """Return the place of the greatest element along an axis, of equal ones the first, in int64.

    Places are counted from the beginning of `x`; a NaN is greater than all. Raises ShapeError for
    an axis that is not there, IndexingError where `x` has no tensor that lies along the axis.
    """
    return _first("max", x, axis)


def argmin(x: Any, axis: int) -> Expression:
    """Return the place of the least element along an axis; otherwise as `argmax`."""
    return _first("min", x, axis)


def inside(x: Tile) -> Expression:
    """Return whether each element of a padded window is one of its tensor's, not a zero around it.

    For padding by something else than zeros: ``task.where(task.inside(w), w, -task.inf)``. Raises
    IndexingError where a coordinate of the tensor is no sum of the view's coordinates.
    """
    frame = current()
    frame.require_leaf("reads positions")
    frame.require_live(x)
    home, view = frame.home(x.view), x.view
    ranges = {axis_variable(n): (0, max(0, size - 1)) for n, size in enumerate(view.shape)}
    truth = Expression(ex.Constant(value=True, dtype="bool"))
    for entry, extent in zip(home.view.index, home.shape, strict=True):
        low, high = entry.bounds({**frame.ranges, **ranges})
        # An axis whose ends the view never leaves needs no test.
        if low < 0 or high >= extent:
            position = _coordinate(view, entry)
            truth = apply("and", truth, apply("greater_equal", position, 0))
            truth = apply("and", truth, apply("less", position, extent))
    return truth


def _coordinate(view: View, entry: Index) -> Expression:
    """Return one coordinate of a view's elements in its tensor."""
    along = [n for n in range(view.rank) if axis_variable(n) in entry.variables()]
    start = entry.substitute({axis_variable(n): 0 for n in along})
    steps = sum((Index.of(axis_variable(n)) * entry.coefficient(axis_variable(n)) for n in along),
                Index())  # fmt: skip
    if entry != start + steps:
        raise IndexingError(
            f"the coordinate {entry} of {view.tensor} is no sum of those of its view",
            Location.of_caller(), hint="take the window of the tensor itself",
        )  # fmt: skip
    total = Expression(ex.IndexValue(start))
    for n in along:
        rest = tuple(m for m in range(view.rank) if m != n)
        moved = ex.binary("subtract", ex.Position(view, n), ex.IndexValue(start))
        total = apply("add", total, Expression(ex.expand(moved, rest)))
    return total


def _first(function: str, x: Any, axis: int) -> Expression:
    frame = current()
    frame.require_leaf("compares elements")
    best = reduction(function, x, axis, keepdims=True)
    expr = operand(x)
    at = axis % len(expr.shape)
    if expr.shape[at] == 0:
        raise ShapeError(
            f"axis {axis} has no elements, and so no greatest one", Location.of_caller(),
            hint="task.require says which sizes a logic is for",
        )  # fmt: skip
    found = apply("equal", x, best)
    if is_float(expr.dtype):
        found = apply("or", found, apply("not_equal", x, x))  # NaN, for which `best` is NaN, too
    rest = tuple(n for n in range(len(expr.shape)) if n != at)
    places = Expression(ex.expand(ex.Cast(_places(frame, expr, at), "int32"), rest))
    # Elsewhere stands a place beyond all, so the least one is the first that was found.
    first = reduction("min", where(found, places, expr.shape[at]), at, keepdims=False)
    return first.astype("int64")


def _places(frame: Frame, expr: ex.Expr, at: int) -> ex.Expr:
    """Return 0, 1, 2, ... along an axis, by a tensor whose elements lie along it."""
    for load in _loads(expr, len(expr.shape)):
        if load.view.tensor in frame.scans or (load.shape[at], load.valid[at]) != (
            expr.shape[at],
            expr.valid[at],
        ):
            continue
        home = frame.home(load.view).view
        along = axis_variable(at)
        starts = [entry - along for entry in home.index if entry.coefficient(along) == 1]
        if len(starts) == 1 and along not in starts[0].variables():
            others = {axis_variable(n): 0 for n in range(home.rank)}
            start = ex.IndexValue(starts[0].substitute(others))
            return ex.binary("subtract", ex.Position(load.view, at), start)
    raise IndexingError(
        "nothing in this expression lies along the axis that is searched", Location.of_caller(),
        hint="assign it to a temporary (t = task.empty(...); t[...] = ...), and search that",
    )  # fmt: skip


def _loads(expr: ex.Expr, rank: int) -> Iterator[ex.Load]:
    """Yield the loads of which an element makes the same element of the expression."""
    match expr:
        case ex.Load() if len(expr.shape) == rank:
            yield expr
        case ex.Unary() | ex.Binary() | ex.Select() | ex.Cast():
            for child in ex.children(expr):
                yield from _loads(child, rank)
