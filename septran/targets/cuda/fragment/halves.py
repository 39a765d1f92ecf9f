"""Floats of 16 bits, computed two at a time in a register of 32 bits.

The language computes in float32 and rounds once. A sum, difference or product of two floats of
16 bits has the same bits where PTX rounds the exact one: float32's 24 bits are 2 p + 2 of
float16's p = 11, and more of bfloat16's 8, with which rounding twice is rounding once (Figueroa,
"When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995). Operands may be bytes, too,
of which a few bits are taken: so are quantised weights unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm import tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import is_float
from septran.ir import expressions as ex
from septran.ir.views import View
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.statements import Places, inner
from septran.targets.lower.expressions import axes_of
from septran.targets.lower.statements import Statement
from septran.targets.lower.writer import Expr


@dataclass(frozen=True)
class Half:
    """A float of 16 bits."""

    ptx: str
    """What PTX calls two of them."""
    cuda: str
    """What CUDA calls one of them."""
    magic: int
    """The bits of a power of two whose last bit is worth 1, of two elements."""
    limit: int
    """Whole numbers up to it are below that power, so that they can be its last bits."""
    arch: int
    """The first architecture that computes with pairs (PTX ISA, half precision instructions)."""


HALVES = {
    "float16": Half("f16x2", "half", 0x64006400, 1023, 53),
    "bfloat16": Half("bf16x2", "nv_bfloat16", 0x43004300, 127, 90),
}
FUNCTIONS = {"add": "add", "subtract": "sub", "multiply": "mul"}
"""What is computed, and PTX's names of it."""
COMPUTE = """\
__forceinline__ __device__ uint32_t septran_@NAME@_@PTX@(uint32_t a, uint32_t b) {
  uint32_t c;
  asm("@NAME@.rn.@PTX@ %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}
"""
JOIN = """\
__forceinline__ __device__ uint32_t septran_join_@PTX@(@CUDA@ low, @CUDA@ high) {
  return uint32_t(high.bits) << 16 | low.bits;
}
"""
BOTH = 0x00010001
"""A number times this is that number in either half of a register."""

Known = Mapping[tuple[View, Places], list[Expr]]
"""What two elements read of a view, in the view's own dtype."""


@dataclass(frozen=True)
class HalfPair:
    """The value of a statement for two elements at once."""

    context: Context
    statement: Statement
    kind: Half

    @staticmethod
    def of(context: Context, statement: Statement) -> HalfPair | None:
        """Return None where they are computed one by one."""
        kind = HALVES.get(context.storages[statement.target.tensor].dtype)
        value = statement.value
        if kind is None or not context.writer.dialect.pairs or context.generation < kind.arch:
            return None
        if not isinstance(value, ex.Binary) or value.function not in FUNCTIONS:
            return None
        pair = HalfPair(context, statement, kind)
        return pair if pair._is_half(value.left) and pair._is_half(value.right) else None

    def value(self, known: Known) -> Expr:
        """The two elements in a register, the first one in its lower half."""
        expr = self.statement.value
        assert isinstance(expr, ex.Binary)
        places = axes_of(expr, self.statement.shape)
        sides = (
            self._half(side, inner(expr, side, places), known) for side in (expr.left, expr.right)
        )
        return self._compute(FUNCTIONS[expr.function], *sides)

    def _is_half(self, expr: ex.Expr) -> bool:
        """Whether an operand is such a float, or bytes that are one exactly."""
        if isinstance(expr, ex.Load):
            kind = HALVES.get(self.context.storages[expr.view.tensor].dtype)
            return kind is self.kind
        most = _most(expr.operand) if isinstance(expr, ex.Cast) and is_float(expr.dtype) else None
        return most is not None and most <= self.kind.limit

    def _half(self, expr: ex.Expr, places: Places, known: Known) -> Expr:
        if isinstance(expr, ex.Load):
            return self._joined(*known[expr.view, places])
        assert isinstance(expr, ex.Cast)
        found = self._bits(expr.operand, inner(expr, expr.operand, places), known)
        magic = T.uint32(self.kind.magic)
        return self._compute("sub", tirx.bitwise_or(found, magic), magic)

    def _bits(self, expr: ex.Expr, places: Places, known: Known) -> Expr:
        """Bytes of two elements, each in a half of a register."""
        if isinstance(expr, ex.Load):
            low, high = (T.Cast("uint32", x) for x in known[expr.view, places])
            return self.context.writer.bind("w", tirx.bitwise_or(low, high << T.uint32(16)))
        assert isinstance(expr, ex.Binary)
        assert isinstance(expr.right, ex.Constant)
        found, count = (
            self._bits(expr.left, inner(expr, expr.left, places), known),
            expr.right.value,
        )
        most = _most(expr)
        assert most is not None
        if expr.function == "and":
            return tirx.bitwise_and(found, T.uint32(int(count) * BOTH))
        # What the upper half loses comes into the lower one, where it is taken off.
        return tirx.bitwise_and(found >> T.uint32(int(count)), T.uint32(most * BOTH))

    def _joined(self, low: Expr, high: Expr) -> Expr:
        source = self._text(JOIN)
        name = f"septran_join_{self.kind.ptx}"
        return T.cuda.func_call(name, low, high, source_code=source, return_type="uint32")

    def _compute(self, name: str, left: Expr, right: Expr) -> Expr:
        source = self._text(COMPUTE).replace("@NAME@", name)
        call = f"septran_{name}_{self.kind.ptx}"
        found = T.cuda.func_call(call, left, right, source_code=source, return_type="uint32")
        return self.context.writer.bind("h", found)

    def _text(self, source: str) -> str:
        return source.replace("@PTX@", self.kind.ptx).replace("@CUDA@", self.kind.cuda)


def _most(expr: ex.Expr) -> int | None:
    """The greatest value of bytes of which bits are taken; None of other expressions."""
    match expr:
        case ex.Load(dtype="uint8"):
            return 255
        case ex.Binary("and", left, ex.Constant(int(mask))) if 0 <= mask <= 255:
            most = _most(left)
            return None if most is None else mask
        case ex.Binary("right_shift", left, ex.Constant(int(count))) if 0 <= count <= 7:
            most = _most(left)
            return None if most is None else most >> count
    return None
