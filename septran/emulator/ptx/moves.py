"""PTX that moves and selects: mov, cvta, selp, slct, setp, set, prmt, shuffles of bits."""

from __future__ import annotations

from septran.emulator.ptx.instructions import TYPES, Instructions, PtxInstruction, size_of

_ANY = r"(b|u|s|f)(16|32|64)"
_COMPARISONS = {
    "eq": "{a} == {b}", "ne": "{a} != {b}", "lt": "{a} < {b}", "le": "{a} <= {b}",
    "gt": "{a} > {b}", "ge": "{a} >= {b}", "lo": "{a} < {b}", "ls": "{a} <= {b}",
    "hi": "{a} > {b}", "hs": "{a} >= {b}", "num": "!emu::unordered({a}, {b})",
    "nan": "emu::unordered({a}, {b})",
}  # fmt: skip
_JOINS = {"and": "&&", "or": "||", "xor": "!="}
_COMPARE = (
    r"\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan)(\.(and|or|xor))?(\.ftz)?"
)

INSTRUCTIONS = Instructions()
_TYPED = r"\.((b|u|s)(16|32|64)|f32|f64|b?f16(x2)?)"
_PERMUTATIONS = {
    "f4e": "kForward", "b4e": "kBackward", "rc8": "kReplicate8", "ecl": "kEdgeLeft",
    "ecr": "kEdgeRight", "rc16": "kReplicate16",
}  # fmt: skip


def typed(i: PtxInstruction) -> str:
    """The C++ type that the opcode ends with."""
    return TYPES[i.opcode.split(".")[-1]]


@INSTRUCTIONS(r"mov\.([busf]\d+|pred)")
def _move(i: PtxInstruction) -> str:
    if i.operands[1].startswith("{") or i.operands[0].startswith("{"):
        return _pack(i)
    return i.set(0, i.value(1, typed(i)))


def _pack(i: PtxInstruction) -> str:
    """``mov.b32 d, {a, b}`` and back."""
    wide = size_of(typed(i))
    total = f"uint{8 * wide}_t" if wide < 16 else TYPES["b128"]
    # PTX ISA, mov: the first member is the least significant one.
    if i.operands[1].startswith("{"):
        members = i.group(1)
        part = 8 * wide // len(members)
        values = (i.block.value(m, f"uint{part}_t", i) for m in members)
        return i.set(0, " | ".join(f"({total}){v} << {n * part}" for n, v in enumerate(values)))
    members = i.group(0)
    part = 8 * wide // len(members)
    lines = [f"{total} whole_ = {i.value(1, total)};"]
    lines += [
        i.block.assign(m, f"(uint{part}_t)(whole_ >> {n * part})", i) for n, m in enumerate(members)
    ]
    return " ".join(lines)


def _comparison(i: PtxInstruction, name: str, a: int, b: int, part: int | None = None) -> str:
    """The result of one comparison of operands `a` and `b`; of 16-bit floats in float."""
    kind = i.opcode.split(".")[-1]
    if "f16" in kind:
        half = "BF16" if kind.startswith("b") else "F16"
        type_ = "uint32_t" if part is not None else "uint16_t"
        shift = f" >> {16 * part}" if part else ""
        left, right = (f"emu::{half}::of((uint16_t)({i.value(n, type_)}{shift}))" for n in (a, b))
    else:
        type_ = TYPES[kind]
        # PTX ISA, setp: these four compare as unsigned, whatever the type says.
        if name in ("lo", "ls", "hi", "hs"):
            type_ = type_.replace("int", "uint").replace("uuint", "uint")
        left, right = i.value(a, type_), i.value(b, type_)
        if i.has("ftz"):
            left, right = (f"emu::flushed<emu::kFtz>({x})" for x in (left, right))
    if name not in _COMPARISONS and name.endswith("u"):  # unordered or as without the u
        test = _COMPARISONS[name[:-1]].format(a=left, b=right)
        return f"(emu::unordered({left}, {right}) || {test})"
    test = _COMPARISONS[name].format(a=left, b=right)
    # PTX ISA, setp: `ne` is false where an operand is NaN; C++'s != is true.
    if name == "ne" and "f" in kind:
        return f"(!emu::unordered({left}, {right}) && {test})"
    return f"({test})"


@INSTRUCTIONS(rf"setp{_COMPARE}{_TYPED}")
def _compare(i: PtxInstruction) -> str:
    name = i.opcode.split(".")[1]
    first, _, second = (x.strip() for x in i.operands[0].partition("|"))
    join = next((text for word, text in _JOINS.items() if i.has(word)), None)
    other = f" {join} {i.value(3, 'bool')}" if join else ""
    if i.opcode.endswith("x2"):
        lines = [f"bool p_ = {_comparison(i, name, 1, 2, 0)}{other};"]
        lines.append(f"bool q_ = {_comparison(i, name, 1, 2, 1)}{other};")
    else:
        lines = [f"bool c_ = {_comparison(i, name, 1, 2)};", f"bool p_ = c_{other};"]
        lines.append(f"bool q_ = (!c_){other};" if second else "")
    lines.append(i.block.assign(first, "p_", i))
    lines.append(i.block.assign(second, "q_", i) if second else "")
    return " ".join(lines)


@INSTRUCTIONS(rf"set{_COMPARE}\.(u32|s32|f32){_TYPED}")
def _set(i: PtxInstruction) -> str:
    words = i.opcode.split(".")
    join = next((text for word, text in _JOINS.items() if i.has(word)), None)
    test = _comparison(i, words[1], 1, 2) + (f" {join} {i.value(3, 'bool')}" if join else "")
    yes, no = ("1.f", "0.f") if words[-2] == "f32" else ("0xffffffffu", "0u")
    return i.set(0, f"({test}) ? {yes} : {no}")


@INSTRUCTIONS(rf"selp\.{_ANY}")
def _select(i: PtxInstruction) -> str:
    return i.set(0, f"{i.value(3, 'bool')} ? {i.value(1, typed(i))} : {i.value(2, typed(i))}")


@INSTRUCTIONS(rf"slct(\.ftz)?\.{_ANY}\.(s32|f32)")
def _select_by_sign(i: PtxInstruction) -> str:
    words = i.opcode.split(".")
    type_ = TYPES[words[-2]]
    test = f"{i.value(3, typed(i))} >= 0"
    return i.set(0, f"{test} ? {i.value(1, type_)} : {i.value(2, type_)}")


@INSTRUCTIONS(r"prmt\.b32(\.(f4e|b4e|rc8|ecl|ecr|rc16))?")
def _permute(i: PtxInstruction) -> str:
    mode = i.opcode.split(".")[-1]
    if mode in _PERMUTATIONS:
        table = f"emu::{_PERMUTATIONS[mode]}"
        return i.set(0, f"emu::permute_mode({i.u32(1)}, {i.u32(2)}, {i.u32(3)}, {table})")
    return i.set(0, f"__byte_perm({i.u32(1)}, {i.u32(2)}, {i.u32(3)})")


@INSTRUCTIONS(r"cvta(\.to)?\.(global|local|const|param(::entry|::func)?)\.u(32|64)")
def _same_address(i: PtxInstruction) -> str:
    """These windows are the generic one's own places here."""
    return i.set(0, i.value(1, typed(i)))


@INSTRUCTIONS(r"cvta(\.to)?\.shared(::cta|::cluster)?\.u(32|64)")
def _shared_address(i: PtxInstruction) -> str:
    if i.has("to"):
        return i.set(0, f"emu::shared_address((const void*)({i.value(1, 'uint64_t')}))")
    return i.set(0, f"(uint64_t)emu::shared_pointer({i.u32(1)})")


@INSTRUCTIONS(r"isspacep\.(global|local|const|param(::entry)?|shared(::cta|::cluster)?)")
def _in_space(i: PtxInstruction) -> str:
    space = i.opcode.split(".")[1].replace("::", "_")
    if space not in ("shared", "shared_cta", "shared_cluster", "local", "global"):
        raise i.fail("of this space")
    return i.set(0, f"emu::in_space({i.value(1, 'uint64_t')}, emu::Space::{space})")
