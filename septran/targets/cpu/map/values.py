"""Tensor expressions at one point or for a vector of points; their divisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm import tirx

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.index import Index, Var, minimum
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.map.elements import held_dtype, narrow, read, widen
from septran.targets.cpu.simd import constant
from septran.targets.lower.expressions import Evaluation
from septran.targets.lower.statements import Point, operand_point
from septran.targets.lower.values import broadcast, element_of, lanes_of
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
    def of(context: Context, divisor: Expr) -> Reciprocal:
        """The reciprocal of a scalar."""
        writer, dtype = context.writer, element_of(divisor)
        limit, size = _LIMIT[dtype], context.arithmetic.magnitude(divisor)
        normal = tirx.And(size < constant(limit, dtype), size > constant(1 / limit, dtype))
        value = writer.bind("reciprocal", tirx.Div(constant(1.0, dtype), divisor))
        flag = writer.bind("normal", tirx.Select(normal, writer.index(1), writer.index(0)))
        return Reciprocal(value, flag)

    def quotient(self, writer: Writer, dividend: Expr, divisor: Expr) -> Expr:
        """A vector divided: a product, or a true quotient for divisors at the range's ends."""
        lanes, zero = lanes_of(dividend), writer.index(0)
        dividend = writer.bind("x", dividend)
        result = writer.allocate("quotient", lanes, element_of(dividend))
        # Near the ends of the range a reciprocal is subnormal or infinite, and the product far off.
        ways = []
        for way, other in ((tirx.Mul, self.value), (tirx.Div, divisor)):
            with writer.body() as body:
                value = way(dividend, broadcast(other, lanes))
                simd.store(writer, result, zero, value, lanes)
            ways.append(body)
        writer.choose(self.normal != zero, *ways)
        return simd.load(result, zero, lanes)


@dataclass
class VectorEvaluation(Evaluation[Point]):
    """Values at one point: scalars where an expression is the same in all lanes, else vectors."""

    context: Context
    accesses: Mapping[Region, Access]
    reciprocals: dict[int, Reciprocal] = field(default_factory=dict)
    """Reciprocals of divisors that are the same in all lanes, by the quotient's identity."""
    kept: dict[str, Expr] = field(default_factory=dict)
    """The vectors at this point of buffers that are not stored, by the buffer's name."""

    def keep(self, buffer: str, value: Expr) -> None:
        """Let loads of a buffer at this point give `value`."""
        truth = element_of(value) == "bool"
        self.kept[buffer] = value if truth else self.context.writer.bind("v", value)

    def inside(self) -> VectorEvaluation:
        """For a loop in this one's body: it knows what was computed before the loop."""
        # A copy: what is computed in the loop's body must not be used behind it.
        known = dict(self.known)
        return VectorEvaluation(self.context, self.accesses, self.reciprocals, known=known)

    def hoist(self, expr: ex.Expr, point: Point) -> None:
        """Compute now what is the same in all lanes, before the loop over vectors."""
        if isinstance(expr, ex.Constant):
            return
        if point.along is None:
            self.value(expr, point)
            return
        for child in ex.children(expr):
            self.hoist(child, self.operand(expr, child, point))
        if isinstance(expr, ex.Binary) and expr.function == "divide" and is_float(expr.dtype):
            right = self.operand(expr, expr.right, point)
            divisor = self.typed(expr.right, right, expr.dtype) if right.along is None else None
            if divisor is not None and not isinstance(expr.right, ex.Constant):
                self.reciprocals[id(expr)] = Reciprocal.of(self.context, divisor)

    def named(self, expr: ex.Expr, value: Expr) -> Expr:
        """Numbers are; truth values are LLVM's to keep."""
        plain = isinstance(expr, ex.Constant) or element_of(value) == "bool"
        return value if plain else self.context.writer.bind("v", value)

    def operand(self, parent: ex.Expr, child: ex.Expr, place: Point) -> Point:
        """The same lanes in the operand's coordinates."""
        return operand_point(place, child, parent.shape, parent)

    def coordinate(self, place: Point) -> Index:
        """With `LANE` where the lanes go along the axis."""
        return place.at[0] + (Index.of(LANE) if place.along == 0 else Index())

    def load(self, expr: ex.Load, place: Point) -> Expr:
        """From its buffer, or from what was kept of it."""
        assert isinstance(expr.view, Region)
        if expr.view.buffer in self.kept:
            return self.kept[expr.view.buffer]
        access = self.accesses[expr.view]
        count = None if place.count is None else self.context.lower(place.count)
        return read(self.context, access, place.at, place.lanes, place.along or 0, count)

    def rounded(self, value: Expr, dtype: str) -> Expr:
        """As `narrow` does it, for types that LLVM lacks."""
        short = narrow(self.context, value, dtype, held_dtype(dtype))
        return widen(self.context.writer.bind("s", short), dtype)

    def combined(self, expr: ex.Binary, left: Expr, right: Expr) -> Expr:
        """A quotient by what is the same in all lanes is a product."""
        if id(expr) in self.reciprocals and lanes_of(left) > 1 == lanes_of(right):
            return self.reciprocals[id(expr)].quotient(self.context.writer, left, right)
        return super().combined(expr, left, right)

    def compare(self, function: str, left: Index, right: Index, place: Point) -> Expr | None:
        """As one index against 0, where indices are as long as that."""
        difference = left - right
        step = difference.coefficient(LANE)
        rest = Index.of(LANE) * step - difference
        if LANE in rest.variables() or not self.context.indices.holds(rest):
            return None
        lanes = 1 if step == 0 else place.lanes
        other = broadcast(self.context.lower(rest), lanes)
        return self.context.arithmetic.combine(function, self._lanes(step, lanes), other)

    def number(self, index: Index, place: Point) -> Expr:
        """An index as a number in each lane."""
        step = index.coefficient(LANE)
        rest = index - Index.of(LANE) * step
        if LANE in rest.variables():
            return self._each(index, place)
        start = self.context.lower(rest)
        if step == 0:
            return start
        return broadcast(start, place.lanes) + self._lanes(step, place.lanes)

    def _each(self, index: Index, place: Point) -> Expr:
        """One lane after another, as rows have that a tensor of indices chooses.

        Lanes that do not exist are as the last one that does: it may be the tensor's last.
        """
        last = place.lanes if place.count is None else place.count
        lanes = (minimum(n, Index.of(last) - 1) for n in range(place.lanes))
        values = [self.context.lower(index.substitute({LANE: lane})) for lane in lanes]
        return tirx.Shuffle(values, list(range(place.lanes)))

    def _lanes(self, step: int, lanes: int) -> Expr:
        """0, `step`, ...: a constant, as LLVM would put a ramp together lane by lane."""
        zero = self.context.writer.index(0)
        return zero if step == 0 else tirx.Ramp(zero, self.context.writer.index(step), lanes)


LANE = Var("@lane")
"""The number of the lane, in indices that differ from lane to lane."""
