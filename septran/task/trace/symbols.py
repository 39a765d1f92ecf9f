"""Values in a trace that are not plain numbers: extents, loop indices, expressions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from septran.ir import expressions as ex
from septran.ir.atoms import Atom, Element, FloorDiv, Max, Min, Mod
from septran.ir.index import Index, IndexLike, Var
from septran.location import Location
from septran.task.errors import IndexingError, ShapeError, SymbolicValueError
from septran.task.frontend.refusals import Refusals
from septran.task.trace.dtype_rules import element_type
from septran.task.trace.expansion import expanded

Infix = Callable[[Any, Any], Any]
BROADCAST = (
    "NumPy's rule: from the last axis backwards extents are equal or one is 1; "
    "at ragged edges take extents from a tensor's shape (A.shape[0])"
)
"""The hint of errors about shapes that do not fit each other."""


def _infix(name: str) -> tuple[Infix, Infix]:
    """Return an operator of expressions and its reflection."""
    return (lambda self, other: apply(name, self, other)), (
        lambda self, other: apply(name, other, self)
    )


class Symbol:
    """An integer that is known only when the kernel runs: a loop index, or computed from some."""

    __slots__ = ("index",)

    __pow__, __rpow__ = _infix("power")
    __and__, __rand__ = _infix("and")
    __or__, __ror__ = _infix("or")
    __xor__, __rxor__ = _infix("xor")
    __lshift__, __rlshift__ = _infix("left_shift")
    __rshift__, __rrshift__ = _infix("right_shift")

    def __init__(self, index: IndexLike) -> None:
        self.index = Index.of(index)

    def _linear(self, name: str, other: Any, combine: Callable[[Index, Index], Index]) -> Any:
        if isinstance(other, Expression):
            return NotImplemented
        # With a float it becomes a number, and is no index any more.
        if isinstance(other, float):
            return apply(name, self, other)
        try:
            return self._result(other, combine)
        except ValueError as error:
            raise IndexingError(
                f"index arithmetic must be linear: {error}", Location.of_caller(),
                hint="an index is multiplied and divided by integers only; a partition or "
                "a view with more axes often says what is meant",
            ) from None  # fmt: skip

    def _result(self, other: Any, combine: Callable[[Index, Index], Index]) -> Any:
        if isinstance(other, Count):
            return Count(combine(self.index, other.index))
        return symbol(combine(self.index, as_index(other)))

    def __add__(self, other: Any) -> Any:
        return self._linear("add", other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._linear("subtract", other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        return self._linear("multiply", other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return symbol(-self.index)

    def __pos__(self) -> Any:
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __round__(self, digits: None = None) -> Any:
        return self if digits is None else self._value("it cannot be rounded to digits")

    def __format__(self, spec: str) -> str:
        return format(self._value("it cannot be formatted"), spec) if spec else str(self)

    def __floordiv__(self, other: Any) -> Any:
        return self._linear("floor_divide", other, lambda a, b: a // b.as_int())

    def __mod__(self, other: Any) -> Any:
        return self._linear("remainder", other, lambda a, b: a % b.as_int())

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Expression) else apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return apply("divide", other, self)

    def __rfloordiv__(self, other: Any) -> Any:
        return apply("floor_divide", other, self)

    def __rmod__(self, other: Any) -> Any:
        return apply("remainder", other, self)

    def _value(self, use: str) -> int:
        if self.index.is_constant:
            return self.index.constant
        raise SymbolicValueError(
            f"the value of {self.index} is not known while tracing, so {use}",
            Location.of_caller(),
            hint="use task.where in a leaf, `with task.when(k):` around launches, a loop extent "
            "that depends on it, task.least / task.greatest, or a static parameter",
        )

    def __bool__(self) -> bool:
        return bool(self._value("it cannot decide a Python if or while"))

    def _compare(self, other: Any, compare: Callable[[Any, Any], bool]) -> Any:
        if isinstance(other, Expression):
            return NotImplemented
        return compare(self._value("it cannot be compared in Python"), other)

    def __eq__(self, other: object) -> bool:
        result: bool = self._compare(other, operator.eq)
        return result

    def __ne__(self, other: object) -> bool:
        result: bool = self._compare(other, operator.ne)
        return result

    def __lt__(self, other: Any) -> bool:
        result: bool = self._compare(other, operator.lt)
        return result

    def __le__(self, other: Any) -> bool:
        result: bool = self._compare(other, operator.le)
        return result

    def __gt__(self, other: Any) -> bool:
        result: bool = self._compare(other, operator.gt)
        return result

    def __ge__(self, other: Any) -> bool:
        result: bool = self._compare(other, operator.ge)
        return result

    def __hash__(self) -> int:
        return hash(self.index)

    def __index__(self) -> int:
        return self._value("it cannot be used as a Python integer")

    __int__ = __index__

    def __float__(self) -> float:
        return float(self._value("it cannot be used as a Python float"))

    def __iter__(self) -> NoReturn:
        raise IndexingError(
            f"{self.index} is one index, not several", Location.of_caller(),
            hint="a range over one extent gives one index; one over (n, m) gives two",
        )  # fmt: skip

    def __repr__(self) -> str:
        return str(self.index)


class Extent(Symbol):
    """The extent of a ragged axis: what really exists, and the extent of a full tile.

    Arithmetic with plain integers keeps both, so that a temporary of shape
    ``(2 * A.shape[0],)`` is ragged as A is.
    """

    __slots__ = ("nominal",)

    def __init__(self, nominal: int, valid: IndexLike) -> None:
        super().__init__(valid)
        self.nominal = nominal

    def _result(self, other: Any, combine: Callable[[Index, Index], Index]) -> Any:
        if isinstance(other, Symbol | bool) or not isinstance(other, int):
            return super()._result(other, combine)
        full = combine(Index.of(self.nominal), Index.of(other)).as_int()
        valid = combine(self.index, Index.of(other))
        return Extent(full, valid) if full >= 0 else symbol(valid)

    def __mod__(self, other: Any) -> Any:
        return Symbol(self.index) % other  # what is left of a full tile may be less

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Extent):
            return (self.nominal, self.index) == (other.nominal, other.index)
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = Symbol.__hash__


class Count(Symbol):
    """How many there are, as a tensor of integers says, or what integers make of it."""

    __slots__ = ()

    def _result(self, other: Any, combine: Callable[[Index, Index], Index]) -> Any:
        return Count(
            combine(self.index, other.index if isinstance(other, Count) else as_index(other))
        )

    def __neg__(self) -> Count:
        return Count(-self.index)

    def _value(self, use: str) -> int:
        raise SymbolicValueError(
            f"{self.index} is known when the kernel runs, so {use}", Location.of_caller(),
            hint="write what depends on it under: with task.when(n - k), which runs where "
            "that is above 0",
        )  # fmt: skip

    def elsewhere(self) -> IndexingError:
        """The error for a use that is no extent of a sequential loop."""
        return IndexingError(
            f"{self.index} is a count, and for loops, the ends of slices and task.when alone",
            Location.of_caller(),
            hint="one row is chosen by the tensor itself: x[n[b]]; in a leaf, pass the tensor and "
            "mask there: task.where(task.index(x, 0) < length[:, None], ..)",
        )


def symbol(index: Index) -> Any:
    """Return an int where the index is constant, else a symbol."""
    return index.as_int() if index.is_constant else Symbol(index)


def extent(nominal: int, valid: Index) -> Any:
    """Return an int where all of a tile always exists, else an extent with both."""
    return nominal if valid == Index.of(nominal) else Extent(nominal, valid)


def nominal(value: Any) -> Any:
    """Return the size of a full tile along an axis, where `value` is the extent of one."""
    return value.nominal if isinstance(value, Extent) else value


def is_told(value: Any) -> bool:
    """Whether `value` is an extent that depends on what a call tells: on a dynamic dimension."""
    return isinstance(value, Extent) and next(value.index.sizes(), None) is not None


FAR = 1 << 15
"""The bound on factors and constants of indices of elements.

An index with a greater one is a number, computed in 64 bits, lest it make all indices of its
kernel so wide.
"""


def as_index(value: Any) -> Index:
    """Return an int, symbol or variable as an index; raises IndexingError."""
    if isinstance(value, Count):
        raise value.elsewhere()
    if isinstance(value, Symbol):
        return value.index
    if isinstance(value, Index | Var):
        return Index.of(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Index.of(int(value))
    what = "an expression" if isinstance(value, Expression) else repr(value)
    hint = "indices are integers, loop indices, and their +, -, *, // and % with integers"
    if isinstance(value, tuple) and len(value) > 1 and all(isinstance(v, Symbol) for v in value):
        hint = several_indices(value)
    raise IndexingError(f"{what} is not an integer index", Location.of_caller(), hint=hint)


def several_indices(indices: tuple[Any, ...]) -> str:
    """Return what to write where indices of a loop are taken for one."""
    names = ", ".join(map(str, indices))
    return f"each extent of a loop has an index of its own: write `for {names} in ..`. {NO_STEPS}"


NO_STEPS = (
    "A loop counts from 0 in steps of 1, without a start or a step: loop as often as it turns, and "
    "write `start + k * step` where k is used"
)


def integers(values: Iterable[Any], what: str) -> tuple[int, ...]:
    """Return extents of full tiles as integers; raises IndexingError."""
    found = [as_index(nominal(v)) for v in values]
    for index in found:
        if not index.is_constant:
            raise IndexingError(
                f"{what} is {index}, which is not known while tracing", Location.of_caller(),
                hint="take it from a shape, a tunable or a static parameter",
            )  # fmt: skip
    return tuple(index.constant for index in found)


class Expression(Refusals):
    """A tensor expression under construction in a leaf; NumPy's operators and broadcasting."""

    __slots__ = ("_expr",)
    # NumPy then leaves operators between its arrays and expressions to this class.
    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(self, expr: ex.Expr) -> None:
        self._expr = expr

    @property
    def expr(self) -> ex.Expr:
        """The expression tree."""
        return self._expr

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents: integers, or symbols of what exists where an axis is ragged."""
        e = self.expr
        return tuple(extent(n, v) for n, v in zip(e.shape, e.valid, strict=True))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.expr.shape)

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self.expr.dtype

    def __repr__(self) -> str:
        return f"an expression of {self.dtype} ({', '.join(map(str, self.shape))})"

    def astype(self, dtype: Any) -> Expression:
        """Return the same values in another dtype; raises DtypeError for an unknown one."""
        return Expression(ex.Cast(self.expr, element_type(dtype)))

    def __getitem__(self, key: Any) -> Any:
        return Expression(expanded(self.expr, key))

    __add__, __radd__ = _infix("add")
    __sub__, __rsub__ = _infix("subtract")
    __mul__, __rmul__ = _infix("multiply")
    __truediv__, __rtruediv__ = _infix("divide")
    __floordiv__, __rfloordiv__ = _infix("floor_divide")
    __mod__, __rmod__ = _infix("remainder")
    __pow__, __rpow__ = _infix("power")
    __and__, __rand__ = _infix("and")
    __or__, __ror__ = _infix("or")
    __xor__, __rxor__ = _infix("xor")
    __lshift__, __rlshift__ = _infix("left_shift")
    __rshift__, __rrshift__ = _infix("right_shift")
    __lt__, _ = _infix("less")
    __le__, _ = _infix("less_equal")
    __gt__, _ = _infix("greater")
    __ge__, _ = _infix("greater_equal")

    def __eq__(self, o: object) -> Expression:  # type: ignore[override]
        return apply("equal", self, o)

    def __ne__(self, o: object) -> Expression:  # type: ignore[override]
        return apply("not_equal", self, o)

    def __neg__(self) -> Expression:
        return function("neg", self)

    def __abs__(self) -> Expression:
        return function("abs", self)

    def __pos__(self) -> Expression:
        return self

    def __round__(self, digits: None = None) -> Expression:
        return function("round", self) if digits is None else self._number("number to round")

    def __floor__(self) -> Expression:
        return function("floor", self)

    def __ceil__(self) -> Expression:
        return function("ceil", self)

    def __invert__(self) -> Expression:
        return function("not" if self.dtype == "bool" else "invert", self)

    __hash__ = object.__hash__


def operand(value: Any) -> ex.Expr:
    """Return a tensor, an expression, a number or a symbol as an expression; raises ShapeError."""
    if isinstance(value, Expression):
        return value.expr
    if isinstance(value, Count):
        raise value.elsewhere()
    if isinstance(value, Symbol):
        return _number(value.index)
    if isinstance(value, bool | np.bool_):
        return ex.Constant(bool(value), "bool")
    if isinstance(value, int | np.integer):
        return ex.Constant(int(value), "int32" if abs(int(value)) < 2**31 else "int64")
    if isinstance(value, float | np.floating):
        return ex.Constant(float(value), "float32")
    raise ShapeError(
        f"{value!r} cannot be used in a tensor expression", Location.of_caller(),
        hint="it takes tensors of the task, numbers, loop indices and expressions of them; "
        "arrays are passed to the logic as tensors",
    )  # fmt: skip


def _number(index: Index) -> ex.Expr:
    """Return an index as a number, in 64-bit arithmetic where it may be no index of elements."""
    if _greatest(index) < FAR:
        return ex.IndexValue(index)
    total: ex.Expr = ex.Constant(index.constant, "int64")
    for atom, factor in index.terms:
        product = ex.binary("multiply", _atom(atom), ex.Constant(factor, "int64"))
        total = ex.binary("add", total, product)
    return total


def _greatest(index: Index) -> int:
    """Return the greatest factor, divisor or constant in an index, also inside of its atoms."""
    numbers = [abs(index.constant)]
    for atom, factor in index.terms:
        numbers.append(abs(factor))
        match atom:
            case FloorDiv(value, divisor) | Mod(value, divisor):
                numbers += [divisor, _greatest(value)]
            case Min(operands) | Max(operands):
                numbers += map(_greatest, operands)
            case Element(at=at):
                numbers += map(_greatest, at)
    return max(numbers)


def _atom(atom: Atom) -> ex.Expr:
    match atom:
        case FloorDiv(value, divisor):
            return ex.binary("floor_divide", _number(value), ex.Constant(divisor, "int64"))
        case Mod(value, divisor):
            return ex.binary("remainder", _number(value), ex.Constant(divisor, "int64"))
        case Min(operands):
            return functools.reduce(functools.partial(ex.binary, "minimum"), map(_number, operands))
        case Max(operands):
            return functools.reduce(functools.partial(ex.binary, "maximum"), map(_number, operands))
    return ex.IndexValue(Index(((atom, 1),)))


def apply(name: str, left: Any, right: Any) -> Expression:
    """Return a binary function of two values with broadcasting; raises ShapeError."""
    try:
        return Expression(ex.binary(name, operand(left), operand(right)))
    except ex.ShapeMismatchError as error:
        raise ShapeError(f"{error} in {name}", Location.of_caller(), hint=BROADCAST) from None


def function(name: str, value: Any) -> Expression:
    """Return a unary function of a value."""
    return Expression(ex.unary(name, operand(value)))


def where(condition: Any, yes: Any, no: Any) -> Expression:
    """Return `yes` where the condition holds, else `no`; both are computed. Raises ShapeError."""
    try:
        return Expression(ex.select(operand(condition), operand(yes), operand(no)))
    except ex.ShapeMismatchError as error:
        raise ShapeError(f"{error} in where", Location.of_caller(), hint=BROADCAST) from None


Axes = int | tuple[int, ...] | None
"""An axis, several, or all of them."""


def reduction(name: str, value: Any, axis: Axes, keepdims: bool) -> Expression:
    """Reduce along an axis, along several, or along all; raises ShapeError for an unknown one."""
    expr = operand(value)
    axes = _axes(axis, len(expr.shape))
    for at in reversed(axes):  # so that the numbers of the others stay
        expr = ex.reduce(name, expr, at)
    return Expression(ex.expand(expr, axes) if keepdims else expr)


def _axes(given: Axes, rank: int) -> tuple[int, ...]:
    """Return the axes that are meant, in order; raises ShapeError."""
    if given is None:
        return tuple(range(rank))
    several = tuple(given) if isinstance(given, tuple | list) else (given,)
    for axis in several:
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise ShapeError(
                f"axis {axis!r} is not an integer", Location.of_caller(),
                hint="write axis=1, axis=(1, 2), or no axis for all of them",
            )  # fmt: skip
        if not -rank <= axis < rank:
            raise ShapeError(
                f"axis {axis} of an expression with {rank} axes", Location.of_caller(),
                hint="axes are counted from 0, or from the end by -1",
            )  # fmt: skip
    found = sorted({int(axis) % rank for axis in several})
    if len(found) < len(several):
        raise ShapeError(
            f"axes {given} name one twice",
            Location.of_caller(),
            hint="-1 is the last axis; name each axis once",
        )
    return tuple(found)
