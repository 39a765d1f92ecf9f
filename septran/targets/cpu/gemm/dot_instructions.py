"""Instructions that add dot products of short elements to sums of 32 bits, and what stands in.

A processor that lacks one runs plain operations with the same bits instead, so that code for it
can be tried anywhere. Both are functions in LLVM's own words. The instruction vanishes in its
callers; what stands in stays a function, as it is long and nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from septran.targets.cpu import simd
from septran.targets.cpu.context import Context
from septran.targets.cpu.run.isa import features, llvm_arch
from septran.targets.cpu.simd import lanes_of, vector_type
from septran.targets.lower.writer import Expr


@dataclass(frozen=True)
class Dot:
    """One instruction, whatever the width of its registers."""

    name: str
    """What assembly calls it."""
    size: int
    """Elements of a group."""
    sums: str
    """The type of a sum."""
    flip: int
    """The sign bits of a group, by which signed numbers become unsigned ones; 0: none are."""
    text: Callable[[int, frozenset[str]], str]
    """LLVM's text of the function for so many sums, on a processor with these features."""

    def flipped(self, a: str, b: str) -> bool:
        """Whether B's signs are changed: those of A and of what it is multiplied by differ."""
        return bool(self.flip) and (a == "int8") == (b == "int8")

    def undone(self, a: str) -> int:
        """What the sum of A's row is multiplied by to make up for changed signs of B."""
        return -128 if a == "int8" else 128

    def add(self, context: Context, sums: Expr, a: Expr, b: Expr, dtype: str) -> Expr:
        """`sums` and the products of `a`, of type `dtype`, and `b`, both as words of 32 bits."""
        lanes = lanes_of(sums)
        have = features(llvm_arch(context.machine))
        context.writer.functions[self.function(lanes)] = self.text(lanes, have)
        unsigned, signed = (b, a) if dtype == "int8" else (a, b)
        kind = vector_type(self.sums, lanes)
        return simd.external(kind, self.function(lanes), sums, unsigned, signed)

    def function(self, lanes: int) -> str:
        """What `text` calls itself."""
        return f"septran_{self.name}_{lanes}"


def _vpdpbusd(lanes: int, have: frozenset[str]) -> str:
    """Four products of unsigned and signed bytes each, and their sum, which wraps."""
    real = {"avx512vnni"} if lanes == 16 else {"avx512vnni", "avx512vl"}
    if real <= have or (lanes < 16 and "avxvnni" in have):
        return _call(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", "vpdpbusd", lanes)
    word, byte, wide = f"<{lanes} x i32>", f"<{4 * lanes} x i8>", f"<{4 * lanes} x i32>"
    lines = [
        f"define {word} @septran_vpdpbusd_{lanes}({word} %c, {word} %a, {word} %b) noinline {{",
        f"  %u = bitcast {word} %a to {byte}",
        f"  %s = bitcast {word} %b to {byte}",
        f"  %x = zext {byte} %u to {wide}",
        f"  %y = sext {byte} %s to {wide}",
        f"  %p = mul {wide} %x, %y",
    ]
    total = "%c"
    for n in range(4):
        picked = ", ".join(f"i32 {4 * lane + n}" for lane in range(lanes))
        lines += [
            f"  %p{n} = shufflevector {wide} %p, {wide} poison, {word} <{picked}>",
            f"  %t{n} = add {word} {total}, %p{n}",
        ]
        total = f"%t{n}"
    return "\n".join([*lines, f"  ret {word} {total}", "}"])


def _call(intrinsic: str, name: str, lanes: int) -> str:
    """The function that is an instruction of LLVM's on bytes."""
    word, byte = f"<{lanes} x i32>", f"<{4 * lanes} x i8>"
    return f"""\
declare {word} @{intrinsic}({word}, {byte}, {byte})
define {word} @septran_{name}_{lanes}({word} %c, {word} %a, {word} %b) alwaysinline {{
  %u = bitcast {word} %a to {byte}
  %s = bitcast {word} %b to {byte}
  %r = call {word} @{intrinsic}({word} %c, {byte} %u, {byte} %s)
  ret {word} %r
}}"""


VPDPBUSD = Dot("vpdpbusd", 4, "int32", -0x7F7F7F80, _vpdpbusd)
"""AVX512_VNNI's and AVX-VNNI's product of unsigned bytes with signed ones."""
