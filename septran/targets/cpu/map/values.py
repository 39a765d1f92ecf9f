"""Tensor expressions as TensorIR, at one point or for a vector of points; their divisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm import tirx

from septran.dtypes import SHORT, compute_dtype, is_float
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.arithmetic.conversions import convert
from septran.targets.cpu.arithmetic.mathematics import apply, combine, magnitude
from septran.targets.cpu.context import Context
from septran.targets.cpu.map.elements import held_dtype, narrow, read, widen
from septran.targets.cpu.simd import constant, element_of, lanes_of
from septran.targets.lower.positions import decided, index_of, operand_dtype
from septran.targets.lower.statements import Point, operand_point
from septran.targets.lower.writer import Expr, Writer
from septran.tile.nodes import Region

_LIMIT = {"float32": 2.0**100, "float64": 2.0**1000}
"""Divisors up to this and down to its inverse have a reciprocal that is a normal number."""


@dataclass(frozen=True)
class Reciprocal:
    """One over a divisor, which gives quotients off by at most 1 unit in the last place."""

    value: Expr
    normal: Expr
    """Whether it may be used: it is neither denormal, infinite nor NaN."""

    @staticmethod
    def of(writer: Writer, divisor: Expr) -> Reciprocal:
        """The reciprocal of a scalar."""
        dtype = element_of(divisor)
        limit, size = _LIMIT[dtype], magnitude(writer, divisor)
        normal = tirx.And(size < constant(limit, dtype), size > constant(1 / limit, dtype))
        value = writer.bind("reciprocal", tirx.Div(constant(1.0, dtype), divisor))
        flag = writer.bind("normal", tirx.Select(normal, writer.index(1), writer.index(0)))
        return Reciprocal(value, flag)

    def quotient(self, writer: Writer, dividend: Expr, divisor: Expr) -> Expr:
        """A vector divided: a product, or a true quotient for divisors at the range's ends."""
        lanes, zero = lanes_of(dividend), writer.index(0)
        dividend = writer.bind("x", dividend)
        result = writer.allocate("quotient", lanes, element_of(dividend))
        ways = []
        for way, other in ((tirx.Mul, self.value), (tirx.Div, divisor)):
            with writer.body() as body:
                value = way(dividend, simd.broadcast(other, lanes))
                simd.store(writer, result, zero, value, lanes)
            ways.append(body)
        writer.choose(self.normal != zero, *ways)
        return simd.load(result, zero, lanes)


@dataclass
class Evaluation:
    """Values at one point; what occurs twice is computed once."""

    context: Context
    accesses: Mapping[Region, Access]
    known: dict[tuple[int, Point], Expr] = field(default_factory=dict)
    """By the expression's identity and where it was evaluated."""
    reciprocals: dict[int, Reciprocal] = field(default_factory=dict)
    """Of divisors that are the same in all lanes, by the quotient's identity."""
    kept: dict[str, Expr] = field(default_factory=dict)
    """Vectors of buffers that are not stored."""

    def keep(self, buffer: str, value: Expr) -> None:
        """Let loads of a buffer at this point give `value`."""
        truth = simd.element_of(value) == "bool"
        self.kept[buffer] = value if truth else self.context.writer.bind("v", value)

    def inside(self) -> Evaluation:
        """For a loop in this one's body: it knows what was computed before the loop."""
        return Evaluation(self.context, self.accesses, dict(self.known), self.reciprocals)

    def hoist(self, expr: ex.Expr, point: Point) -> None:
        """Compute now what is the same in all lanes, before the loop over vectors."""
        if isinstance(expr, ex.Constant):
            return
        if point.along is None:
            self.value(expr, point)
            return
        for child in ex.children(expr):
            self.hoist(child, operand_point(point, child, expr.shape, expr))
        if isinstance(expr, ex.Binary) and expr.function == "divide" and is_float(expr.dtype):
            right = operand_point(point, expr.right, expr.shape)
            divisor = self.typed(expr.right, right, expr.dtype) if right.along is None else None
            if divisor is not None and not isinstance(expr.right, ex.Constant):
                self.reciprocals[id(expr)] = Reciprocal.of(self.context.writer, divisor)

    def value(self, expr: ex.Expr, point: Point) -> Expr:
        """A scalar where `expr` is the same in all lanes, else a vector."""
        key = (id(expr), point)
        if key not in self.known:
            value = self._value(expr, point)
            if not isinstance(expr, ex.Constant) and simd.element_of(value) != "bool":
                value = self.context.writer.bind("v", value)
            self.known[key] = value
        return self.known[key]

    def typed(self, expr: ex.Expr, point: Point, dtype: str) -> Expr:
        """The value in a type."""
        return convert(self.context.writer, self.value(expr, point), dtype)

    def _value(self, expr: ex.Expr, point: Point) -> Expr:
        match expr:
            case ex.Load():
                return self._load(expr, point)
            case ex.Constant():
                return simd.constant(expr.value, compute_dtype(expr.dtype))
            case ex.Scalar():
                return simd.cast(self.context.scalars[expr.name], compute_dtype(expr.dtype))
            case ex.IndexValue() | ex.Position():
                return simd.cast(self._number(_index(expr, point), point), expr.dtype)
            case ex.Cast():
                return self._cast(expr, point)
            case ex.Expand():
                return self.value(
                    expr.operand, operand_point(point, expr.operand, expr.shape, expr)
                )
            case ex.Unary():
                operand = self.value(
                    expr.operand, operand_point(point, expr.operand, expr.shape, expr)
                )
                return apply(self.context.writer, expr.function, operand, expr.dtype)
            case ex.Binary():
                return self._binary(expr, point)
            case ex.Select():
                return self._select(expr, point)
            case ex.Reduce():
                raise AssertionError("reductions were taken out before")

    def _load(self, expr: ex.Load, point: Point) -> Expr:
        assert isinstance(expr.view, Region)
        if expr.view.buffer in self.kept:
            return self.kept[expr.view.buffer]
        access = self.accesses[expr.view]
        count = None if point.count is None else self.context.lower(point.count)
        return read(self.context, access, point.at, point.lanes, point.along or 0, count)

    def _cast(self, expr: ex.Cast, point: Point) -> Expr:
        value = self.value(expr.operand, point)
        if expr.dtype in SHORT:  # rounded, and used in float32 from then on
            return rounded(self.context, value, expr.dtype)
        return convert(self.context.writer, value, expr.dtype)

    def _binary(self, expr: ex.Binary, point: Point) -> Expr:
        known = decided(expr)
        if known is not None:
            return constant(known, "bool")
        left, right = (operand_point(point, e, expr.shape) for e in (expr.left, expr.right))
        if expr.function in ex.COMPARISONS:
            positions = _index(expr.left, left), _index(expr.right, right)
            if positions[0] is not None and positions[1] is not None:
                told = self._compare(expr.function, positions[0] - positions[1], point)
                if told is not None:
                    return told
        dtype = operand_dtype(expr)
        a, b = self.typed(expr.left, left, dtype), self.typed(expr.right, right, dtype)
        if id(expr) in self.reciprocals and simd.lanes_of(a) > 1 == simd.lanes_of(b):
            return self.reciprocals[id(expr)].quotient(self.context.writer, a, b)
        return combine(self.context.writer, expr.function, a, b)

    def _compare(self, function: str, difference: Index, point: Point) -> Expr | None:
        """Positions are compared as one index against 0, where indices are as long as that."""
        step = difference.coefficient(LANE)
        lanes = 1 if step == 0 else point.lanes
        rest = Index.of(LANE) * step - difference
        if not self.context.indices.holds(rest):
            return None
        other = simd.broadcast(self.context.lower(rest), lanes)
        return combine(self.context.writer, function, self._lanes(step, lanes), other)

    def _number(self, index: Index | None, point: Point) -> Expr:
        """An index as a number in each lane."""
        assert index is not None
        step = index.coefficient(LANE)
        start = self.context.lower(index - Index.of(LANE) * step)
        if step == 0:
            return start
        return simd.broadcast(start, point.lanes) + self._lanes(step, point.lanes)

    def _lanes(self, step: int, lanes: int) -> Expr:
        """0, `step`, ...: a constant, as LLVM would put a ramp together lane by lane."""
        zero = self.context.writer.index(0)
        return zero if step == 0 else tirx.Ramp(zero, self.context.writer.index(step), lanes)

    def _select(self, expr: ex.Select, point: Point) -> Expr:
        parts = (expr.condition, expr.yes, expr.no)
        points = [operand_point(point, part, expr.shape) for part in parts]
        condition = self.typed(expr.condition, points[0], "bool")
        yes, no = (self.typed(e, p, expr.dtype) for e, p in zip(parts[1:], points[1:], strict=True))
        lanes = max(map(simd.lanes_of, (condition, yes, no)))
        yes, no = simd.broadcast(yes, lanes), simd.broadcast(no, lanes)
        if lanes > 1 and simd.lanes_of(condition) == 1:
            condition = tirx.Broadcast(condition, lanes)
        return tirx.Select(condition, yes, no)


LANE = Var("@lane")
"""The number of the lane, in indices that differ from lane to lane."""


def rounded(context: Context, value: Expr, dtype: str) -> Expr:
    """A float32 rounded to a 16-bit type, still as float32."""
    held = held_dtype(dtype)
    short = context.writer.bind("s", narrow(context, value, dtype, held))
    return widen(short, dtype)


def _index(expr: ex.Expr, point: Point) -> Index | None:
    """An expression of positions as an index (with `LANE` in it); None for any other."""
    return index_of(expr, point, _inner, _coordinate)


def _inner(parent: ex.Expr, child: ex.Expr, point: Point) -> Point:
    return operand_point(point, child, parent.shape, parent)


def _coordinate(point: Point) -> Index:
    return point.at[0] + (Index.of(LANE) if point.along == 0 else Index())
