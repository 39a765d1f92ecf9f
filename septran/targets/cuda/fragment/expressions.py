"""Tensor expressions at one element of a statement, as TensorIR scalars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from septran.dtypes import compute_dtype
from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.statements import Places, inner
from septran.targets.lower.expressions import Evaluation
from septran.targets.lower.values import element_of
from septran.targets.lower.writer import Expr

Reader = Callable[[ex.Load, Places], Expr]
"""The element of a view that a statement's element needs, in the view's own dtype."""


@dataclass
class ElementEvaluation(Evaluation[Places]):
    """The value of expressions at one element."""

    context: Context
    at: tuple[Index, ...]
    """The element: a coordinate for each of the statement's axes."""
    read: Reader

    def load(self, expr: ex.Load, place: Places) -> Expr:
        """Return what was read, widened."""
        value = self.read(expr, place)
        return self.context.arithmetic.convert(value, compute_dtype(element_of(value)))

    def number(self, index: Index, place: Places) -> Expr:
        """As indices are."""
        return self.context.lower(index)

    def compare(self, function: str, left: Index, right: Index, place: Places) -> Expr:
        """Each side as what unrolled loops make constant, and the rest."""
        return self.context.arithmetic.combine(function, *self.context.indices.sides(left, right))

    def operand(self, parent: ex.Expr, child: ex.Expr, place: Places) -> Places:
        """The statement's axes that an operand's go along."""
        return inner(parent, child, place)

    def coordinate(self, place: Places) -> Index:
        """Return the element's coordinate along the statement's axis."""
        return Index() if place[0] is None else self.at[place[0]]

    def named(self, expr: ex.Expr, value: Expr) -> Expr:
        """Return what is read or computed is a variable."""
        computed = isinstance(expr, ex.Unary | ex.Binary | ex.Select | ex.Load)
        return self.context.writer.bind("v", value) if computed else value
