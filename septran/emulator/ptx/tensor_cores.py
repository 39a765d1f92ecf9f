"""PTX of tensor cores: wgmma, mma.sync, ldmatrix, stmatrix."""

from __future__ import annotations

import re

from septran.emulator.ptx.instructions import Instructions, PtxInstruction

INSTRUCTIONS = Instructions()

_INPUTS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
_SIZE = {"f16": 2, "bf16": 2, "tf32": 4}


def _type(name: str) -> str:
    return f"emu::Type::{name}"


@INSTRUCTIONS(r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k\d+\.(f32|s32)\.\w+\.\w+")
def _wgmma(i: PtxInstruction) -> str:
    n, k = map(int, re.search(r"m64n(\d+)k(\d+)", i.opcode).groups())  # type: ignore[union-attr]
    result, a, b = i.opcode.split(".")[-3:]
    d = i.group(0)
    # PTX ISA, wgmma: one instruction sums 32 bytes of a row, whatever the type.
    if a not in _INPUTS or b not in _INPUTS or k * _SIZE.get(a, 1) != 32:
        raise i.fail("of these types")
    # 128 threads hold the 64 x n sums.
    if n % 8 or n > 256 or len(d) != n // 2:
        raise i.fail(f"with {len(d)} registers")
    registers = i.operands[1].startswith("{")
    rest = list(range(3, len(i.operands)))
    flags = [i.u32(j) for j in rest]
    # Operands behind the matrices: scale-d, signs of A and B, then transpositions of those in
    # shared memory.
    accumulate = flags.pop(0) if flags else "1"
    signs = [flags.pop(0), flags.pop(0)] if len(flags) >= 2 else ["1", "1"]
    # A in registers has no flag of its own.
    transposed = [*(["0"] if registers else []), *flags, "0", "0"][:2]
    fragment = f"const uint32_t a_[] = {i.values(i.group(1))};" if registers else ""
    first = "0, a_" if registers else f"{i.value(1, 'uint64_t')}, nullptr"
    return (
        f"static const emu::Wgmma shape_ = {{{n}, {k}, {_type(result)}, {_type(a)}, {_type(b)}}}; "
        f"uint32_t* const d_[] = {i.pointers(d)}; {fragment} "
        f"emu::wgmma(shape_, d_, {first}, {i.value(2, 'uint64_t')}, ({accumulate}) != 0, "
        f"(int)({signs[0]}), (int)({signs[1]}), ({transposed[0]}) != 0, ({transposed[1]}) != 0);"
    )


@INSTRUCTIONS(r"wgmma\.fence\.sync\.aligned")
def _fence(_: PtxInstruction) -> str:
    return "emu::wgmma_fence();"


@INSTRUCTIONS(r"wgmma\.commit_group\.sync\.aligned")
def _commit(_: PtxInstruction) -> str:
    return "emu::wgmma_commit();"


@INSTRUCTIONS(r"wgmma\.wait_group\.sync\.aligned")
def _wait(i: PtxInstruction) -> str:
    return f"emu::wgmma_wait({i.u32(0)});"


@INSTRUCTIONS(r"mma\.sync\.aligned\.m16n8k\d+\.row\.col(\.satfinite)?\.\w+\.\w+\.\w+\.\w+")
def _mma(i: PtxInstruction) -> str:
    k = int(re.search(r"k(\d+)", i.opcode)[1])  # type: ignore[index]
    result, a, b, c = i.opcode.split(".")[-4:]
    groups = [i.group(j) for j in range(4)]
    # Four lanes of one register each hold 16 bytes of k; an instruction sums that or twice it.
    per = 4 // _SIZE.get(a, 1)
    halves = k // (4 * per)
    expected = {"f16": (2, 2), "f32": (4, 4), "s32": (4, 4)}.get(result)
    fits = expected and (len(groups[0]), len(groups[3])) == expected and c == result
    if a not in _INPUTS or b not in _INPUTS or halves not in (1, 2) or not fits:
        raise i.fail("of these types")
    if len(groups[1]) != 2 * halves or len(groups[2]) != halves or i.has("satfinite"):
        raise i.fail("of this form")
    return (
        f"static const emu::Mma shape_ = {{{k}, {_type(result)}, {_type(a)}, {_type(b)}}}; "
        f"uint32_t* const d_[] = {i.pointers(groups[0])}; "
        f"const uint32_t a_[] = {i.values(groups[1])}, b_[] = {i.values(groups[2])}, "
        f"c_[] = {i.values(groups[3])}; emu::mma(shape_, d_, a_, b_, c_);"
    )


@INSTRUCTIONS(r"ldmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?(\.shared(::cta)?)?\.b16")
@INSTRUCTIONS(r"ldmatrix\.sync\.aligned\.x[124](\.trans)?\.m8n8(\.shared(::cta)?)?\.b16")
def _load(i: PtxInstruction) -> str:
    members = i.group(0)
    transposed = "true" if i.has("trans") else "false"
    if not i.has(f"x{len(members)}"):
        raise i.fail(f"with {len(members)} registers")
    return (
        f"uint32_t* const d_[] = {i.pointers(members)}; "
        f"emu::ldmatrix(d_, {len(members)}, {i.shared(1)}, {transposed});"
    )


@INSTRUCTIONS(r"stmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?(\.shared(::cta)?)?\.b16")
@INSTRUCTIONS(r"stmatrix\.sync\.aligned\.x[124](\.trans)?\.m8n8(\.shared(::cta)?)?\.b16")
def _store(i: PtxInstruction) -> str:
    members = i.group(1)
    transposed = "true" if i.has("trans") else "false"
    if not i.has(f"x{len(members)}"):
        raise i.fail(f"with {len(members)} registers")
    return (
        f"const uint32_t v_[] = {i.values(members)}; "
        f"emu::stmatrix(v_, {len(members)}, {i.shared(0)}, {transposed});"
    )
