"""Tensor expressions as TensorIR, place by place: which operation is done in which type.

A target says what a place is, how its elements are read, and what a value is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from septran.dtypes import SHORT, compute_dtype, promote
from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.targets.lower.arithmetic import Arithmetic
from septran.targets.lower.writer import Expr

FAR = 1 << 30
"""Numbers below it, added to a position, are positions still."""
Place = TypeVar("Place", bound=Hashable)
"""Where an expression is evaluated, as a target says it."""


class ExpressionContext(Protocol):
    """The part of a target's context that expressions need."""

    @property
    def arithmetic(self) -> Arithmetic:
        """Functions of elements."""

    @property
    def scalars(self) -> Mapping[str, Expr]:
        """The entry's keyword parameters, by name."""


@dataclass
class Evaluation(ABC, Generic[Place]):
    """The values of expressions; what occurs twice at one place is computed once."""

    context: ExpressionContext
    known: dict[tuple[int, Place], Expr] = field(default_factory=dict, kw_only=True)
    """By the expression's identity and where it was evaluated."""

    # ---- what a target says -------------------------------------------------------------

    @abstractmethod
    def load(self, expr: ex.Load, place: Place) -> Expr:
        """The element, in the type that it is computed with in."""

    @abstractmethod
    def number(self, index: Index, place: Place) -> Expr:
        """An index as a number."""

    @abstractmethod
    def compare(self, function: str, left: Index, right: Index, place: Place) -> Expr | None:
        """A comparison of two positions; None where indices are too short for it."""

    @abstractmethod
    def operand(self, parent: ex.Expr, child: ex.Expr, place: Place) -> Place:
        """The place of an operand, given that of the node that it belongs to."""

    @abstractmethod
    def coordinate(self, place: Place) -> Index:
        """Return the coordinate of a place along the only axis of an expression."""

    @abstractmethod
    def named(self, expr: ex.Expr, value: Expr) -> Expr:
        """The value, computed here once, where that is worth a name."""

    def rounded(self, value: Expr, dtype: str) -> Expr:
        """A number rounded to a float of 16 or 8 bits, in the type that it is computed with in."""
        return self.context.arithmetic.rounded(value, dtype)

    def combined(self, expr: ex.Binary, left: Expr, right: Expr) -> Expr:
        """A function of two values of one type."""
        return self.context.arithmetic.combine(expr.function, left, right)

    # ---- what is the same on all ----------------------------------------------------------

    def value(self, expr: ex.Expr, place: Place) -> Expr:
        """The value in the type that the expression is computed in."""
        key = (id(expr), place)
        if key not in self.known:
            self.known[key] = self.named(expr, self._value(expr, place))
        return self.known[key]

    def typed(self, expr: ex.Expr, place: Place, dtype: str) -> Expr:
        """The value in a type."""
        return self.context.arithmetic.convert(self.value(expr, place), dtype)

    def _value(self, expr: ex.Expr, place: Place) -> Expr:
        arithmetic = self.context.arithmetic
        match expr:
            case ex.Load():
                return self.load(expr, place)
            case ex.Constant():
                return arithmetic.constant(expr.value, compute_dtype(expr.dtype))
            case ex.Scalar():
                return arithmetic.convert(
                    self.context.scalars[expr.name], compute_dtype(expr.dtype)
                )
            case ex.IndexValue() | ex.Position():
                index = self._index(expr, place)
                assert index is not None
                return arithmetic.convert(self.number(index, place), expr.dtype)
            case ex.Cast() if expr.dtype in SHORT:  # computed with in float32 from then on
                return self.rounded(self._operand(expr, expr.operand, place), expr.dtype)
            case ex.Cast():
                return arithmetic.convert(self._operand(expr, expr.operand, place), expr.dtype)
            case ex.Expand():
                return self._operand(expr, expr.operand, place)
            case ex.Unary():
                operand = self._operand(expr, expr.operand, place)
                return arithmetic.apply(expr.function, operand, expr.dtype)
            case ex.Binary():
                return self._binary(expr, place)
            case ex.Select():
                types = ("bool", expr.dtype, expr.dtype)
                parts = zip((expr.condition, expr.yes, expr.no), types, strict=True)
                return arithmetic.select(
                    *(self.typed(part, self.operand(expr, part, place), t) for part, t in parts)
                )
            case ex.Reduce():
                raise AssertionError("reductions were taken out before")

    def _operand(self, parent: ex.Expr, child: ex.Expr, place: Place) -> Expr:
        return self.value(child, self.operand(parent, child, place))

    def _binary(self, expr: ex.Binary, place: Place) -> Expr:
        known = decided(expr)
        if known is not None:
            return self.context.arithmetic.constant(known, "bool")
        sides = [(e, self.operand(expr, e, place)) for e in (expr.left, expr.right)]
        if expr.function in ex.COMPARISONS:
            left, right = (self._index(*side) for side in sides)
            if left is not None and right is not None:
                decision = self.compare(expr.function, left, right, place)
                if decision is not None:
                    return decision
        dtype = operand_dtype(expr)
        return self.combined(expr, *(self.typed(*side, dtype) for side in sides))

    def _index(self, expr: ex.Expr, place: Place) -> Index | None:
        """An expression of positions and whole numbers as an index; None where it is not one."""
        match expr:
            case ex.IndexValue():
                return expr.index
            case ex.Position():
                return position(expr, self.coordinate(place))
            case ex.Constant(value=int(value)) if abs(value) < FAR and expr.dtype != "bool":
                return Index.of(value)
            case ex.Expand():
                return self._index(expr.operand, self.operand(expr, expr.operand, place))
            # Shorter integers may wrap, which an index does not.
            case ex.Binary(function="add" | "subtract", dtype="int64" | "int32"):
                left, right = (
                    self._index(side, self.operand(expr, side, place))
                    for side in (expr.left, expr.right)
                )
                if left is None or right is None:
                    return None
                return left + right if expr.function == "add" else left - right
            case _:
                return None


def axes_of(
    operand: ex.Expr, shape: tuple[int, ...], parent: ex.Expr | None = None
) -> tuple[int | None, ...]:
    """For each axis of an operand the one of a node of `shape` that it goes along.

    None where it is one element for all of them, by NumPy's rule.
    """
    if isinstance(parent, ex.Expand):
        return tuple(n for n in range(len(shape)) if n not in parent.axes)
    skip = len(shape) - len(operand.shape)
    return tuple(
        None if extent == 1 and exists == Index.of(1) and shape[skip + n] != 1 else skip + n
        for n, (extent, exists) in enumerate(zip(operand.shape, operand.valid, strict=True))
    )


def operand_dtype(expr: ex.Binary) -> str:
    """The type in which the operands of a function of two meet."""
    if expr.function in ex.COMPARISONS:
        return compute_dtype(promote(expr.left.dtype, expr.right.dtype))
    return expr.dtype


def decided(expr: ex.Binary) -> bool | None:
    """Return what comparing an unsigned number with 0 gives whatever it is; None where it depends.

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
    """Return an element's position along the tensor's axis in which its coordinate moves."""
    own = axis(expr.axis)
    for entry in expr.view.index:
        if own in entry.variables():
            values = {axis(n): Index() for n in range(expr.view.rank)} | {own: coordinate}
            return entry.substitute(values)
    return coordinate
