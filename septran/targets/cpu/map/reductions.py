"""Reductions along an axis: vector accumulators, joined pairwise at the end."""

from __future__ import annotations

from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic import wrapping
from septran.targets.cpu.arithmetic.mathematics import extreme
from septran.targets.cpu.context import Context
from septran.targets.cpu.simd import constant, lanes_of
from septran.targets.lower.reductions import identity
from septran.targets.lower.writer import Expr, Writer


def join(writer: Writer, function: str, new: Expr, old: Expr) -> Expr:
    """One more element into what was reduced so far."""
    if function == "sum":
        return wrapping.add(writer, old, new)
    return extreme(function, writer.bind("x", new), writer.bind("y", old))


class Accumulator:
    """A vector that is reduced into, held on the stack (LLVM makes registers of it)."""

    def __init__(self, context: Context, function: str, dtype: str, lanes: int) -> None:
        self.context, self.function, self.dtype, self.lanes = context, function, dtype, lanes
        writer = context.writer
        self.buffer = writer.allocate("acc", lanes, dtype)
        self.least = identity(function, dtype)
        start = constant(self.least, dtype, lanes)
        simd.store(writer, self.buffer, writer.index(0), start, lanes)

    def add(self, value: Expr, count: Expr | None = None) -> None:
        """Reduce a vector into the first lanes; only its first `count` elements if given."""
        writer, lanes = self.context.writer, lanes_of(value)
        if count is not None:
            mask = simd.first_lanes(count, lanes)
            value = simd.select(mask, value, constant(self.least, self.dtype, lanes))
        zero = writer.index(0)
        old = simd.load(self.buffer, zero, lanes)
        simd.store(writer, self.buffer, zero, join(writer, self.function, value, old), lanes)

    def vector(self) -> Expr:
        """Each lane's own reduction."""
        return simd.load(self.buffer, self.context.writer.index(0), self.lanes)

    def result(self) -> Expr:
        """All lanes reduced to one."""
        writer, lanes = self.context.writer, self.lanes
        value = simd.load(self.buffer, writer.index(0), lanes)
        while lanes > 1:
            half = writer.allocate("half", lanes, self.dtype)
            simd.store(writer, half, writer.index(0), value, lanes)
            lanes //= 2
            low = writer.bind("l", simd.load(half, writer.index(0), lanes))
            high = writer.bind("h", simd.load(half, writer.index(lanes), lanes))
            value = join(writer, self.function, high, low)
        return writer.bind("r", value)
