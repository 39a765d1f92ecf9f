"""Division of a vector by what is the same in all lanes: by its reciprocal, found once."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic.mathematics import magnitude
from septran.targets.cpu.simd import constant, element_of, lanes_of
from septran.targets.lower.writer import Expr, Writer

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
