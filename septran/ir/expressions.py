"""Tensor expressions: what a leaf task computes element by element, or by reduction.

An expression is a tree of frozen nodes; each knows its shape (nominal and existing
extents) and dtype. Broadcasting is NumPy's. Arithmetic on float16 and bfloat16 is done
in float32 and rounded once, when it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Union

from septran.dtypes import accumulator_dtype, compute_dtype, is_float, promote
from septran.ir.index import Index
from septran.ir.views import View

UNARY = (
    "neg",
    "abs",
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "cos",
    "floor",
    "ceil",
    "round",
    "not",
    "invert",
)
"""Functions of one element, under their NumPy names where NumPy has them."""
BINARY = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "power",
    "maximum",
    "minimum",
    "and",
    "or",
    "xor",
    "left_shift",
    "right_shift",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
)
"""Functions of two elements; ``maximum`` and ``minimum`` propagate NaN, as NumPy's."""
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
REDUCTIONS = ("sum", "max", "min")
"""Reductions; ``max`` and ``min`` propagate NaN, as NumPy's."""


@dataclass(frozen=True)
class Load:
    """The elements of a view."""

    view: View
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The nominal extents."""
        return self.view.shape

    @property
    def valid(self) -> tuple[Index, ...]:
        """The extents that exist."""
        return self.view.valid


@dataclass(frozen=True)
class Constant:
    """A number; it takes the dtype of the operand it is combined with."""

    value: float | int | bool
    dtype: str
    shape: tuple[int, ...] = ()
    valid: tuple[Index, ...] = ()


@dataclass(frozen=True)
class Scalar:
    """A run-time scalar: a keyword parameter of the entry task, by name."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    valid: tuple[Index, ...] = ()


@dataclass(frozen=True)
class IndexValue:
    """The value of an index expression (a loop index, a tile's offset) as a number."""

    index: Index
    dtype: str = "int64"
    shape: tuple[int, ...] = ()
    valid: tuple[Index, ...] = ()


@dataclass(frozen=True)
class Position:
    """The position of each element of a view along `axis` of the entry's tensor.

    The result has one axis. Copies do not change it: it is the position in the tensor that the
    caller of the kernel passed (or in the temporary), however often it was staged.
    """

    view: View
    axis: int
    """The axis of `view`."""
    dtype: str = "int64"

    @property
    def shape(self) -> tuple[int, ...]:
        """The nominal extent along the axis."""
        return (self.view.shape[self.axis],)

    @property
    def valid(self) -> tuple[Index, ...]:
        """The extent along the axis that exists."""
        return (self.view.valid[self.axis],)


@dataclass(frozen=True)
class Unary:
    """``function(operand)`` for each element; one of `UNARY`."""

    function: str
    operand: Expr
    shape: tuple[int, ...]
    valid: tuple[Index, ...]
    dtype: str


@dataclass(frozen=True)
class Binary:
    """``function(left, right)`` with broadcasting; one of `BINARY`."""

    function: str
    left: Expr
    right: Expr
    shape: tuple[int, ...]
    valid: tuple[Index, ...]
    dtype: str


@dataclass(frozen=True)
class Select:
    """``yes`` where `condition`, else ``no``, with broadcasting."""

    condition: Expr
    yes: Expr
    no: Expr
    shape: tuple[int, ...]
    valid: tuple[Index, ...]
    dtype: str


@dataclass(frozen=True)
class Cast:
    """The operand's elements in another dtype."""

    operand: Expr
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The nominal extents."""
        return self.operand.shape

    @property
    def valid(self) -> tuple[Index, ...]:
        """The extents that exist."""
        return self.operand.valid


@dataclass(frozen=True)
class Expand:
    """The operand with new axes of extent 1 at `axes` of the result (``x[:, None]``)."""

    operand: Expr
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    valid: tuple[Index, ...]
    dtype: str


@dataclass(frozen=True)
class Reduce:
    """The operand reduced along `axis`, over the extents that exist; one of `REDUCTIONS`.

    The axis is dropped. An empty sum is 0, an empty maximum is the least value.
    """

    function: str
    operand: Expr
    axis: int
    shape: tuple[int, ...]
    valid: tuple[Index, ...]
    dtype: str


Expr = Union[
    Load, Constant, Scalar, IndexValue, Position, Unary, Binary, Select, Cast, Expand, Reduce
]


class ShapeMismatchError(ValueError):
    """Two operands do not broadcast; carries both shapes in its message."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of a node."""
    match expr:
        case Unary() | Cast() | Expand() | Reduce():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Select():
            return (expr.condition, expr.yes, expr.no)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every node, operands before the nodes that use them."""
    for child in children(expr):
        yield from walk(child)
    yield expr


def loads(expr: Expr) -> tuple[View, ...]:
    """Return the views that `expr` reads, each once, in order of first use."""
    return tuple(dict.fromkeys(node.view for node in walk(expr) if isinstance(node, Load)))


def map_children(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return `expr` with `change` applied to its direct operands."""
    match expr:
        case Unary() | Cast() | Expand() | Reduce():
            return replace(expr, operand=change(expr.operand))
        case Binary():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case Select():
            condition, yes, no = map(change, children(expr))
            return replace(expr, condition=condition, yes=yes, no=no)
        case _:
            return expr


def map_leaves(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild `expr` with `change` applied to nodes that have no operands."""
    if not children(expr):
        return change(expr)
    return map_children(expr, lambda child: map_leaves(child, change))


def unary(function: str, operand: Expr) -> Expr:
    """Apply a function of `UNARY`; integers become float32 where it needs floats."""
    # These keep integers; the other functions have floats as results.
    exact = function in ("neg", "abs", "not", "invert", "floor", "ceil", "round")
    dtype = compute_dtype(operand.dtype)
    if not exact and not is_float(dtype):
        dtype = "float32"
    if function == "not":
        dtype = "bool"
    return Unary(function, operand, operand.shape, operand.valid, dtype)


def binary(function: str, left: Expr, right: Expr) -> Expr:
    """Apply a function of `BINARY`; raises `ShapeMismatchError`."""
    left, right = _same_kind(left, right)
    shape, valid = broadcast(left, right)
    dtype = compute_dtype(promote(left.dtype, right.dtype))
    if function == "divide" and not is_float(dtype):
        dtype = "float32"
    if function in COMPARISONS:
        dtype = "bool"
    return Binary(function, left, right, shape, valid, dtype)


def select(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """Return `yes` where `condition`, else `no`; raises `ShapeMismatchError`."""
    yes, no = _same_kind(yes, no)
    shape, valid = broadcast(condition, yes, no)
    dtype = compute_dtype(promote(yes.dtype, no.dtype))
    return Select(condition, yes, no, shape, valid, dtype)


def reduce(function: str, operand: Expr, axis: int) -> Expr:
    """Reduce along one axis (negative counts from the end); raises IndexError."""
    rank = len(operand.shape)
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} of an expression with {rank} axes")
    at = axis % rank
    shape = operand.shape[:at] + operand.shape[at + 1 :]
    valid = operand.valid[:at] + operand.valid[at + 1 :]
    return Reduce(function, operand, at, shape, valid, reduced_dtype(function, operand.dtype))


def reduced_dtype(function: str, dtype: str) -> str:
    """Return the type in which elements of `dtype` are reduced."""
    return accumulator_dtype(dtype) if function == "sum" else compute_dtype(dtype)


def expand(operand: Expr, axes: tuple[int, ...]) -> Expr:
    """Insert axes of extent 1 at the given positions of the result."""
    shape, valid = list(operand.shape), list(operand.valid)
    for position in sorted(axes):
        shape.insert(position, 1)
        valid.insert(position, Index.of(1))
    return Expand(operand, tuple(sorted(axes)), tuple(shape), tuple(valid), operand.dtype)


def broadcast(*operands: Expr) -> tuple[tuple[int, ...], tuple[Index, ...]]:
    """The common shape by NumPy's rule; raises `ShapeMismatchError`, also at ragged edges."""
    rank = max(len(o.shape) for o in operands)
    shape, valid = [1] * rank, [Index.of(1)] * rank
    for operand in operands:
        skip = rank - len(operand.shape)
        for n, (extent, exists) in enumerate(zip(operand.shape, operand.valid, strict=True)):
            at = skip + n
            if extent == 1 and exists == Index.of(1):
                continue
            if shape[at] == 1 and valid[at] == Index.of(1):
                shape[at], valid[at] = extent, exists
            elif shape[at] != extent or valid[at] != exists:
                shapes = " and ".join(_text(o) for o in operands)
                raise ShapeMismatchError(f"shapes {shapes} do not broadcast")
    return tuple(shape), tuple(valid)


def _same_kind(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Give a constant the dtype of its partner, as Python numbers have none."""
    if isinstance(left, Constant) and not isinstance(right, Constant):
        return _typed(left, right.dtype), right
    if isinstance(right, Constant) and not isinstance(left, Constant):
        return left, _typed(right, left.dtype)
    return left, right


def _typed(constant: Constant, dtype: str) -> Constant:
    if isinstance(constant.value, bool) or dtype == "bool":  # True + 1 is 2, as in NumPy
        return constant
    fits = is_float(dtype) or isinstance(constant.value, int)
    return replace(constant, dtype=compute_dtype(dtype) if fits else "float32")


def _text(expr: Expr) -> str:
    parts = (
        str(n) if v == Index.of(n) else str(v) for n, v in zip(expr.shape, expr.valid, strict=True)
    )
    return f"({', '.join(parts)})"
