"""Computations as assignments without nested reductions, and what each of them touches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.targets.lower.expressions import axes_of
from septran.targets.lower.scans import Scan
from septran.task.tree import TunableValue
from septran.tile.nodes import Buffer, Compute, Copy, Region

ROW, SUMMED = Var("@row"), Var("@summed")


@dataclass(frozen=True)
class Point:
    """The point of an expression that is evaluated: one coordinate an axis, lanes along one."""

    at: tuple[Index, ...]
    along: int | None = None
    """The axis that the lanes go along; None for one element."""
    lanes: int = 1
    count: Index | None = None
    """How many lanes exist, where not all do."""

    def at_axis(self, at: tuple[Index, ...], along: int | None) -> Point:
        """The same lanes in other coordinates."""
        if along is None:
            return Point(at)
        return Point(at, along, self.lanes, self.count)


def operand_point(
    point: Point, operand: ex.Expr, shape: tuple[int, ...], parent: ex.Expr | None = None
) -> Point:
    """The point in an operand of an expression of `shape` that is evaluated at `point`."""
    axes = axes_of(operand, shape, parent)
    at = tuple(Index() if n is None else point.at[n] for n in axes)
    moves = point.along is not None and point.along in axes
    return point.at_axis(at, axes.index(point.along) if moves else None)


@dataclass(frozen=True)
class Statement:
    """``target[...] = value``, or a reduction of `value` along one of its axes."""

    target: Region
    value: ex.Expr
    """The expression that is stored or reduced, without reductions inside."""
    function: str | None = None
    """The reduction; None for an elementwise statement."""
    axis: int = 0
    """The axis of `value` that a reduction goes along, and its target does not have."""
    filled: bool = False
    """Whether what does not exist is written, too: as zeros, by a copy that fills its target."""
    joins: str = ""
    """The function that joins the value and the target's element at once, whoever else does so.

    An empty text where the value is stored.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Nominal extents of its axes: the target's, or of a reduction the value's."""
        return self.target.shape if self.function is None else self.value.shape

    @property
    def valid(self) -> tuple[Index, ...]:
        """The extents of the statement's axes that exist."""
        if self.filled:
            return tuple(map(Index.of, self.shape))
        return self.target.valid if self.function is None else self.value.valid

    @property
    def kept(self) -> tuple[int, ...]:
        """Its axes that its target has, in the order of the target's."""
        axes = range(len(self.shape))
        return tuple(n for n in axes if self.function is None or n != self.axis)

    @property
    def horizontal(self) -> bool:
        """Whether it reduces along the last axis, where vectors lie."""
        return self.function is not None and self.axis == len(self.value.shape) - 1

    def rest(self, depth: int) -> int:
        """Axes of the target after the first `depth`."""
        return self.target.rank - depth

    def inner(self, depth: int) -> bool:
        """Whether one loop over vectors does it, once its first `depth` axes are fixed."""
        if self.function is None:
            return self.rest(depth) <= 1
        return self.rest(depth) == (0 if self.horizontal else 1)

    def point(self, at: tuple[Index, ...], summed: Index) -> Point:
        """Return where the value is evaluated for the target's element `at`."""
        if self.function is None:
            return operand_point(Point(at), self.value, self.target.shape)
        return Point((*at[: self.axis], summed, *at[self.axis :]))


def statements(
    nodes: Iterable[Compute | Copy],
    dtype: Callable[[str], str],
    prefix: str = "%",
    held: str = "",
) -> tuple[list[Statement], list[Buffer]]:
    """The nodes as statements, and the temporaries that this took; `dtype` is a buffer's.

    `held` is a memory that reductions are made in, wherever they go from there.
    """
    split = _Split(dtype, prefix, held)
    for node in nodes:
        split.add(node)
    return split.found, split.made


class _Split:
    def __init__(self, dtype: Callable[[str], str], prefix: str, held: str) -> None:
        self.dtype, self.prefix, self.held = dtype, prefix, held
        self.found: list[Statement] = []
        self.made: list[Buffer] = []

    def add(self, node: Compute | Copy) -> None:
        if isinstance(node, Compute) and node.primitive == "scan":
            for step in Scan(node, self.dtype(node.operands[0].buffer)).doubled():
                self.add(step)
            return
        target = node.target if isinstance(node, Copy) else node.operands[0]
        value = value_of(node)
        if isinstance(value, ex.Reduce) and not self.held and _fits(value, target):
            inner = self._without(value.operand)
            statement = Statement(target, inner, value.function, value.axis)
        else:
            filled = isinstance(node, Copy) and node.zero_fill
            joins = ""
            if isinstance(node, Compute) and node.primitive == "accumulate":
                joins = str(dict(node.attributes)["function"])
            statement = Statement(target, self._without(value), filled=filled, joins=joins)
        # Elements that are still to be read would be overwritten, so the result waits beside them.
        if _reads_elsewhere(statement):
            kind = statement.value.dtype or self.dtype(target.buffer)  # a copy's is not known
            spare = self._temporary(target.shape, target.valid, kind)
            self.found.append(replace(statement, target=spare))
            statement = Statement(target, ex.Load(spare, self.made[-1].dtype))
        self.found.append(statement)

    def _without(self, expr: ex.Expr) -> ex.Expr:
        """`expr` with each reduction replaced by a temporary that holds it."""
        return without_reductions(expr, self._kept)

    def _kept(self, expr: ex.Reduce, operand: ex.Expr) -> Region:
        spare = self._temporary(expr.shape, expr.valid, expr.dtype)
        self.found.append(Statement(spare, operand, expr.function, expr.axis))
        return spare

    def _temporary(self, shape: tuple[int, ...], valid: tuple[Index, ...], dtype: str) -> Region:
        name = f"{self.prefix}{len(self.made)}"
        self.made.append(Buffer(name, self.held, shape, dtype, tensor="reduced"))
        whole = View.whole(name, shape, valid)
        return Region(name, whole.index, whole.shape, whole.valid)


def without_reductions(expr: ex.Expr, hold: Callable[[ex.Reduce, ex.Expr], Region]) -> ex.Expr:
    """`expr` with each reduction replaced by what `hold` makes to keep it, inner ones first.

    `hold` is given the reduction and its operand, which has no reductions any more.
    """
    if isinstance(expr, ex.Reduce):
        return ex.Load(hold(expr, without_reductions(expr.operand, hold)), expr.dtype)
    return ex.map_children(expr, lambda child: without_reductions(child, hold))


def value_of(node: Compute | Copy) -> ex.Expr:
    """Return what a node writes to its target, as an expression."""
    if isinstance(node, Copy):
        return ex.Load(node.source, "")
    attributes: Mapping[str, TunableValue] = dict(node.attributes)
    match node.primitive:
        case "fill":
            value = attributes.get("value", 0)
            assert not isinstance(value, str)
            return ex.Constant(value, _type_of(value))
        case "copy" | "cast" | "accumulate":
            return ex.Load(node.operands[1], "")
        case _:
            assert node.expression is not None
            return node.expression


def _type_of(value: bool | int | float) -> str:
    """Return a type that has the number as it is: float64 has not each long integer."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int) and -(2**63) <= value < 2**64 and int(float(value)) != value:
        return "int64" if value < 2**63 else "uint64"
    return "float64"


def _fits(value: ex.Reduce, target: Region) -> bool:
    return value.shape == target.shape and value.valid == target.valid


def regions_of(statement: Statement) -> tuple[Region, ...]:
    """The regions that a statement touches, its target first."""
    views = [v for v in ex.loads(statement.value) if isinstance(v, Region)]
    return (statement.target, *views)


def touched(
    statement: Statement, depth: int, summed: Var = SUMMED
) -> Iterator[tuple[Region, tuple[Index, ...]]]:
    """Yield what is written, then all that is read: elements of buffers for one row at `depth`."""
    # Names that `row_axis` tells apart: coordinates that are fixed, and those that loops run over.
    at = tuple(
        Index.of(ROW if n == depth else Var(f"@fixed{n}" if n < depth else f"@free{n}"))
        for n in range(statement.target.rank)
    )
    yield statement.target, statement.target.at(at)
    yield from _loads(statement.value, statement.point(at, Index.of(summed)))


def _loads(expr: ex.Expr, point: Point) -> Iterator[tuple[Region, tuple[Index, ...]]]:
    if isinstance(expr, ex.Load):
        assert isinstance(expr.view, Region)
        yield expr.view, expr.view.at(point.at)
    for child in ex.children(expr):
        yield from _loads(child, operand_point(point, child, expr.shape, expr))


def _reads_elsewhere(statement: Statement) -> bool:
    """Whether it reads elements of its target other than the one it writes."""
    (target, written), *reads = touched(statement, -1)
    return any(r.buffer == target.buffer and at != written for r, at in reads)


def identity(function: str, dtype: str) -> float | int:
    """Return what changes nothing: 0 for a sum, the least value for a maximum."""
    if function == "sum":
        return 0
    if is_float(dtype):
        return -math.inf if function == "max" else math.inf
    if dtype == "bool":
        return function == "min"
    size = int("".join(c for c in dtype if c.isdigit()))
    signed = dtype[0] == "i"
    low, high = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if signed else (0, 2**size - 1)
    return low if function == "max" else high
