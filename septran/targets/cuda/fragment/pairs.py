"""Elements of neighbouring registers two at a time, where an instruction takes two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.ir import expressions as ex
from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import Digit, Fragment
from septran.targets.cuda.fragment.halves import HalfPair
from septran.targets.cuda.fragment.registers import RegisterLoop, register_digits
from septran.targets.cuda.fragment.statements import Places, reads
from septran.targets.cuda.text.ptx import words
from septran.targets.lower.indices import divisor
from septran.targets.lower.statements import Statement
from septran.targets.lower.writer import Expr

BYTES = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
"""What PTX calls floats of 8 bits."""
# What saturates at 448 is made NaN by its last bit: see `prelude.FLOAT8_BITS`.
FINISHED = {
    "e4m3": "pair | (fabsf(low) > 464.0f ? 1 : 0) | (fabsf(high) > 464.0f ? 0x100 : 0)",
    "e5m2": "pair",
}
"""Two elements, the second in the upper byte, from what the conversion saturates."""
CONVERT = """\
__forceinline__ __device__ uint16_t septran_pair_@KIND@(float low, float high) {
  uint16_t pair;
  asm("cvt.rn.satfinite.@KIND@x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return @FINISHED@;
}
"""


@dataclass
class Elements:
    """How a statement's elements are computed one by one."""

    walk: RegisterLoop
    fetch: Callable[[], None]
    """Load what the loops' current element needs from memory."""
    read: Callable[[ex.Load, Places], Expr]
    """The element of a view that the current element needs, in the view's own dtype."""
    value: Callable[[], Expr]
    """The current element's value, as float32."""


def pair_digit(fragment: Fragment, lane: Digit | None) -> Digit | None:
    """The digit of neighbouring registers, if loops over lanes go over it or over none."""
    digit = next(reversed(register_digits(fragment)), None)
    if digit is None or digit.stride != 1 or digit.extent % 2 or lane not in (None, digit):
        return None
    return digit


def side_by_side(walk: RegisterLoop, digit: Digit, place: Callable[[], Index]) -> bool:
    """Whether each two elements have neighbouring places, the first one an even one."""
    places = []
    for step in range(2):
        walk.steps[digit] = Index.of(step)
        places.append(walk.context.indices.simplify(place()))
    del walk.steps[digit]
    return places[1] - places[0] == Index.of(1) and divisor(places[0]) % 2 == 0


@dataclass(frozen=True)
class Pairs:
    """How they are computed two at a time."""

    context: Context
    statement: Statement
    digit: Digit
    halves: HalfPair | None

    @staticmethod
    def of(context: Context, statement: Statement, digit: Digit | None) -> Pairs | None:
        """Return None where nothing is to be had by it."""
        if digit is None:
            return None
        halves = HalfPair.of(context, statement)
        dtype = context.storages[statement.target.tensor].dtype
        if halves is None and not (context.writer.dialect.pairs and dtype in BYTES):
            return None
        return Pairs(context, statement, digit, halves)

    def emit(self, elements: Elements, target: Any, place: Callable[[], Index]) -> None:
        """Store each element at its `place` in an array."""
        context, walk = self.context, elements.walk
        held = words(context, target, "uint32" if self.halves else "uint16")
        with context.loop("r", self.digit.extent // 2, unrolled=True) as pair:
            steps = [pair * 2, pair * 2 + 1]
            value = self._halves(elements, steps) if self.halves else self._bytes(elements, steps)
            walk.steps[self.digit] = pair * 2
            at = context.indices.simplify(place() // 2)
            context.writer.store(held, context.lower(at), value)

    def _bytes(self, elements: Elements, steps: list[Index]) -> Expr:
        values = []
        for step in steps:
            elements.walk.steps[self.digit] = step
            elements.fetch()
            values.append(self.context.writer.bind("v", elements.value()))
        kind = BYTES[self.context.storages[self.statement.target.tensor].dtype]
        source = CONVERT.replace("@KIND@", kind).replace("@FINISHED@", FINISHED[kind])
        return T.cuda.func_call(
            f"septran_pair_{kind}", *values, source_code=source, return_type="uint16"
        )

    def _halves(self, elements: Elements, steps: list[Index]) -> Expr:
        assert self.halves is not None
        known: dict[tuple[Any, Places], list[Expr]] = {}
        for step in steps:
            elements.walk.steps[self.digit] = step
            elements.fetch()
            for load, places in dict.fromkeys(reads(self.statement)):
                value = self.context.writer.bind("v", elements.read(load, places))
                known.setdefault((load.view, places), []).append(value)
        return self.halves.value(known)
