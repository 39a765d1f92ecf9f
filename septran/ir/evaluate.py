"""Tensor expressions on NumPy: the meaning that the reference and the interpreter share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from septran.dtypes import compute_dtype, numpy_dtype, promote
from septran.ir import expressions as ex
from septran.ir.gather import evaluate as evaluate_index
from septran.ir.index import Var
from septran.ir.numerics import BINARY, UNARY, convert, identity
from septran.ir.views import View

Array = np.ndarray[Any, Any]

_REDUCE: Mapping[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min}


def evaluate(
    expr: ex.Expr,
    read: Callable[[View], Array],
    values: Mapping[Var, int],
    scalars: Mapping[str, float | int],
    position: Callable[[View, int], Array],
    wide: bool = False,
) -> Array:
    """Return the value of `expr` as an array.

    `read` returns the elements of a view, `position` the positions along one of its axes, `values`
    holds the loop indices. Each step is done in the node's dtype, or in float64 throughout where
    `wide`.
    """
    run = _Evaluation(read, values, scalars, position, wide)
    with np.errstate(all="ignore"):
        return np.asarray(run.value(expr))


class _Evaluation:
    def __init__(
        self,
        read: Callable[[View], Array],
        values: Mapping[Var, int],
        scalars: Mapping[str, float | int],
        position: Callable[[View, int], Array],
        wide: bool,
    ) -> None:
        self.read, self.values, self.scalars = read, values, scalars
        self.position, self.wide = position, wide

    def dtype(self, name: str) -> np.dtype[Any]:
        if self.wide and name.startswith(("float", "bfloat")):
            return np.dtype("float64")
        return numpy_dtype(name)

    def value(self, expr: ex.Expr) -> Any:
        match expr:
            case ex.Load():
                return self.read(expr.view)
            case ex.Constant():
                return np.asarray(expr.value, self.dtype(expr.dtype))
            case ex.Scalar():
                return self.cast(self.scalars[expr.name], expr.dtype)
            case ex.IndexValue():
                return self.cast(evaluate_index(expr.index, self.values), expr.dtype)
            case ex.Position():
                return self.cast(self.position(expr.view, expr.axis), expr.dtype)
            case ex.Unary():
                operand = self.cast(self.value(expr.operand), expr.dtype, expr.function == "not")
                return self.cast(UNARY[expr.function](operand), expr.dtype)
            case ex.Binary():
                return self.binary(expr)
            case ex.Select():
                yes = self.cast(self.value(expr.yes), expr.dtype)
                no = self.cast(self.value(expr.no), expr.dtype)
                return np.where(self.value(expr.condition), yes, no)
            case ex.Cast():
                return self.cast(self.value(expr.operand), expr.dtype)
            case ex.Expand():
                return np.expand_dims(self.value(expr.operand), expr.axes)
            case ex.Reduce():
                return self.reduce(expr)

    def cast(self, value: Any, dtype: str, keep: bool = False) -> Any:
        return value if keep else convert(value, self.dtype(dtype))

    def binary(self, expr: ex.Binary) -> Any:
        common = expr.dtype
        if expr.function in ex.COMPARISONS:
            kinds = [e.dtype for e in (expr.left, expr.right)]
            common = compute_dtype(promote(*kinds))
        left = self.cast(self.value(expr.left), common)
        right = self.cast(self.value(expr.right), common)
        return BINARY[expr.function](left, right)

    def reduce(self, expr: ex.Reduce) -> Any:
        operand = self.cast(self.value(expr.operand), expr.dtype)
        if expr.function == "sum":
            # Without a dtype NumPy sums int32 in int64, which does not wrap around.
            return np.sum(operand, axis=expr.axis, dtype=operand.dtype)
        least = identity(expr.function, operand.dtype)
        return _REDUCE[expr.function](operand, axis=expr.axis, initial=least)
