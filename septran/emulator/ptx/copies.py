"""PTX that moves data: loads, stores, atomics, cp.async, the copy engine and its maps in memory."""

from __future__ import annotations

import re

from septran.emulator.inline_asm import split
from septran.emulator.ptx.instructions import TYPES, Instructions, PtxInstruction, size_of

INSTRUCTIONS = Instructions()

_REDUCTIONS = {"add": "add", "min": "min", "max": "max"}


@INSTRUCTIONS(r"cp\.async\.c[ag]\.shared(::cta)?\.global(\.L2::\w+)*")
def _copy(i: PtxInstruction) -> str:
    """PTX ISA, "cp.async": an optional count of source bytes, or a predicate to ignore them."""
    rest = list(i.operands[3:])
    if i.has("L2::cache_hint"):
        rest.pop()
    valid = i.u32(2)
    if rest and i.block.type_of(rest[0], i) == "bool":
        valid = f"({i.value(3, 'bool')} ? 0 : {valid})"
    elif rest:
        valid = i.u32(3)
    source = f"(const void*)({i.address(1)})"
    return f"emu::copy_async({i.shared(0)}, {source}, {i.u32(2)}, {valid});"


@INSTRUCTIONS(r"cp\.async\.commit_group")
def _commit(_: PtxInstruction) -> str:
    return "emu::copy_commit();"


@INSTRUCTIONS(r"cp\.async\.wait_group")
def _wait(i: PtxInstruction) -> str:
    return f"emu::copy_wait({i.u32(0)});"


@INSTRUCTIONS(r"cp\.async\.wait_all")
def _wait_all(_: PtxInstruction) -> str:
    # PTX ISA, cp.async.wait_all: as a commit and a wait for all groups.
    return "emu::copy_commit(); emu::copy_wait(0);"


@INSTRUCTIONS(r"cp\.async\.bulk\.commit_group")
def _bulk_commit(_: PtxInstruction) -> str:
    return "emu::bulk_commit();"


@INSTRUCTIONS(r"cp\.async\.bulk\.wait_group(\.read)?")
def _bulk_wait(i: PtxInstruction) -> str:
    return f"emu::bulk_wait({i.u32(0)}, {'true' if i.has('read') else 'false'});"


def _box(i: PtxInstruction, number: int) -> tuple[str, int, str]:
    """Return map, rank and coordinates (as an array) of an operand ``[map, {c0, c1}]``."""
    parts = split(i.operands[number].strip()[1:-1], ",")
    where = [c.strip() for c in split(parts[1].strip().strip("{}"), ",")]
    values = ", ".join(i.block.value(c, "int32_t", i) for c in where)
    pointer = i.block.value(parts[0].strip(), "uint64_t", i)
    rank = int(re.search(r"\.([1-5])d", i.opcode)[1])  # type: ignore[index]
    if rank != len(where):
        raise i.fail(f"{len(where)} coordinates")
    return f"(const void*)({pointer})", rank, f"const int32_t at_[] = {{{values}}};"


_LOAD = (
    r"cp\.async\.bulk\.tensor\.[1-5]d\.shared::(cluster|cta)\.global(\.tile)?"
    r"\.mbarrier::complete_tx::bytes(\.multicast::cluster)?(\.L2::cache_hint)?"
)


@INSTRUCTIONS(_LOAD)
def _tma_load(i: PtxInstruction) -> str:
    map_, rank, at = _box(i, 1)
    ranks = i.u32(3) if i.has("multicast::cluster") else "-1"
    return f"{at} emu::tma_load({i.shared(0)}, {map_}, {rank}, at_, {i.shared(2)}, {ranks});"


@INSTRUCTIONS(
    r"cp(\.reduce)?\.async\.bulk\.tensor\.[1-5]d\.global\.shared::cta(\.(add|min|max))?"
    r"(\.tile)?\.bulk_group(\.L2::cache_hint)?"
)
def _tma_store(i: PtxInstruction) -> str:
    map_, rank, at = _box(i, 0)
    how = next((q for q in _REDUCTIONS if i.has(q)), "none")
    return f"{at} emu::tma_store({map_}, {rank}, at_, {i.shared(1)}, emu::Reduction::{how});"


@INSTRUCTIONS(
    r"cp\.async\.bulk\.shared::(cluster|cta)\.global\.mbarrier::complete_tx::bytes"
    r"(\.multicast::cluster)?(\.L2::cache_hint)?"
)
def _bulk_load(i: PtxInstruction) -> str:
    ranks = i.u32(4) if i.has("multicast::cluster") else "-1"
    source = f"(const void*)({i.address(1)})"
    return f"emu::bulk_load({i.shared(0)}, {source}, {i.u32(2)}, {i.shared(3)}, {ranks});"


@INSTRUCTIONS(r"cp\.async\.bulk\.global\.shared::cta\.bulk_group(\.L2::cache_hint)?")
def _bulk_store(i: PtxInstruction) -> str:
    return f"emu::bulk_store((void*)({i.address(0)}), {i.shared(1)}, {i.u32(2)});"


@INSTRUCTIONS(r"mapa(\.shared::cluster)?\.u(32|64)")
def _map(i: PtxInstruction) -> str:
    if i.has("u64"):
        return i.set(0, f"emu::map_rank_generic({i.value(1, 'uint64_t')}, {i.u32(2)})")
    return i.set(0, f"emu::map_rank({i.u32(1)}, {i.u32(2)})")


@INSTRUCTIONS(r"getctarank(\.shared::cluster)?\.u(32|64)")
def _rank(i: PtxInstruction) -> str:
    if i.has("shared::cluster"):
        return i.set(0, f"emu::rank_of({i.u32(1)})")
    return i.set(0, f"emu::rank_of(emu::shared_address((const void*)({i.value(1, 'uint64_t')})))")


@INSTRUCTIONS(r"createpolicy\.\S+")
def _policy(i: PtxInstruction) -> str:
    """A cache policy changes no result; what it is, is opaque."""
    return i.set(0, "0")


_SPACE = r"(\.(global|local|const|param(::entry|::func)?|shared(::cta|::cluster)?))?"
_HINTS = r"(\.(volatile|mmio|relaxed|acquire|release|acq_rel|weak))?(\.(cta|cluster|gpu|sys))?"
_CACHE = r"(\.nc)?(\.(ca|cg|cs|lu|cv|wb|wt))?(\.(L[12](::\w+)+|unified))*"
_VALUE = r"\.([bus](8|16|32|64)|f32|f64|b128)"


def _memory(i: PtxInstruction, number: int, how: str, size: int) -> str:
    words = i.opcode.split(".")
    if any(w.startswith("shared") for w in words):
        return f"emu::shared_{how}({i.shared(number)}, {size})"
    if any(w.startswith("param") for w in words):  # nobody else can write them
        return f"(void*)({i.address(number)})"
    return f"emu::memory_{how}((void*)({i.address(number)}), {size})"


def _width(i: PtxInstruction) -> tuple[str, int]:
    """The element's C++ type, and how many."""
    return TYPES[i.opcode.split(".")[-1]], _many(i)


def _many(i: PtxInstruction) -> int:
    """Elements of a vector access: ``.v2``, ``.v4``, ``.v8``, else one."""
    return next((int(w[1:]) for w in i.opcode.split(".") if w in ("v2", "v4", "v8")), 1)


@INSTRUCTIONS(rf"ld{_HINTS}{_SPACE}{_CACHE}(\.v[248])?{_VALUE}")
@INSTRUCTIONS(r"ldu(\.global)?(\.v[24])?\.[busf]\d+")
def _load(i: PtxInstruction) -> str:
    type_, many = _width(i)
    size = size_of(type_)
    members = i.group(0)
    lines = [f"const char* at_ = (const char*){_memory(i, 1, 'load', size * many)};"]
    for n in range(len(members)):
        lines.append(f"{type_} v{n}_ = emu::load_from<{type_}>(at_ + {n * size});")
    # The address may be one of the registers that are loaded: it is read before.
    for n, member in enumerate(members):
        lines.append(i.block.assign(member, f"v{n}_", i))
    return " ".join(lines)


@INSTRUCTIONS(rf"st{_HINTS}{_SPACE}{_CACHE}(\.v[248])?{_VALUE}")
def _store(i: PtxInstruction) -> str:
    type_, many = _width(i)
    size = size_of(type_)
    lines = [f"char* at_ = (char*){_memory(i, 0, 'store', size * many)};"]
    for n, member in enumerate(i.group(1)):
        value = i.block.value(member, type_, i)
        lines.append(f"emu::store_to<{type_}>(at_ + {n * size}, {value});")
    return " ".join(lines)


_CHANGES = {
    "add": "x + v", "min": "(v < x ? v : x)", "max": "(v > x ? v : x)", "and": "x & v",
    "or": "x | v", "xor": "x ^ v", "exch": "v", "inc": "(x >= v ? 0 : x + 1)",
    "dec": "(x == 0 || x > v ? v : x - 1)", "cas": "(x == v ? w : x)",
}  # fmt: skip
_SHORT = {"f16": "F16", "bf16": "BF16", "f16x2": "F16", "bf16x2": "BF16"}


def _change(i: PtxInstruction) -> tuple[str, str]:
    """The C++ type that an atomic works on, and what becomes of `x` with `v`."""
    name = next(n for n in _CHANGES if i.has(n))
    kind = i.opcode.split(".")[-1]
    if kind not in _SHORT:
        return TYPES[kind], _CHANGES[name]
    call = f"emu::h_{name}<emu::{_SHORT[kind]}, 0>"
    if not kind.endswith("x2"):
        return "uint16_t", f"{call}(x, v)"
    f = f"[](uint16_t a, uint16_t b, uint16_t) {{ return {call}(a, b); }}"
    return "uint32_t", f"emu::halves({f}, x, v)"


@INSTRUCTIONS(
    rf"(red|atom)(\.async)?{_HINTS}{_SPACE}\.(add|min|max|and|or|xor|exch|inc|dec|cas)(\.noftz)?"
    r"(\.L2::cache_hint)?(\.v[248])?(\.noftz)?\.([bus](16|32|64)|f32|f64|b?f16(x2)?)"
)
def _atomic(i: PtxInstruction) -> str:
    if i.has("async"):
        raise i.fail("with an mbarrier")
    type_, change = _change(i)
    many, size = _many(i), size_of(type_)
    # `atom` has the old value for its first operand, `red` has none.
    gives = i.opcode.startswith("atom")
    values = i.group(int(gives) + 1)
    lines = [f"char* at_ = (char*){_memory(i, int(gives), 'atomic', size * many)};"]
    if i.has("cas"):
        lines.append(f"{type_} w = {i.value(3, type_)};")
    for n in range(many):
        lines += [
            f"{type_} x{n}_; {{ {type_} x = emu::load_from<{type_}>(at_ + {n * size}), "
            f"v = {i.block.value(values[n], type_, i)}; x{n}_ = x; "
            f"emu::store_to<{type_}>(at_ + {n * size}, {type_}({change})); }}"
        ]
    if gives:
        lines += [i.set_to(m, f"x{n}_") for n, m in enumerate(i.group(0))]
    return " ".join(lines)


# ------------------------------------------------------------------ tensor maps in memory
_AXES = "box_dim|global_dim|global_stride|element_stride"
_FIELDS = f"global_address|rank|elemtype|interleave_layout|swizzle_mode|fill_mode|{_AXES}"


@INSTRUCTIONS(
    rf"tensormap\.replace\.tile\.({_FIELDS})(\.(global|shared::cta))?(\.b1024)?\.b(32|64)"
)
def _map_replace(i: PtxInstruction) -> str:
    """PTX ISA, "tensormap.replace": a weak access to the whole map, which is 128 bytes."""
    field = i.opcode.split(".")[3]
    axis = i.u32(1) if field in _AXES else "0"
    value = i.value(len(i.operands) - 1, "uint64_t" if i.has("b64") else "uint32_t")
    if i.has("shared::cta"):
        address = i.shared(0)
        lines = [
            f"uint32_t a_ = {address};",
            "emu::shared_store(a_ + 64, 64); void* m_ = emu::shared_store(a_, 64);",
        ]
    else:
        lines = [f"void* m_ = emu::memory_store((void*)({i.address(0)}), 64);"]
    return " ".join([*lines, f"emu::map_replace(m_, emu::MapField::{field}, {axis}, {value});"])


@INSTRUCTIONS(
    r"tensormap\.cp_fenceproxy\.global\.shared::cta\.tensormap::generic\.release"
    r"\.(cta|cluster|gpu|sys)\.sync\.aligned"
)
def _map_copy(i: PtxInstruction) -> str:
    """The lanes copy together; here each copies all, which is the same bytes."""
    if i.operands[2] not in ("128", "0x80"):
        raise i.fail("of another size than 128 bytes")
    return (
        f"uint32_t f_ = {i.shared(1)}; "
        f"char* t_ = (char*)emu::memory_store((void*)({i.address(0)}), 128); "
        "for (uint32_t n_ = 0; n_ < 128; n_ += 64) "
        "emu::copy_bytes(t_ + n_, emu::shared_load(f_ + n_, 64), 64);"
    )
