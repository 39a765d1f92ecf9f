"""Tensor expressions as text: Python's operators, with brackets only where needed."""

from __future__ import annotations

from collections.abc import Callable

from septran.ir import expressions as ex
from septran.ir.views import View

_ViewText = Callable[[View], str]
_INFIX = {
    "add": ("+", 5),
    "subtract": ("-", 5),
    "multiply": ("*", 6),
    "divide": ("/", 6),
    "floor_divide": ("//", 6),
    "remainder": ("%", 6),
    "power": ("**", 8),
    "and": ("&", 3),
    "or": ("|", 1),
    "xor": ("^", 2),
    "left_shift": ("<<", 4),
    "right_shift": (">>", 4),
    "less": ("<", 0),
    "less_equal": ("<=", 0),
    "greater": (">", 0),
    "greater_equal": (">=", 0),
    "equal": ("==", 0),
    "not_equal": ("!=", 0),
}
"""Python's operator for each function, and its binding strength."""
_PREFIX = {"neg": "-", "not": "~", "invert": "~"}
_TIGHT = 9


def expression_text(value: ex.Expr, view: _ViewText = str) -> str:
    """Return a tensor expression as an author would write it; `view` prints the views it reads."""
    return _expression(value, view)[0]


def _expression(value: ex.Expr, view: _ViewText) -> tuple[str, int]:
    """Return an expression's text, and the binding strength of its outermost operator."""
    match value:
        case ex.Load():
            return view(value.view), _TIGHT
        case ex.Position():
            return f"index({view(value.view)}, {value.axis})", _TIGHT
        case ex.Unary():
            return _unary(value, view)
        case ex.Binary():
            return _binary(value, view)
        case ex.Constant():
            return f"{value.value}", 7 if str(value.value).startswith("-") else _TIGHT
        case ex.Scalar():
            return value.name, _TIGHT
        case ex.IndexValue():
            simple = len(value.index.terms) + bool(value.index.constant) <= 1
            return str(value.index) if simple else f"({value.index})", _TIGHT
        case _:
            return _shaped(value, view), _TIGHT


def _shaped(value: ex.Select | ex.Cast | ex.Expand | ex.Reduce, view: _ViewText) -> str:
    """Return the text of a node that is written as a call or a subscript."""
    match value:
        case ex.Select():
            parts = (_expression(v, view)[0] for v in (value.condition, value.yes, value.no))
            return f"where({', '.join(parts)})"
        case ex.Cast():
            return f"{value.dtype}({_expression(value.operand, view)[0]})"
        case ex.Expand():
            marks = ", ".join("None" if n in value.axes else ":" for n in range(len(value.shape)))
            return f"{_bracketed(value.operand, view, _TIGHT)}[{marks}]"
        case ex.Reduce():
            inside = _expression(value.operand, view)[0]
            return f"{value.function}({inside}, axis={value.axis})"


def _unary(value: ex.Unary, view: _ViewText) -> tuple[str, int]:
    if value.function in _PREFIX:
        return f"{_PREFIX[value.function]}{_bracketed(value.operand, view, 7)}", 7
    return f"{value.function}({_expression(value.operand, view)[0]})", _TIGHT


def _binary(value: ex.Binary, view: _ViewText) -> tuple[str, int]:
    if value.function not in _INFIX:
        left, right = (_expression(v, view)[0] for v in (value.left, value.right))
        return f"{value.function}({left}, {right})", _TIGHT
    sign, strength = _INFIX[value.function]
    # A comparison brackets a comparison on its left, as Python would chain the two; ** binds to
    # the right.
    left = _bracketed(value.left, view, strength + (strength in (0, 8)))
    right = _bracketed(value.right, view, strength + (strength != 8))
    return f"{left} {sign} {right}", strength


def _bracketed(value: ex.Expr, view: _ViewText, least: int) -> str:
    """Return an expression's text, in brackets where it binds less than `least`."""
    text, strength = _expression(value, view)
    return f"({text})" if strength < least else text
