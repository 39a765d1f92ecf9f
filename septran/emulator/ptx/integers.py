"""PTX on integers and bits."""

from __future__ import annotations

from septran.emulator.ptx.instructions import TYPES, Instructions, PtxInstruction, size_of
from septran.emulator.ptx.moves import typed

INSTRUCTIONS = Instructions()

_BITWISE = {"and": "&", "or": "|", "xor": "^"}
_BYTES = {"u": "uint8_t", "s": "int8_t"}


def _unsigned(type_: str) -> str:
    return type_ if type_.startswith("u") else f"u{type_}"


def _call(i: PtxInstruction, name: str, count: int, *more: str) -> str:
    values = [i.value(n, typed(i)) for n in range(1, count + 1)]
    return i.set(0, f"emu::{name}<{typed(i)}>({', '.join([*values, *more])})")


@INSTRUCTIONS(r"(add|sub)(\.sat)?\.[us](16|32|64)")
def _add(i: PtxInstruction) -> str:
    """Modulo 2^n; PTX ISA, "add": ``.sat`` is for s32 alone."""
    type_, sign = typed(i), "+" if i.opcode.startswith("add") else "-"
    if i.has("sat"):
        a, b = i.value(1, type_), i.value(2, type_)
        return i.set(0, f"emu::i_clamped<{type_}>(emu::Wide<{type_}>({a}) {sign} {b})")
    a, b = (i.value(n, _unsigned(type_)) for n in (1, 2))
    return i.set(0, f"{a} {sign} {b}")


@INSTRUCTIONS(r"(add|sub)\.[us]16x2")
def _add_pairs(i: PtxInstruction) -> str:
    sign = "+" if i.opcode.startswith("add") else "-"
    f = f"[](uint16_t a, uint16_t b, uint16_t) {{ return uint16_t(a {sign} b); }}"
    return i.set(0, f"emu::halves({f}, {i.u32(1)}, {i.u32(2)})")


@INSTRUCTIONS(r"mul\.lo\.[us](16|32|64)")
def _multiply(i: PtxInstruction) -> str:
    return _call(i, "mul_low", 2)


@INSTRUCTIONS(r"mul\.hi\.[us](16|32|64)")
def _multiply_high(i: PtxInstruction) -> str:
    return _call(i, "mul_high", 2)


@INSTRUCTIONS(r"mul\.wide\.[us](16|32)")
def _multiply_wide(i: PtxInstruction) -> str:
    return _call(i, "mul_wide", 2)


@INSTRUCTIONS(r"mul24\.(lo|hi)\.[us]32")
def _multiply_24(i: PtxInstruction) -> str:
    return i.set(0, _product_24(i))


def _product_24(i: PtxInstruction) -> str:
    # Up and down by eight bits: the lower 24 are left, with their sign where they have one.
    wide = "int64_t" if typed(i).startswith("int") else "uint64_t"
    a, b = (f"({wide})({i.value(n, typed(i))} << 8) / 256" for n in (1, 2))
    return f"({typed(i)})((({a}) * ({b})) >> {16 if i.has('hi') else 0})"


@INSTRUCTIONS(r"mad24\.lo\.[us]32")
def _multiply_add_24(i: PtxInstruction) -> str:
    return i.set(0, f"{_product_24(i)} + {i.value(3, 'uint32_t')}")


@INSTRUCTIONS(r"mad\.(lo|hi)\.[us](16|32|64)")
def _multiply_add(i: PtxInstruction) -> str:
    type_, name = typed(i), "mul_low" if i.has("lo") else "mul_high"
    product = f"emu::{name}<{type_}>({i.value(1, type_)}, {i.value(2, type_)})"
    unsigned = _unsigned(type_)
    return i.set(0, f"({unsigned}){product} + {i.value(3, unsigned)}")


@INSTRUCTIONS(r"mad\.hi\.sat\.s32")
def _multiply_add_clamped(i: PtxInstruction) -> str:
    product = f"(int64_t)emu::mul_high<int32_t>({i.value(1, 'int32_t')}, {i.value(2, 'int32_t')})"
    return i.set(0, f"emu::i_clamped<int32_t>({product} + {i.value(3, 'int32_t')})")


@INSTRUCTIONS(r"mad\.wide\.[us](16|32)")
def _multiply_add_wide(i: PtxInstruction) -> str:
    type_ = typed(i)
    wide = f"uint{16 * size_of(type_)}_t"
    product = f"emu::mul_wide<{type_}>({i.value(1, type_)}, {i.value(2, type_)})"
    return i.set(0, f"({wide}){product} + {i.value(3, wide)}")


# ------------------------------------------------------------------ extended precision
# PTX ISA, "Extended-Precision Integer Arithmetic": the condition code's CC.CF is `carry_`.
@INSTRUCTIONS(r"(addc|add|subc|sub)(\.cc)?\.[us](32|64)")
def _carried(i: PtxInstruction) -> str:
    words = i.opcode.split(".")
    name = "carry_add" if words[0].startswith("add") else "carry_sub"
    taken = "carry_" if words[0].endswith("c") else "0"
    given = "&carry_" if i.has("cc") else "nullptr"
    return _call(i, name, 2, taken, given)


@INSTRUCTIONS(r"(madc|mad)\.(lo|hi)(\.cc)?\.[us](32|64)")
def _carried_product(i: PtxInstruction) -> str:
    type_, name = typed(i), "mul_low" if i.has("lo") else "mul_high"
    product = f"emu::{name}<{type_}>({i.value(1, type_)}, {i.value(2, type_)})"
    taken = "carry_" if i.opcode.startswith("madc") else "0"
    given = "&carry_" if i.has("cc") else "nullptr"
    return i.set(0, f"emu::carry_add<{type_}>({product}, {i.value(3, type_)}, {taken}, {given})")


# ------------------------------------------------------------------ quotients, extremes, signs
@INSTRUCTIONS(r"(div|rem)\.[us](16|32|64)")
def _divide(i: PtxInstruction) -> str:
    return _call(i, f"i_{i.opcode.split('.')[0]}", 2)


@INSTRUCTIONS(r"(min|max)\.[us](16|32|64)")
def _extreme(i: PtxInstruction) -> str:
    a, b = i.value(1, typed(i)), i.value(2, typed(i))
    sign = "<" if i.opcode.startswith("min") else ">"
    return i.set(0, f"{a} {sign} {b} ? {a} : {b}")


@INSTRUCTIONS(r"(min|max)(\.relu)?\.(s32|[us]16x2)")
def _extreme_pairs(i: PtxInstruction) -> str:
    type_ = TYPES.get(i.opcode.split(".")[-1]) or ("int16_t" if i.has("s16x2") else "uint16_t")
    sign = "<" if i.opcode.startswith("min") else ">"
    most = "r < 0 ? 0 : r" if i.has("relu") else "r"
    body = f"{type_} x = a, y = b, r = x {sign} y ? x : y; return {most};"
    if type_ == "int32_t":
        return i.set(0, f"[](int32_t a, int32_t b) -> int32_t {{ {body} }}"
                        f"({i.value(1, type_)}, {i.value(2, type_)})")  # fmt: skip
    f = f"[](uint16_t a, uint16_t b, uint16_t) -> uint16_t {{ {body} }}"
    return i.set(0, f"emu::halves({f}, {i.u32(1)}, {i.u32(2)})")


@INSTRUCTIONS(r"abs\.s(16|32|64)")
def _absolute(i: PtxInstruction) -> str:
    # Negated as unsigned: C++ leaves the negative of the least number undefined.
    value, unsigned = i.value(1, typed(i)), _unsigned(typed(i))
    return i.set(0, f"{value} < 0 ? ({unsigned})-({unsigned})({value}) : ({unsigned}){value}")


@INSTRUCTIONS(r"neg\.s(16|32|64)")
def _negate(i: PtxInstruction) -> str:
    return i.set(0, f"-{i.value(1, _unsigned(typed(i)))}")


@INSTRUCTIONS(r"sad\.[us](16|32|64)")
def _sum_of_differences(i: PtxInstruction) -> str:
    a, b = i.value(1, typed(i)), i.value(2, typed(i))
    unsigned = _unsigned(typed(i))
    difference = f"({a} < {b} ? ({unsigned}){b} - {a} : ({unsigned}){a} - {b})"
    return i.set(0, f"({unsigned})({difference} + {i.value(3, unsigned)})")


# ------------------------------------------------------------------ bits
@INSTRUCTIONS(r"(and|or|xor)\.(b16|b32|b64)")
def _bits(i: PtxInstruction) -> str:
    sign = _BITWISE[i.opcode.split(".")[0]]
    return i.set(0, f"{i.value(1, typed(i))} {sign} {i.value(2, typed(i))}")


@INSTRUCTIONS(r"(and|or|xor)\.pred")
def _logic(i: PtxInstruction) -> str:
    sign = {"and": "&&", "or": "||", "xor": "!="}[i.opcode.split(".")[0]]
    return i.set(0, f"{i.value(1, 'bool')} {sign} {i.value(2, 'bool')}")


@INSTRUCTIONS(r"not\.b(16|32|64)")
def _not(i: PtxInstruction) -> str:
    return i.set(0, f"~{i.value(1, typed(i))}")


@INSTRUCTIONS(r"not\.pred")
def _logic_not(i: PtxInstruction) -> str:
    return i.set(0, f"!{i.value(1, 'bool')}")


@INSTRUCTIONS(r"cnot\.b(16|32|64)")
def _is_zero(i: PtxInstruction) -> str:
    return i.set(0, f"{i.value(1, typed(i))} == 0")


@INSTRUCTIONS(r"shl\.b(16|32|64)")
def _left(i: PtxInstruction) -> str:
    return i.set(0, f"emu::shift_left<{typed(i)}>({i.value(1, typed(i))}, {i.u32(2)})")


@INSTRUCTIONS(r"shr\.[bus](16|32|64)")
def _right(i: PtxInstruction) -> str:
    return i.set(0, f"emu::shift_right<{typed(i)}>({i.value(1, typed(i))}, {i.u32(2)})")


@INSTRUCTIONS(r"shf\.[lr]\.(wrap|clamp)\.b32")
def _funnel(i: PtxInstruction) -> str:
    left, clamp = (str(x).lower() for x in (i.has("l"), i.has("clamp")))
    return i.set(0, f"emu::funnel({i.u32(1)}, {i.u32(2)}, {i.u32(3)}, {left}, {clamp})")


@INSTRUCTIONS(r"lop3\.b32")
def _lop3(i: PtxInstruction) -> str:
    return i.set(0, f"emu::lop3({i.u32(1)}, {i.u32(2)}, {i.u32(3)}, {i.u32(4)})")


@INSTRUCTIONS(r"lop3\.(or|and)\.b32")
def _lop3_test(i: PtxInstruction) -> str:
    first, _, predicate = (x.strip() for x in i.operands[0].partition("|"))
    join = "||" if i.has("or") else "&&"
    return (
        f"uint32_t r_ = emu::lop3({i.u32(1)}, {i.u32(2)}, {i.u32(3)}, {i.u32(4)}); "
        f"bool p_ = (r_ != 0) {join} {i.value(5, 'bool')}; "
        f"{i.block.assign(first, 'r_', i)} {i.block.assign(predicate, 'p_', i)}"
    )


@INSTRUCTIONS(r"popc\.b(32|64)")
def _count(i: PtxInstruction) -> str:
    return i.set(0, f"(uint32_t)__builtin_popcountll({i.value(1, typed(i))})")


@INSTRUCTIONS(r"clz\.b(32|64)")
def _leading(i: PtxInstruction) -> str:
    return _call(i, "leading_zeros", 1)


@INSTRUCTIONS(r"bfind(\.shiftamt)?\.[us](32|64)")
def _find(i: PtxInstruction) -> str:
    return _call(i, "find_bit", 1, str(i.has("shiftamt")).lower())


@INSTRUCTIONS(r"brev\.b(32|64)")
def _reverse(i: PtxInstruction) -> str:
    return _call(i, "bits_reversed", 1)


@INSTRUCTIONS(r"bfe\.[us](32|64)")
def _extract(i: PtxInstruction) -> str:
    return _call(i, "bit_field", 1, i.u32(2), i.u32(3))


@INSTRUCTIONS(r"bfi\.b(32|64)")
def _insert(i: PtxInstruction) -> str:
    return _call(i, "insert_field", 2, i.u32(3), i.u32(4))


@INSTRUCTIONS(r"bmsk\.(clamp|wrap)\.b32")
def _mask(i: PtxInstruction) -> str:
    return i.set(0, f"emu::bit_mask({i.u32(1)}, {i.u32(2)}, {str(i.has('clamp')).lower()})")


@INSTRUCTIONS(r"dp4a\.[us]32\.[us]32")
def _dot(i: PtxInstruction) -> str:
    a, b = (_BYTES[w[0]] for w in i.opcode.split(".")[1:])
    return i.set(0, f"emu::dot4<{a}, {b}>({i.u32(1)}, {i.u32(2)}, {i.value(3, 'int32_t')})")


@INSTRUCTIONS(r"dp2a\.(lo|hi)\.[us]32\.[us]32")
def _dot_pairs(i: PtxInstruction) -> str:
    a, b = (_BYTES[w[0]] for w in i.opcode.split(".")[2:])
    a = a.replace("8", "16")
    high = str(i.has("hi")).lower()
    values = f"{i.u32(1)}, {i.u32(2)}, {i.value(3, 'int32_t')}, {high}"
    return i.set(0, f"emu::dot2<{a}, {b}>({values})")
