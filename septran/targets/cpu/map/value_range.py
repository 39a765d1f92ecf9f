"""The least and the greatest value of integer expressions, as far as extents bound them.

What is not known has the span of its type, and so has what may leave its type and wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from septran.dtypes import accumulator_dtype, is_float, itemsize
from septran.ir import expressions as ex
from septran.ir.bounds import bounds_if_known
from septran.ir.index import Index, Range, Var, axis
from septran.targets.lower.expressions import position
from septran.targets.lower.statements import Statement
from septran.tile.nodes import Region

Span = Range
"""The least and the greatest value, inclusive."""


def limits(dtype: str) -> Span:
    """All that an integer type holds."""
    if dtype == "bool":
        return 0, 1
    bits = 8 * itemsize(dtype)
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def fits(span: Span, dtype: str) -> bool:
    """Whether an integer type has all of a span."""
    low, high = limits(dtype)
    return low <= span[0] and span[1] <= high


def hull(*spans: Span) -> Span:
    """The least span with all of these in it."""
    return min(s[0] for s in spans), max(s[1] for s in spans)


@dataclass(frozen=True)
class Spans:
    """Spans of expressions, where loop indices and some buffers are bounded."""

    ranges: Mapping[Var, Range]
    """The inclusive range of each loop index that is in scope."""
    buffers: Mapping[str, Span]
    """The span of all that is stored in a buffer."""
    known: dict[int, Span] = field(default_factory=dict)
    """Spans by the expression's identity, as parts of expressions are shared."""

    def of(self, expr: ex.Expr) -> Span:
        """Return the value range of an expression of an integer type."""
        if id(expr) not in self.known:
            self.known[id(expr)] = self._within(self._of(expr), expr.dtype)
        return self.known[id(expr)]

    def converted(self, expr: ex.Expr, dtype: str) -> Span:
        """Return the value range of an expression converted to an integer type."""
        if not expr.dtype:  # a plain copy says no type
            return limits(dtype)
        if not is_float(expr.dtype):
            return self._within(self.of(expr), dtype)
        value = expr.value if isinstance(expr, ex.Constant) else math.nan
        whole = math.isfinite(value) and value == int(value)
        return self._within((int(value), int(value)) if whole else None, dtype)

    def result(self, statement: Statement, dtype: str) -> Span:
        """Return the value range that a statement stores in a buffer of an integer type."""
        if statement.function is None or is_float(statement.value.dtype):
            return self.converted(statement.value, dtype)
        return self._within(self.reduced(statement), dtype)

    def reduced(self, statement: Statement) -> Span:
        """Return the value range of a reduction of integers, and of each of its steps."""
        value, function = self.of(statement.value), statement.function
        least, greatest = self._extent(statement)
        if function == "sum":
            # Partial sums count as well, in any order and from no term at all on.
            total = min(0, value[0] * greatest), max(0, value[1] * greatest)
            return self._within(total, accumulator_dtype(statement.value.dtype))
        if least > 0:
            return value
        low, high = limits(statement.value.dtype)  # of nothing
        return hull(value, (low, low) if function == "max" else (high, high))

    def _within(self, span: Span | None, dtype: str) -> Span:
        """`span` where nothing wraps."""
        return span if span is not None and fits(span, dtype) else limits(dtype)

    def _extent(self, statement: Statement) -> Range:
        """Return how many elements a reduction has."""
        valid = statement.value.valid[statement.axis]
        return bounds_if_known(valid, self.ranges) or (0, statement.value.shape[statement.axis])

    def _of(self, expr: ex.Expr) -> Span | None:
        match expr:
            case ex.Load():
                return self._load(expr)
            case ex.Constant(value=value):
                return int(value), int(value)
            case ex.IndexValue():
                return bounds_if_known(expr.index, self.ranges)
            case ex.Position():
                return self._position(expr)
            case ex.Cast():
                return self.converted(expr.operand, expr.dtype)
            case ex.Expand():
                return self.of(expr.operand)
            case ex.Unary(function=function) if function in _UNARY:
                return _UNARY[function](self.of(expr.operand))
            case ex.Binary(function=function) if function in _BINARY:
                return _BINARY[function](self.of(expr.left), self.of(expr.right))
            case ex.Select():
                return hull(self.of(expr.yes), self.of(expr.no))
            case _:
                return None

    def _load(self, expr: ex.Load) -> Span | None:
        span = self.buffers.get(expr.view.tensor)
        outside = isinstance(expr.view, Region) and expr.view.padded
        return hull(span, (0, 0)) if span is not None and outside else span

    def _position(self, expr: ex.Position) -> Span | None:
        """Return the range of a position along its axis, with the view's other axes at 0."""
        own, last = axis(expr.axis), max(0, expr.shape[0] - 1)
        at = position(expr, Index.of(own))
        return bounds_if_known(at, {**self.ranges, own: (0, last)})


def _product(x: Span, y: Span) -> Span:
    ends = [a * b for a in x for b in y]
    return min(ends), max(ends)


def _quotient(x: Span, y: Span) -> Span | None:
    # Of a positive divisor the quotient is monotone in either, so the ends of both decide.
    ends = [a // b for a in x for b in y] if y[0] > 0 else []
    return (min(ends), max(ends)) if ends else None


def _rest(x: Span, y: Span) -> Span | None:
    if y[0] <= 0:
        return None
    return (0, min(x[1], y[1] - 1)) if x[0] >= 0 else (0, y[1] - 1)


def _both(x: Span, y: Span) -> Span | None:
    # Of two numbers in two's complement, what is not negative limits the bits of the other one.
    most = [span[1] for span in (x, y) if span[0] >= 0]
    return (0, min(most)) if most else None


def _either(x: Span, y: Span) -> Span | None:
    if min(x[0], y[0]) < 0:
        return None
    return 0, (1 << max(x[1].bit_length(), y[1].bit_length())) - 1


def _shifted_right(x: Span, y: Span) -> Span | None:
    # Monotone in either; what is shifted by its width or more is 0 or -1, as it is here.
    ends = [a >> b for a in x for b in y] if y[0] >= 0 else []
    return (min(ends), max(ends)) if ends else None


_UNARY: Mapping[str, Callable[[Span], Span]] = {
    "neg": lambda x: (-x[1], -x[0]),
    "abs": lambda x: (max(0, x[0], -x[1]), max(-x[0], x[1])),
    "invert": lambda x: (-1 - x[1], -1 - x[0]),
    **dict.fromkeys(("floor", "ceil", "round"), lambda x: x),
}
_BINARY: Mapping[str, Callable[[Span, Span], Span | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "multiply": _product,
    "floor_divide": _quotient,
    "remainder": _rest,
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "and": _both,
    "or": _either,
    "xor": _either,
    "right_shift": _shifted_right,
}
