"""Bits of short unsigned integers in 32 bits, where floats are made of them.

A float is made from an integer of 32 bits. Of bytes from which several numbers are taken, as two
weights of 4 bits, a vector is so widened once, and not each number (on AVX2 ``vpmovzxbd`` is the
dearest of what unpacks them: Zen 3 needs 4.1 cycles for eight bytes so, and 2.5 with one of it).
"""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from septran.dtypes import is_float, itemsize
from septran.ir import expressions as ex
from septran.targets.cpu import simd
from septran.targets.cpu.map.values import VectorEvaluation
from septran.targets.cpu.simd import AVX2, AVX512
from septran.targets.lower.statements import Point
from septran.targets.lower.values import bits, element_of, lanes_of
from septran.targets.lower.writer import Expr

WIDE = "int32"
UNSIGNED = ("uint8", "uint16")
EXACT = ("and", "or", "xor")
"""What gives the same number in either type."""


def widened(expr: ex.Expr) -> ex.Expr:
    """The same expression with such integers widened where they are read."""
    if isinstance(expr, ex.Cast) and is_float(expr.dtype) and _bits(expr.operand):
        return replace(expr, operand=_wide(expr.operand))
    return ex.map_children(expr, widened)


def _bits(expr: ex.Expr) -> bool:
    """Whether an expression takes some bits of short unsigned integers."""
    if expr.dtype not in UNSIGNED:
        return False
    match expr:
        case ex.Load() | ex.Constant():
            return True
        case ex.Binary(function="right_shift", right=ex.Constant(value=int(count))):
            return count < 8 * itemsize(expr.dtype) and _bits(expr.left)
        case ex.Binary(function=function):
            return function in EXACT and _bits(expr.left) and _bits(expr.right)
    return False


def _wide(expr: ex.Expr) -> ex.Expr:
    match expr:
        case ex.Constant():
            return replace(expr, dtype=WIDE)
        case ex.Binary():
            return replace(expr, left=_wide(expr.left), right=_wide(expr.right), dtype=WIDE)
    return ex.Cast(expr, WIDE)


class WideEvaluation(VectorEvaluation):
    """Values of expressions that are `widened`."""

    def _value(self, expr: ex.Expr, place: Point) -> Expr:
        match expr:
            case ex.Cast(operand=ex.Load() as read, dtype=dtype) if dtype == WIDE:
                short = self._operand(expr, read, place)
            case _:
                return super()._value(expr, place)
        known = self.context.unit in (AVX2, AVX512) and element_of(short) in UNSIGNED
        if not known or lanes_of(short) == 1:
            return super()._value(expr, place)
        # As a shuffle, which LLVM does not move behind what takes bits of it.
        lanes, size = lanes_of(short), itemsize(WIDE) // itemsize(element_of(short))
        order = [n for lane in range(lanes) for n in (lane, *[lanes] * (size - 1))]
        zeros = simd.constant(0, element_of(short), lanes)
        return bits(tirx.Shuffle([short, *[zeros] * (size - 1)], order), WIDE)
