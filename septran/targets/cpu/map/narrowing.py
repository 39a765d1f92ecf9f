"""64-bit integers in 32 bits where they certainly fit: twice as many in a vector.

Positions are 64-bit integers, and few tensors are so long that they need it. What is
widened again is so where it meets a wide operand or is stored: `Evaluation` and `write`
convert to the type that an operation or a buffer has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.index import Range, Var
from septran.targets.cpu.map.value_range import Span, Spans, fits, hull
from septran.targets.lower.statements import Statement
from septran.tile.nodes import Buffer

WIDE, SHORT = "int64", "int32"


def narrowed(
    run: Sequence[Statement], private: Mapping[str, Buffer], ranges: Mapping[Var, Range]
) -> tuple[list[Statement], dict[str, Buffer]]:
    """The statements and the buffers that only they use, with short integers where all fit."""
    if not any(node.dtype == WIDE for s in run for node in ex.walk(s.value)):
        return list(run), dict(private)
    spans = _stored(run, private, ranges)
    short = {n for n, s in spans.items() if private[n].dtype == WIDE and fits(s, SHORT)}
    change = _Narrowing(Spans(ranges, spans), short)
    buffers = {n: replace(b, dtype=SHORT) if n in short else b for n, b in private.items()}
    return [change.statement(s) for s in run], buffers


def _stored(
    run: Sequence[Statement], private: Mapping[str, Buffer], ranges: Mapping[Var, Range]
) -> dict[str, Span]:
    """Return what each private buffer of integers holds in the course of the run."""
    found: dict[str, Span] = {}
    for statement in run:
        buffer = private.get(statement.target.buffer)
        if buffer is None or is_float(buffer.dtype):
            continue
        span = Spans(ranges, found).result(statement, buffer.dtype)
        found[buffer.name] = hull(span, found.get(buffer.name, span))
    return found


@dataclass(frozen=True)
class _Narrowing:
    spans: Spans
    short: Collection[str]
    """Names of the buffers whose elements become 32-bit integers."""
    made: dict[int, ex.Expr] = field(default_factory=dict)
    """New expressions by the identity of the former ones: what was shared stays shared."""

    def statement(self, statement: Statement) -> Statement:
        """With a short value, unless it is summed to more or there may be nothing to reduce."""
        value = self.expression(statement.value)
        shortened = value.dtype == SHORT and statement.value.dtype == WIDE
        if shortened and statement.function and not fits(self.spans.reduced(statement), SHORT):
            value = ex.Cast(value, WIDE)
        return replace(statement, value=value)

    def expression(self, expr: ex.Expr) -> ex.Expr:
        """With short parts; short itself where its value and its operands are."""
        if id(expr) not in self.made:
            self.made[id(expr)] = self._expression(expr)
        return self.made[id(expr)]

    def _expression(self, expr: ex.Expr) -> ex.Expr:
        dtype = SHORT if expr.dtype == WIDE and self._fits(expr) else expr.dtype
        match expr:
            case ex.Load():
                return replace(expr, dtype=SHORT) if expr.view.tensor in self.short else expr
            case ex.Constant() | ex.IndexValue() | ex.Position():
                return replace(expr, dtype=dtype)
            case ex.Expand():
                operand = self.expression(expr.operand)
                return replace(expr, operand=operand, dtype=operand.dtype)
            case ex.Unary() | ex.Cast():
                return replace(expr, operand=self.expression(expr.operand), dtype=dtype)
            case ex.Binary():
                left, right = self.expression(expr.left), self.expression(expr.right)
                return replace(expr, left=left, right=right, dtype=dtype)
            case ex.Select():
                parts = (self.expression(e) for e in (expr.condition, expr.yes, expr.no))
                condition, yes, no = parts
                return replace(expr, condition=condition, yes=yes, no=no, dtype=dtype)
            case _:
                return expr

    def _fits(self, expr: ex.Expr) -> bool:
        """Whether the value is short, and what it is computed from, in the same type."""
        match expr:
            case ex.Cast():
                operands: tuple[ex.Expr, ...] = ()  # of any type
            case ex.Select():
                operands = (expr.yes, expr.no)
            case _:
                operands = ex.children(expr)
        return all(fits(self.spans.of(e), SHORT) for e in (expr, *operands))
