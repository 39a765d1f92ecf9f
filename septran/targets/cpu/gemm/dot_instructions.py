"""Instructions that add dot products of short elements to sums of 32 bits, and what stands in.

A processor that lacks one runs plain operations with the same bits instead, so that code for it
can be tried anywhere. Both are functions in LLVM's own words, which vanish in their callers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from septran.targets.cpu import simd
from septran.targets.cpu.context import Context
from septran.targets.cpu.run.isa import features, llvm_arch
from septran.targets.lower.values import lanes_of, vector_type
from septran.targets.lower.writer import Expr


@dataclass(frozen=True)
class Dot:
    """One instruction, whatever the width of its registers."""

    name: str
    """The instruction's mnemonic in assembly."""
    size: int
    """The number of elements of a group, whose products go into one sum."""
    sums: str
    """The type of a sum."""
    flip: int
    """The sign bits of a group, by which signed numbers become unsigned ones; 0: none are."""
    text: Callable[[int, frozenset[str]], str]
    """LLVM's text of the function for so many sums, on a processor with these features."""
    element: str = ""
    """What elements are widened to, when they are packed or else when they are used; '': as
    they are held."""

    def flipped(self, a: str, b: str) -> bool:
        """Whether B's signs are changed: those of A and of what it is multiplied by differ."""
        # The instruction multiplies unsigned bytes by signed ones; operands of different signs are
        # as it wants them.
        return bool(self.flip) and (a == "int8") == (b == "int8")

    def undone(self, a: str) -> int:
        """Return what the sum of A's row is multiplied by to make up for changed signs of B."""
        # B's bytes are 128 more as unsigned numbers, or 128 less as signed ones, and so is each
        # product by A's byte.
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
        """Return what `text` calls itself."""
        return f"septran_{self.name}_{lanes}"


def _vpdpbusd(lanes: int, have: frozenset[str]) -> str:
    """Four products of unsigned and signed bytes each, and their sum, which wraps."""
    # The EVEX forms of 128 and 256 bits need AVX512VL as well; AVX-VNNI has VEX forms of them.
    real = {"avx512vnni"} if lanes == 16 else {"avx512vnni", "avx512vl"}
    if real <= have or (lanes < 16 and "avxvnni" in have):
        return _call(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", "vpdpbusd", lanes)
    word, half = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    # Bytes are widened to 16 bits first, even ones (0) and odd ones (1) apart, as VPMADDUBSW on
    # bytes would saturate its sums of pairs.
    eight = "<" + ", ".join(["i16 8"] * 2 * lanes) + ">"
    lines = [
        "declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)",
        f"define {word} @septran_vpdpbusd_{lanes}({word} %c, {word} %a, {word} %b) alwaysinline {{",
        f"  %u = bitcast {word} %a to {half}",
        f"  %s = bitcast {word} %b to {half}",
        f"  %ul = shl {half} %u, {eight}",
        f"  %sl = shl {half} %s, {eight}",
        f"  %u0 = lshr {half} %ul, {eight}",
        f"  %s0 = ashr {half} %sl, {eight}",
        f"  %u1 = lshr {half} %u, {eight}",
        f"  %s1 = ashr {half} %s, {eight}",
    ]
    for n in range(2):
        lines += _pair_products(f"p{n}", f"%u{n}", f"%s{n}", lanes)
    lines += [f"  %t = add {word} %c, %p0", f"  %r = add {word} %t, %p1", f"  ret {word} %r", "}"]
    return "\n".join(lines)


def _vpmaddwd(lanes: int, have: frozenset[str]) -> str:
    """Two products of numbers of 16 bits each, and their sum; of bytes none overflows."""
    word, half = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    lines = [
        f"define {word} @septran_vpmaddwd_{lanes}({word} %c, {word} %a, {word} %b) alwaysinline {{",
        f"  %u = bitcast {word} %a to {half}",
        f"  %s = bitcast {word} %b to {half}",
    ]
    if lanes == 16 and "avx512bw" in have:
        real = "@llvm.x86.avx512.pmaddw.d.512"
        lines.insert(0, f"declare {word} {real}({half}, {half})")
        lines.append(f"  %p = call {word} {real}({half} %u, {half} %s)")
    else:
        lines.insert(0, "declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)")
        lines += _pair_products("p", "%u", "%s", lanes)
    return "\n".join([*lines, f"  %r = add {word} %c, %p", f"  ret {word} %r", "}"])


def _vpmaddubsw(lanes: int, have: frozenset[str]) -> str:
    """Four products of unsigned and signed bytes, of which each two may be summed in 16 bits."""
    word, half = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    declared, lines = _byte_pairs(lanes, have)
    return "\n".join(
        [
            "declare <8 x i32> @llvm.x86.avx2.pmadd.wd(<16 x i16>, <16 x i16>)",
            *declared,
            f"define {word} @septran_vpmaddubsw_{lanes}({word} %c, {word} %a, {word} %b) "
            "alwaysinline {",
            *lines,
            f"  %one = bitcast {half} {splat('i16', '1', 2 * lanes)} to {half}",
            *_pair_products("q", "%p", "%one", lanes),
            f"  %r = add {word} %c, %q",
            f"  ret {word} %r",
            "}",
        ]
    )


def byte_pairs(lanes: int, have: frozenset[str]) -> str:
    """``vpmaddubsw``: products of unsigned and signed bytes, each two added up in 16 bits.

    The sum saturates, so it is for what certainly fits.
    """
    word, half = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    declared, lines = _byte_pairs(lanes, have)
    head = f"define {half} @{BYTE_PAIRS}_{lanes}({word} %a, {word} %b) alwaysinline {{"
    return "\n".join([*declared, head, *lines, f"  ret {half} %p", "}"])


def _byte_pairs(lanes: int, have: frozenset[str]) -> tuple[list[str], list[str]]:
    """``%p`` of the words `%a` and `%b`, and what is declared for it."""
    word, half, bytes_ = f"<{lanes} x i32>", f"<{2 * lanes} x i16>", f"<{4 * lanes} x i8>"
    lines = [f"  %u = bitcast {word} %a to {bytes_}", f"  %s = bitcast {word} %b to {bytes_}"]
    if lanes == 16 and "avx512bw" in have:
        real = "@llvm.x86.avx512.pmaddubs.w.512"
        lines.append(f"  %p = call {half} {real}({bytes_} %u, {bytes_} %s)")
        return [f"declare {half} {real}({bytes_}, {bytes_})"], lines
    lines += _by_eight("p", "ub.sw", (32, "i8"), (16, "i16"), "%u", "%s", lanes)
    return ["declare <16 x i16> @llvm.x86.avx2.pmadd.ub.sw(<32 x i8>, <32 x i8>)"], lines


def _pair_products(name: str, a: str, b: str, lanes: int) -> list[str]:
    """``vpmaddwd`` by AVX2: of numbers of 16 bits, eight sums at a time."""
    return _by_eight(name, "wd", (16, "i16"), (8, "i32"), a, b, lanes)


def _by_eight(
    name: str, call: str, taken: tuple[int, str], made: tuple[int, str], a: str, b: str, lanes: int
) -> list[str]:
    """``vpmadd`` of AVX2 for eight words at a time, from so many elements to so many sums."""
    count, element = taken
    whole, half = f"<{lanes // 8 * count} x {element}>", f"<{count} x {element}>"
    part = f"<{made[0]} x {made[1]}>"
    lines = []
    for start in range(0, lanes, 8):
        picked = ", ".join(f"i32 {start // 8 * count + n}" for n in range(count))
        at = f"{name}_{start}"
        lines += [
            f"  %{at}x = shufflevector {whole} {a}, {whole} poison, <{count} x i32> <{picked}>",
            f"  %{at}y = shufflevector {whole} {b}, {whole} poison, <{count} x i32> <{picked}>",
            f"  %{at} = call {part} @llvm.x86.avx2.pmadd.{call}({half} %{at}x, {half} %{at}y)",
        ]
    total = made[0] * lanes // 8
    picked = ", ".join(f"i32 {n}" for n in range(total))
    other = f"%{name}_8" if lanes == 16 else "poison"
    joined = f"  %{name} = shufflevector {part} %{name}_0, {part} {other}"
    return [*lines, f"{joined}, <{total} x i32> <{picked}>"]


def _vdpbf16ps(lanes: int, have: frozenset[str]) -> str:
    """The upper product of each pair, then the lower one, each rounded as an FMA.

    What is below the normal numbers counts as zero, of operands and of both results (Intel SDM
    vol. 2, VDPBF16PS), whatever the processor's flags say.
    """
    if "avx512bf16" in have and (lanes == 16 or "avx512vl" in have):
        return _call(f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", "vdpbf16ps", lanes)
    word, real = f"<{lanes} x i32>", f"<{lanes} x float>"
    fma, fabs = f"@llvm.fma.v{lanes}f32", f"@llvm.fabs.v{lanes}f32"
    up = splat("i32", "16", lanes)
    lines = [
        f"declare {real} {fma}({real}, {real}, {real})",
        f"declare {real} {fabs}({real})",
        f"define {real} @septran_vdpbf16ps_{lanes}({real} %c, {word} %a, {word} %b) "
        "alwaysinline {",
        f"  %ci = bitcast {real} %c to {word}",
        f"  %upper = shl {word} {splat('i32', '-1', lanes)}, {up}",
        *flushed("cf", "%ci", lanes),
    ]
    for name in "ab":
        # A bfloat16 is the upper half of a float32, so each half is shifted or masked into place.
        lines += [
            f"  %{name}hi = and {word} %{name}, %upper",
            f"  %{name}lo = shl {word} %{name}, {up}",
            *flushed(f"{name}h", f"%{name}hi", lanes),
            *flushed(f"{name}l", f"%{name}lo", lanes),
        ]
    lines += flushing_fma("x", "%ah", "%bh", "%cf", lanes)
    lines += flushing_fma("y", "%al", "%bl", "%x", lanes)
    return "\n".join([*lines, f"  ret {real} %y", "}"])


def splat(kind: str, value: str, lanes: int) -> str:
    """LLVM's text of a vector whose lanes are all the same constant."""
    return "<" + ", ".join([f"{kind} {value}"] * lanes) + ">"


def flushed(name: str, words: str, lanes: int) -> list[str]:
    """``%name``: the float32 numbers of these words, zeros of the same sign where subnormal."""
    word, real, truth = f"<{lanes} x i32>", f"<{lanes} x float>", f"<{lanes} x i1>"
    size, sign = splat("i32", "2147483647", lanes), splat("i32", "-2147483648", lanes)
    least = splat("i32", "8388608", lanes)  # the bits of 2**-126, the least normal number
    return [
        f"  %{name}s = and {word} {words}, {size}",
        f"  %{name}z = icmp ult {word} %{name}s, {least}",
        f"  %{name}n = and {word} {words}, {sign}",
        f"  %{name}k = select {truth} %{name}z, {word} %{name}n, {word} {words}",
        f"  %{name} = bitcast {word} %{name}k to {real}",
    ]


def flushing_fma(name: str, a: str, b: str, c: str, lanes: int) -> list[str]:
    """``%name``: an FMA; zero where it is tiny once rounded as if exponents had no end."""
    word, real, truth = f"<{lanes} x i32>", f"<{lanes} x float>", f"<{lanes} x i1>"
    fma, fabs = f"@llvm.fma.v{lanes}f32", f"@llvm.fabs.v{lanes}f32"
    # Times 2**60 a result that would be subnormal is normal, so that it is rounded to 24 bits
    # before it is compared, as the instruction does it, and not to fewer.
    # LLVM takes a float as the bits of a double: 2**60, and 2**-66, which is 2**60 * 2**-126.
    scale = splat("float", "0x43B0000000000000", lanes)
    bound = splat("float", "0x3BD0000000000000", lanes)
    sign = splat("i32", "-2147483648", lanes)
    return [
        f"  %{name}r = call {real} {fma}({real} {a}, {real} {b}, {real} {c})",
        f"  %{name}a = fmul {real} {a}, {scale}",
        f"  %{name}c = fmul {real} {c}, {scale}",
        f"  %{name}l = call {real} {fma}({real} %{name}a, {real} {b}, {real} %{name}c)",
        f"  %{name}m = call {real} {fabs}({real} %{name}l)",
        f"  %{name}t = fcmp olt {real} %{name}m, {bound}",
        f"  %{name}i = bitcast {real} %{name}r to {word}",
        f"  %{name}n = and {word} %{name}i, {sign}",
        f"  %{name}o = select {truth} %{name}t, {word} %{name}n, {word} %{name}i",
        f"  %{name} = bitcast {word} %{name}o to {real}",
    ]


def _neon(name: str, lanes: int, have: frozenset[str]) -> str:
    """The products of each group and their sum; in NEON's registers only."""
    del have  # no other ARM processor's code is made of it
    kinds = f"v{lanes}f32.v{2 * lanes}bf16" if name == "bfdot" else f"v{lanes}i32.v{4 * lanes}i8"
    return _call(f"llvm.aarch64.neon.{name}.{kinds}", name, lanes)


def _sve(name: str, lanes: int, have: frozenset[str]) -> str:
    """Four products of bytes each, and their sum, which wraps; in SVE's registers.

    LLVM knows how long they are, so that a vector is one register and neither end is copied.
    """
    del have  # no processor without SVE runs code that is made of it
    word, long, real = f"<{lanes} x i32>", "<vscale x 4 x i32>", f"@llvm.aarch64.sve.{name}.nxv4i32"
    short = "<vscale x 16 x i8>"
    insert = f"@llvm.vector.insert.nxv4i32.v{lanes}i32"
    extract = f"@llvm.vector.extract.v{lanes}i32.nxv4i32"
    lines = [
        f"declare {long} {insert}({long}, {word}, i64)",
        f"declare {word} {extract}({long}, i64)",
        f"declare {long} {real}({long}, {short}, {short})",
        f"define {word} @septran_sve_{name}_{lanes}({word} %c, {word} %a, {word} %b) "
        "alwaysinline {",
    ]
    for operand in "cab":
        lines.append(
            f"  %{operand}l = call {long} {insert}({long} poison, {word} %{operand}, i64 0)"
        )
    return "\n".join(
        [
            *lines,
            f"  %u = bitcast {long} %al to {short}",
            f"  %s = bitcast {long} %bl to {short}",
            f"  %d = call {long} {real}({long} %cl, {short} %u, {short} %s)",
            f"  %r = call {word} {extract}({long} %d, i64 0)",
            f"  ret {word} %r",
            "}",
        ]
    )


_KINDS = {
    "vpdpbusd": ("i32", "i8"), "vdpbf16ps": ("float", "bfloat"),
    "bfdot": ("float", "bfloat"),
    "sdot": ("i32", "i8"), "udot": ("i32", "i8"), "usdot": ("i32", "i8"),
}  # fmt: skip
"""The types of sums and elements that LLVM's intrinsics take."""


def _call(intrinsic: str, name: str, lanes: int) -> str:
    """The function that is one of LLVM's intrinsics."""
    each, kind = _KINDS[name]
    word, sums = f"<{lanes} x i32>", f"<{lanes} x {each}>"
    short = f"<{lanes * (4 if kind == 'i8' else 2)} x {kind}>"
    return f"""\
declare {sums} @{intrinsic}({sums}, {short}, {short})
define {sums} @septran_{name}_{lanes}({sums} %c, {word} %a, {word} %b) alwaysinline {{
  %u = bitcast {word} %a to {short}
  %s = bitcast {word} %b to {short}
  %r = call {sums} @{intrinsic}({sums} %c, {short} %u, {short} %s)
  ret {sums} %r
}}"""


# 0x80808080 as a signed number: the sign bit of each byte.
VPDPBUSD = Dot("vpdpbusd", 4, "int32", -0x7F7F7F80, _vpdpbusd)
"""AVX512_VNNI's and AVX-VNNI's product of unsigned bytes with signed ones."""
VPMADDWD = Dot("vpmaddwd", 2, "int32", 0, _vpmaddwd, "int16")
"""AVX2's and AVX512BW's product of pairs of 16 bits, to which bytes are widened."""
VPMADDUBSW = Dot("vpmaddubsw", 4, "int32", 0, _vpmaddubsw)
"""AVX2's and AVX512BW's product of unsigned bytes with signed ones, for what certainly fits: sums
of two products saturate at 16 bits."""
BYTE_PAIRS = "septran_byte_pairs"
"""What `byte_pairs` calls itself, before the number of words."""
ONES = 0x00010001
"""A word of two numbers of 16 bits, both 1: times it sums of pairs are added up."""
VDPBF16PS = Dot("vdpbf16ps", 2, "float32", 0, _vdpbf16ps)
"""AVX512_BF16's product of pairs of bfloat16."""
SDOT = Dot("sdot", 4, "int32", 0, partial(_neon, "sdot"))
"""NEON's product of signed bytes."""
UDOT = Dot("udot", 4, "int32", 0, partial(_neon, "udot"))
"""NEON's product of unsigned bytes."""
USDOT = Dot("usdot", 4, "int32", 0, partial(_neon, "usdot"))
"""NEON's product of unsigned bytes with signed ones."""
BFDOT = Dot("bfdot", 2, "float32", 0, partial(_neon, "bfdot"))
"""NEON's product of pairs of bfloat16, of which both products are added first. Both sums are
rounded to odd, by up to a unit in the last place (Arm ARM, BFDotAdd): twice what rounding to the
nearest may cost, but half as often, so that the bound of a sum one by one holds. What is below the
normal numbers counts as zero."""
SVE_SDOT = Dot("sve_sdot", 4, "int32", 0, partial(_sve, "sdot"))
"""SVE's product of signed bytes, in registers of any length."""
SVE_UDOT = Dot("sve_udot", 4, "int32", 0, partial(_sve, "udot"))
"""SVE's product of unsigned bytes."""
