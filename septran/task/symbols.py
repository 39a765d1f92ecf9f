"""Values in a trace that are not plain numbers: extents, loop indices, expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from septran.location import Location
from septran.task import expressions as ex
from septran.task.errors import IndexingError, ShapeError, SymbolicValueError
from septran.task.index import Index, IndexLike, Var, ceil_div, maximum, minimum


class Extent(int):
    """The nominal extent of an axis, an int that remembers what really exists."""

    valid: Index

    def __new__(cls, nominal: int, valid: Index | None = None) -> Extent:
        """`valid` is what exists; all of `nominal` where None."""
        self = super().__new__(cls, nominal)
        self.valid = Index.of(nominal) if valid is None else valid
        return self


class Symbol:
    """An integer that is known only when the kernel runs: a loop index or what follows from it."""

    __slots__ = ("index",)

    def __init__(self, index: IndexLike) -> None:
        self.index = Index.of(index)

    def _linear(self, other: Any, combine: Callable[[Index, Index], Index]) -> Any:
        if isinstance(other, Expression):
            return NotImplemented
        if isinstance(other, float):
            return NotImplemented
        try:
            return symbol(combine(self.index, as_index(other)))
        except ValueError as error:
            raise IndexingError(
                f"index arithmetic must be linear: {error}", Location.of_caller()
            ) from None

    def __add__(self, other: Any) -> Any:
        return self._linear(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._linear(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._linear(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._linear(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __neg__(self) -> Symbol:
        return Symbol(-self.index)

    def __floordiv__(self, other: int) -> Any:
        return self._linear(other, lambda a, b: a // b.as_int())

    def __mod__(self, other: int) -> Any:
        return self._linear(other, lambda a, b: a % b.as_int())

    def _refuse(self, use: str) -> NoReturn:
        raise SymbolicValueError(
            f"the value of {self.index} is not known while tracing, so {use}",
            Location.of_caller(),
            hint="use task.where in a leaf, a loop extent that depends on it, "
            "task.least / task.greatest, or a static parameter",
        )

    def __bool__(self) -> bool:
        self._refuse("it cannot decide a Python if or while")

    def __eq__(self, other: object) -> bool:
        self._refuse("it cannot be compared in Python")

    def __lt__(self, other: object) -> bool:
        self._refuse("it cannot be compared in Python")

    __le__ = __gt__ = __ge__ = __ne__ = __lt__
    __hash__ = object.__hash__

    def __index__(self) -> int:
        self._refuse("it cannot be used as a Python integer")

    __int__ = __float__ = __index__

    def __repr__(self) -> str:
        return str(self.index)


def symbol(index: Index) -> Any:
    """An int where the index is constant, else a symbol."""
    return index.as_int() if index.is_constant else Symbol(index)


def as_index(value: Any) -> Index:
    """An int, extent, symbol or variable as an index; raises IndexingError."""
    if isinstance(value, Symbol):
        return value.index
    if isinstance(value, Extent):
        return value.valid
    if isinstance(value, Index | Var):
        return Index.of(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Index.of(int(value))
    raise IndexingError(f"{value!r} is not an integer index", Location.of_caller())


def least(*values: Any) -> Any:
    """The least of integers and symbols."""
    return symbol(minimum(*map(as_index, values)))


def greatest(*values: Any) -> Any:
    """The greatest of integers and symbols."""
    return symbol(maximum(*map(as_index, values)))


def ceiling(value: Any, divisor: int) -> Any:
    """``ceil(value / divisor)``."""
    return symbol(ceil_div(as_index(value), int(divisor)))


class Expression:
    """A tensor expression under construction in a leaf; NumPy's operators and broadcasting."""

    __slots__ = ("_expr",)
    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(self, expr: ex.Expr) -> None:
        self._expr = expr

    @property
    def expr(self) -> ex.Expr:
        """The expression tree."""
        return self._expr

    @property
    def shape(self) -> tuple[int, ...]:
        """Nominal extents."""
        e = self.expr
        return tuple(Extent(n, v) for n, v in zip(e.shape, e.valid, strict=True))

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return self.expr.dtype

    def astype(self, dtype: str) -> Expression:
        """The same values in another dtype."""
        return Expression(ex.Cast(self.expr, dtype))

    def __getitem__(self, key: Any) -> Any:
        return Expression(_expand(self.expr, key))

    def __add__(self, o: Any) -> Expression:
        return apply("add", self, o)

    def __radd__(self, o: Any) -> Expression:
        return apply("add", o, self)

    def __sub__(self, o: Any) -> Expression:
        return apply("subtract", self, o)

    def __rsub__(self, o: Any) -> Expression:
        return apply("subtract", o, self)

    def __mul__(self, o: Any) -> Expression:
        return apply("multiply", self, o)

    def __rmul__(self, o: Any) -> Expression:
        return apply("multiply", o, self)

    def __truediv__(self, o: Any) -> Expression:
        return apply("divide", self, o)

    def __rtruediv__(self, o: Any) -> Expression:
        return apply("divide", o, self)

    def __floordiv__(self, o: Any) -> Expression:
        return apply("floor_divide", self, o)

    def __mod__(self, o: Any) -> Expression:
        return apply("remainder", self, o)

    def __pow__(self, o: Any) -> Expression:
        return apply("power", self, o)

    def __and__(self, o: Any) -> Expression:
        return apply("and", self, o)

    def __or__(self, o: Any) -> Expression:
        return apply("or", self, o)

    def __xor__(self, o: Any) -> Expression:
        return apply("xor", self, o)

    def __lshift__(self, o: Any) -> Expression:
        return apply("left_shift", self, o)

    def __rshift__(self, o: Any) -> Expression:
        return apply("right_shift", self, o)

    def __lt__(self, o: Any) -> Expression:
        return apply("less", self, o)

    def __le__(self, o: Any) -> Expression:
        return apply("less_equal", self, o)

    def __gt__(self, o: Any) -> Expression:
        return apply("greater", self, o)

    def __ge__(self, o: Any) -> Expression:
        return apply("greater_equal", self, o)

    def __eq__(self, o: object) -> Expression:  # type: ignore[override]
        return apply("equal", self, o)

    def __ne__(self, o: object) -> Expression:  # type: ignore[override]
        return apply("not_equal", self, o)

    def __neg__(self) -> Expression:
        return function("neg", self)

    def __abs__(self) -> Expression:
        return function("abs", self)

    def __invert__(self) -> Expression:
        return function("not" if self.dtype == "bool" else "invert", self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise SymbolicValueError(
            "the elements of a tensor are not known while tracing, so they cannot decide "
            "a Python if or while",
            Location.of_caller(),
            hint="use task.where(condition, yes, no)",
        )

    def __iter__(self) -> NoReturn:
        raise IndexingError("a tensor cannot be iterated in a task", Location.of_caller())


def operand(value: Any) -> ex.Expr:
    """A value as an expression: tensors, expressions, numbers, symbols."""
    if isinstance(value, Expression):
        return value.expr
    if isinstance(value, Symbol):
        return ex.IndexValue(value.index)
    if isinstance(value, Extent) and not value.valid.is_constant:
        return ex.IndexValue(value.valid)
    if isinstance(value, bool | np.bool_):
        return ex.Constant(bool(value), "bool")
    if isinstance(value, int | np.integer):
        return ex.Constant(int(value), "int32" if abs(int(value)) < 2**31 else "int64")
    if isinstance(value, float | np.floating):
        return ex.Constant(float(value), "float32")
    raise ShapeError(f"{value!r} cannot be used in a tensor expression", Location.of_caller())


def apply(name: str, left: Any, right: Any) -> Expression:
    """A binary function with broadcasting."""
    try:
        return Expression(ex.binary(name, operand(left), operand(right)))
    except ex.ShapeMismatchError as error:
        raise ShapeError(
            f"{error} in {name}", Location.of_caller(),
            hint="NumPy's rule: from the last axis backwards extents are equal or one is 1; "
            "at ragged edges take extents from a tensor's shape (A.shape[0])",
        ) from None  # fmt: skip


def function(name: str, value: Any) -> Expression:
    """A unary function."""
    return Expression(ex.unary(name, operand(value)))


def where(condition: Any, yes: Any, no: Any) -> Expression:
    """`yes` where the condition holds, else `no`."""
    try:
        return Expression(ex.select(operand(condition), operand(yes), operand(no)))
    except ex.ShapeMismatchError as error:
        raise ShapeError(f"{error} in where", Location.of_caller()) from None


def reduction(name: str, value: Any, axis: int | None, keepdims: bool) -> Expression:
    """Reduce along one axis, or along all of them."""
    expr = operand(value)
    axes = [axis] if axis is not None else list(range(len(expr.shape) - 1, -1, -1))
    try:
        for at in axes:
            expr = ex.reduce(name, expr, at)
    except IndexError as error:
        raise ShapeError(str(error), Location.of_caller()) from None
    if keepdims:
        rank = len(expr.shape) + len(axes)
        expr = ex.expand(expr, tuple(a % rank for a in axes))
    return Expression(expr)


def _expand(expr: ex.Expr, key: Any) -> ex.Expr:
    """``x[:, None]``: full slices keep axes, None inserts one."""
    items = key if isinstance(key, tuple) else (key,)
    full = sum(1 for item in items if item is not None and item is not Ellipsis)
    if Ellipsis in [i for i in items if i is Ellipsis]:
        at = next(n for n, i in enumerate(items) if i is Ellipsis)
        missing = len(expr.shape) - full
        items = (*items[:at], *([slice(None)] * missing), *items[at + 1 :])
    else:
        items = (*items, *([slice(None)] * (len(expr.shape) - full)))
    full_slice = slice(None)
    if any(item is not None and not isinstance(item, slice) for item in items) or any(
        item is not None and item != full_slice for item in items
    ):
        raise IndexingError(
            "an expression can only be indexed by ':' and None", Location.of_caller(),
            hint="store it in a temporary first, then slice that",
        )  # fmt: skip
    return ex.expand(expr, tuple(n for n, item in enumerate(items) if item is None))
