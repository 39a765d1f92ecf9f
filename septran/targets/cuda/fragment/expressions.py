"""Tensor expressions at one element of a statement, as TensorIR scalars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tvm import tirx

from septran.dtypes import compute_dtype
from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.mathematics import apply, cast, combine, compare, constant
from septran.targets.cuda.fragment.statements import Places, inner
from septran.targets.lower.positions import decided, index_of, operand_dtype, position
from septran.targets.lower.writer import Expr

Reader = Callable[[ex.Load, Places], Expr]
"""The element of a view that a statement's element needs, in the view's own dtype."""


@dataclass
class Evaluation:
    """The value of expressions at one element; what occurs twice is computed once."""

    context: Context
    at: tuple[Index, ...]
    """The element: a coordinate for each of the statement's axes."""
    read: Reader
    known: dict[tuple[int, Places], Expr] = field(default_factory=dict)

    def value(self, expr: ex.Expr, places: Places) -> Expr:
        """A scalar in the expression's compute dtype."""
        key = (id(expr), places)
        if key not in self.known:
            value = self._value(expr, places)
            if isinstance(expr, ex.Unary | ex.Binary | ex.Select | ex.Load):
                value = self.context.writer.bind("v", value)
            self.known[key] = value
        return self.known[key]

    def _operand(self, parent: ex.Expr, child: ex.Expr, places: Places) -> Expr:
        return self.value(child, inner(parent, child, places))

    def _value(self, expr: ex.Expr, places: Places) -> Expr:
        match expr:
            case ex.Load():
                value = self.read(expr, places)
                return cast(value, compute_dtype(str(value.ty.dtype)))
            case ex.Constant():
                return constant(expr.value, compute_dtype(expr.dtype))
            case ex.Scalar():
                return cast(self.context.scalars[expr.name], compute_dtype(expr.dtype))
            case ex.IndexValue():
                return cast(self.context.lower(expr.index), expr.dtype)
            case ex.Position():
                return cast(
                    self.context.lower(position(expr, self._coordinate(places))), expr.dtype
                )
            case ex.Cast():
                return self._cast(expr, places)
            case ex.Expand():
                return self._operand(expr, expr.operand, places)
            case ex.Unary():
                operand = self._operand(expr, expr.operand, places)
                return apply(self.context.writer, expr.function, operand, expr.dtype)
            case ex.Binary():
                return self._binary(expr, places)
            case ex.Select():
                return self._select(expr, places)
            case ex.Reduce():
                raise AssertionError("reductions were taken out before")

    def _cast(self, expr: ex.Cast, places: Places) -> Expr:
        value = cast(self._operand(expr, expr.operand, places), expr.dtype)
        # A 16-bit float is rounded here, and computed with in float32 from then on.
        return cast(value, compute_dtype(expr.dtype))

    def _binary(self, expr: ex.Binary, places: Places) -> Expr:
        known = decided(expr)
        if known is not None:
            return constant(known, "bool")
        if expr.function in ex.COMPARISONS:
            left, right = (
                self._index(side, inner(expr, side, places)) for side in (expr.left, expr.right)
            )
            if left is not None and right is not None:
                return compare(expr.function, *self.context.indices.sides(left, right))
        dtype = operand_dtype(expr)
        a = cast(self._operand(expr, expr.left, places), dtype)
        b = cast(self._operand(expr, expr.right, places), dtype)
        return combine(self.context.writer, expr.function, a, b)

    def _index(self, expr: ex.Expr, places: Places) -> Index | None:
        return index_of(expr, places, inner, self._coordinate)

    def _coordinate(self, places: Places) -> Index:
        return Index() if places[0] is None else self.at[places[0]]

    def _select(self, expr: ex.Select, places: Places) -> Expr:
        condition = cast(self._operand(expr, expr.condition, places), "bool")
        yes = cast(self._operand(expr, expr.yes, places), expr.dtype)
        no = cast(self._operand(expr, expr.no, places), expr.dtype)
        return tirx.Select(condition, yes, no)
