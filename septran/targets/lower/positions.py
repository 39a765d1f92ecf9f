"""Expressions of positions as indices, and how two operands of other ones meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from septran.dtypes import compute_dtype, promote
from septran.ir import expressions as ex
from septran.ir.index import Index, axis

FAR = 1 << 30
"""Numbers below it, added to a position, are positions still."""
Place = TypeVar("Place")
"""Where an expression is evaluated, as a target says it."""


def operand_dtype(expr: ex.Binary) -> str:
    """The type in which the operands of a function of two meet."""
    if expr.function in ex.COMPARISONS:
        return compute_dtype(promote(expr.left.dtype, expr.right.dtype))
    return expr.dtype


def decided(expr: ex.Binary) -> bool | None:
    """What comparing an unsigned number with 0 gives whatever it is; None where it depends.

    TVM's simplifier ends the process on such a comparison inside of a condition.
    """
    if expr.function not in ex.COMPARISONS or operand_dtype(expr)[0] != "u":
        return None
    if isinstance(expr.right, ex.Constant) and expr.right.value == 0:
        return {"less": False, "greater_equal": True}.get(expr.function)
    if isinstance(expr.left, ex.Constant) and expr.left.value == 0:
        return {"greater": False, "less_equal": True}.get(expr.function)
    return None


def position(expr: ex.Position, coordinate: Index) -> Index:
    """Where an element lies along the axis of the entry's tensor that its coordinate moves in."""
    own = axis(expr.axis)
    for entry in expr.view.index:
        if own in entry.variables():
            values = {axis(n): Index() for n in range(expr.view.rank)} | {own: coordinate}
            return entry.substitute(values)
    return coordinate


def index_of(
    expr: ex.Expr,
    place: Place,
    inner: Callable[[ex.Expr, ex.Expr, Place], Place],
    coordinate: Callable[[Place], Index],
) -> Index | None:
    """An expression of positions and whole numbers as an index; None where it is not one.

    `inner` gives the place of an operand from that of its parent, `coordinate` the one of a
    position.
    """
    match expr:
        case ex.IndexValue():
            return expr.index
        case ex.Position():
            return position(expr, coordinate(place))
        case ex.Constant(value=int(value)) if abs(value) < FAR and expr.dtype != "bool":
            return Index.of(value)
        case ex.Expand():
            return index_of(expr.operand, inner(expr, expr.operand, place), inner, coordinate)
        case ex.Binary(function="add" | "subtract", dtype="int64" | "int32"):
            left, right = (
                index_of(side, inner(expr, side, place), inner, coordinate)
                for side in (expr.left, expr.right)
            )
            if left is None or right is None:
                return None
            return left + right if expr.function == "add" else left - right
        case _:
            return None
