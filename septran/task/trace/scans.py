"""Scans in tensor expressions: each becomes a primitive before the statement that uses it.

Like all of an expression, a scan is evaluated where its value is assigned: until then
`Frame.scans` keeps what is scanned, under the name that stands for the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.errors import nearest
from septran.ir import expressions as ex
from septran.ir.scans import JOINS, scan_dtype
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import ShapeError, UnknownPrimitiveError
from septran.task.trace.symbols import Expression, operand
from septran.task.tree import Allocate, Primitive, TunableValue

if TYPE_CHECKING:
    from septran.task.trace.tracing import Frame


@dataclass(frozen=True)
class PendingScan:
    """A scan that has been asked for, and not been recorded yet."""

    operand: ex.Expr
    attributes: tuple[tuple[str, TunableValue], ...]
    """The primitive's, by name."""


def pending(
    frame: Frame, value: Any, function: str, axis: Any, reverse: Any, exclusive: Any
) -> Expression:
    """Return an expression that stands for a scan.

    Raises ShapeError for an axis that is not there, UnknownPrimitiveError for a function that has
    no scan.
    """
    frame.require_leaf("scans elements")
    expr = operand(value)
    rank = len(expr.shape)
    if function not in JOINS:
        raise UnknownPrimitiveError(
            f"no scan joins elements by {function!r}", Location.of_caller(),
            hint=nearest(str(function), JOINS),
        )  # fmt: skip
    attributes: dict[str, TunableValue] = {
        "axis": scanned_axis(axis, rank), "exclusive": bool(exclusive), "function": function,
        "reverse": bool(reverse),
    }  # fmt: skip
    name = f"{len(frame.scans)}@scan"
    frame.scans[name] = PendingScan(expr, tuple(attributes.items()))
    dtype = scan_dtype(function, expr.dtype)
    return Expression(ex.Load(View.whole(name, expr.shape, expr.valid), dtype))


def scanned_axis(axis: Any, rank: int) -> int:
    """Return the axis of a scan, counted from 0; raises ShapeError for one that is not there."""
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer) or not -rank <= axis < rank:
        raise ShapeError(
            f"axis {axis!r} of an expression with {rank} axes cannot be scanned",
            Location.of_caller(), hint="a scan goes along one axis, counted from 0, or from -1",
        )  # fmt: skip
    return int(axis) % rank


def settled(frame: Frame, expr: ex.Expr, goal: ex.Load) -> ex.Expr | None:
    """Return `expr` with temporaries that hold its scans, which are recorded here.

    None where the value is one scan and nothing else, which is written to `goal` at once.
    """
    if not any(view.tensor in frame.scans for view in ex.loads(expr)):
        return expr
    if isinstance(expr, ex.Load) and _takes(frame, goal, expr):
        _record(frame, frame.scans[expr.view.tensor], goal.view)
        return None
    held: dict[str, ex.Expr] = {}

    def change(leaf: ex.Expr) -> ex.Expr:
        if not isinstance(leaf, ex.Load) or leaf.view.tensor not in frame.scans:
            return leaf
        name = leaf.view.tensor
        # A scan that the expression uses twice is recorded once.
        if name not in held:
            view = temporary(frame, "scanned", leaf)
            _record(frame, frame.scans[name], view)
            held[name] = ex.Load(view, leaf.dtype)
        return held[name]

    return ex.map_leaves(expr, change)


def _takes(frame: Frame, goal: ex.Load, scan: ex.Load) -> bool:
    """Return whether a scan can be written to `goal` itself, which nothing in it reads."""
    alike = (goal.dtype, goal.shape, goal.valid) == (scan.dtype, scan.shape, scan.valid)
    return alike and goal.view.tensor not in _read(frame, scan)


def _read(frame: Frame, expr: ex.Expr) -> set[str]:
    """Return the tensors that an expression reads, those in its scans among them."""
    found: set[str] = set()
    for view in ex.loads(expr):
        scan = frame.scans.get(view.tensor)
        found |= {view.tensor} if scan is None else _read(frame, scan.operand)
    return found


def _record(frame: Frame, scan: PendingScan, target: View) -> None:
    """Record a scan into `target`, after what it scans has been computed."""
    value = scan.operand
    if isinstance(value, ex.Load) and value.view.tensor not in frame.scans:
        frame.require_own(value)
        view = value.view
    else:
        view = temporary(frame, "terms", value)
        expr = settled(frame, value, ex.Load(view, value.dtype))
        if expr is not None:
            frame.compute(view, expr)
    frame.body.append(Primitive("scan", (target, view), scan.attributes, Location.of_caller()))


def temporary(frame: Frame, name: str, like: ex.Expr, *, scans: bool = False) -> View:
    """Return a new temporary of the extents and the type of an expression."""
    unique = frame.fresh(name)
    where = Location.of_caller()
    frame.body.append(
        Allocate(unique, like.shape, like.valid, like.dtype, None, where, scans=scans)
    )
    whole = View.whole(unique, like.shape, like.valid)
    frame.begin(unique, whole)
    return whole
