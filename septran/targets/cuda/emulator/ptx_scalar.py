"""PTX on registers alone: moves, conversions, arithmetic of numbers and of packed halves."""

from __future__ import annotations

from septran.targets.cuda.emulator.ptx import TYPES, Instruction, instruction, size_of

_SPECIAL = {
    "%laneid": "emu::special(emu::Special::lane)",
    "%warpid": "emu::special(emu::Special::warp)",
    "%nwarpid": "emu::special(emu::Special::warps)",
    "%cluster_ctarank": "emu::special(emu::Special::block_rank)",
    "%cluster_ctaid.x": "emu::special(emu::Special::block_rank)",
    "%cluster_nctarank": "emu::special(emu::Special::cluster_blocks)",
    "%cluster_nctaid.x": "emu::special(emu::Special::cluster_blocks)",
    "%clusterid.x": "emu::special(emu::Special::cluster)",
    "%nclusterid.x": "emu::special(emu::Special::clusters)",
    "%smid": "emu::special(emu::Special::sm)",
    "%dynamic_smem_size": "emu::special(emu::Special::shared_bytes)",
    "%clock": "uint32_t(emu::clock())", "%clock64": "emu::clock()", "%globaltimer": "emu::clock()",
    "%globaltimer_lo": "uint32_t(emu::clock())",
    "%cluster_ctaid.y": "0u", "%cluster_ctaid.z": "0u", "%clusterid.y": "0u", "%clusterid.z": "0u",
    **{f"%{name}.{x}": f"emu::{call}().{x}" for x in "xyz" for name, call in (
        ("tid", "thread_index"), ("ctaid", "block_index"), ("ntid", "block_size"),
        ("nctaid", "grid_size"))},
}  # fmt: skip
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY = {
    "ex2": "std::exp2({})", "lg2": "std::log2({})", "sin": "std::sin({})", "cos": "std::cos({})",
    "tanh": "std::tanh({})", "rcp": "(1.f / {})", "sqrt": "std::sqrt({})", "abs": "std::fabs({})",
    "rsqrt": "(1.f / std::sqrt({}))", "neg": "(-{})",
}  # fmt: skip


def _type(i: Instruction) -> str:
    return TYPES[i.opcode.split(".")[-1]]


@instruction(r"mov\.[busf]\d+")
def _move(i: Instruction) -> str:
    special = _SPECIAL.get(i.operands[1])
    if special:
        return i.set(0, special)
    if i.operands[1].startswith("{") or i.operands[0].startswith("{"):
        return _pack(i)
    return i.set(0, i.value(1, _type(i)))


def _pack(i: Instruction) -> str:
    """``mov.b32 d, {a, b}`` and back."""
    wide = size_of(_type(i))
    if i.operands[1].startswith("{"):
        members = i.group(1)
        part = 8 * wide // len(members)
        values = (i.block.value(m, f"uint{part}_t", i) for m in members)
        total = f"uint{8 * wide}_t"
        return i.set(0, " | ".join(f"({total}){v} << {n * part}" for n, v in enumerate(values)))
    members = i.group(0)
    part = 8 * wide // len(members)
    whole = i.value(1, f"uint{8 * wide}_t")
    return " ".join(
        i.block.assign(m, f"uint{part}_t({whole} >> {n * part})", i) for n, m in enumerate(members)
    )


@instruction(r"setp\.(eq|ne|lt|le|gt|ge)u?\.[busf]\d+")
def _compare(i: Instruction) -> str:
    name = i.opcode.split(".")[1]
    return i.set(0, f"{i.value(1, _type(i))} {_COMPARISONS[name]} {i.value(2, _type(i))}")


@instruction(r"selp\.[busf]\d+")
def _select(i: Instruction) -> str:
    return i.set(0, f"{i.value(3, 'bool')} ? {i.value(1, _type(i))} : {i.value(2, _type(i))}")


@instruction(r"(add|sub|mul|div)(\.(rn|full|approx|lo|ftz))*\.([us](32|64)|f(32|64))")
def _arithmetic(i: Instruction) -> str:
    name = i.opcode.split(".")[0]
    return i.set(0, f"{i.value(1, _type(i))} {_OPERATORS[name]} {i.value(2, _type(i))}")


@instruction(r"(and|or|xor)\.(b16|b32|b64)")
def _bits(i: Instruction) -> str:
    name = i.opcode.split(".")[0]
    return i.set(0, f"{i.value(1, _type(i))} {_OPERATORS[name]} {i.value(2, _type(i))}")


@instruction(r"not\.b(16|32|64)")
def _not(i: Instruction) -> str:
    return i.set(0, f"~{i.value(1, _type(i))}")


@instruction(r"shl\.b(32|64)")
def _left(i: Instruction) -> str:
    return i.set(
        0, f"{i.u32(2)} < {8 * size_of(_type(i))} ? {i.value(1, _type(i))} << {i.u32(2)} : 0"
    )


@instruction(r"shr\.[bus](32|64)")
def _right(i: Instruction) -> str:
    most = 8 * size_of(_type(i)) - 1
    return i.set(0, f"{i.value(1, _type(i))} >> ({i.u32(2)} < {most} ? {i.u32(2)} : {most})")


@instruction(r"lop3\.b32")
def _lop3(i: Instruction) -> str:
    return i.set(0, f"emu::lop3({i.u32(1)}, {i.u32(2)}, {i.u32(3)}, {i.u32(4)})")


@instruction(r"prmt\.b32")
def _permute(i: Instruction) -> str:
    return i.set(0, f"__byte_perm({i.u32(1)}, {i.u32(2)}, {i.u32(3)})")


@instruction(r"(ex2|lg2|sin|cos|tanh|rcp|sqrt|rsqrt|abs|neg)(\.(approx|rn|ftz))*\.f32")
def _unary(i: Instruction) -> str:
    name = i.opcode.split(".")[0]
    return i.set(0, _UNARY[name].format(i.value(1, "float")))


@instruction(r"fma(\.(rn|ftz))*\.f32")
def _fma(i: Instruction) -> str:
    values = ", ".join(i.value(n, "float") for n in (1, 2, 3))
    return i.set(0, f"std::fma({values})")


@instruction(r"(min|max)(\.(ftz|NaN))*\.f32")
def _extreme(i: Instruction) -> str:
    name = i.opcode.split(".")[0]
    call = f"emu::{name}_nan" if i.has("NaN") else f"std::f{name}"
    return i.set(0, f"{call}({i.value(1, 'float')}, {i.value(2, 'float')})")


@instruction(r"(add|sub|mul|fma|min|max)(\.(rn|ftz))*\.b?f16x2")
def _packed(i: Instruction) -> str:
    name = i.opcode.split(".")[0]
    number = "emu::BF16" if i.opcode.endswith("bf16x2") else "emu::F16"
    values = ", ".join(i.u32(n) for n in range(1, len(i.operands)))
    return i.set(0, f"emu::{name}_x2<{number}>({values})")


@instruction(r"cvt\.rn(\.satfinite)?\.(f16x2|bf16x2|e4m3x2|e5m2x2)\.f32")
def _convert_pair(i: Instruction) -> str:
    to = i.opcode.split(".")[-2]
    return i.set(0, f"emu::cvt_{to}({i.value(1, 'float')}, {i.value(2, 'float')})")


@instruction(r"cvt\.rn(\.satfinite)?\.(f16|bf16)\.f32")
def _convert_short(i: Instruction) -> str:
    to = i.opcode.split(".")[-2]
    return i.set(0, f"emu::cvt_{to}({i.value(1, 'float')})")


@instruction(r"cvt\.f32\.(f16|bf16)")
def _widen(i: Instruction) -> str:
    kind = i.opcode.split(".")[-1]
    return i.set(0, f"emu::{kind}_to_float({i.value(1, 'uint16_t')})")


@instruction(r"cvt\.rn\.f16x2\.(e4m3x2|e5m2x2)")
def _widen_pair(i: Instruction) -> str:
    kind = i.opcode.split(".")[-1]
    return i.set(0, f"emu::cvt_f16x2_{kind}({i.value(1, 'uint16_t')})")


@instruction(r"cvt\.rna\.tf32\.f32")
def _tf32(i: Instruction) -> str:
    return i.set(0, f"emu::cvt_tf32({i.value(1, 'float')})")


@instruction(r"cvt\.(rn|rz)\.f(32|64)\.[us](8|16|32|64)")
def _from_integer(i: Instruction) -> str:
    to, source = i.opcode.split(".")[-2:]
    return i.set(0, f"({TYPES[to]})({i.value(1, TYPES[source])})")


@instruction(r"cvt\.(rni|rzi|rmi|rpi)(\.sat)?\.[us](8|16|32|64)\.f(32|64)")
def _to_integer(i: Instruction) -> str:
    how, *_, to, source = i.opcode.split(".")[1:]
    call = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[how]
    return i.set(0, f"emu::cvt_integer<{TYPES[to]}>(std::{call}({i.value(1, TYPES[source])}))")


@instruction(r"cvt\.[us](8|16|32|64)\.[us](8|16|32|64)")
def _between_integers(i: Instruction) -> str:
    to, source = i.opcode.split(".")[-2:]
    return i.set(0, f"({TYPES[to]})({i.value(1, TYPES[source])})")


@instruction(r"cvta(\.to)?\.shared\.u64")
def _to_shared(i: Instruction) -> str:
    if not i.has("to"):
        raise i.fail("from a shared address")
    return i.set(0, f"emu::shared_address((const void*)({i.value(1, 'uint64_t')}))")


@instruction(r"dp4a\.s32\.s32")
def _dot(i: Instruction) -> str:
    values = ", ".join(i.value(n, "int32_t") for n in (1, 2, 3))
    return i.set(0, f"__dp4a({values})")
