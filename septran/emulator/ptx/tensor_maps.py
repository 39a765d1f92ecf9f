"""PTX on tensor maps in memory: tensormap.replace, and the copy that is a fence."""

from __future__ import annotations

from septran.emulator.ptx.instructions import Instructions, PtxInstruction

INSTRUCTIONS = Instructions()

_AXES = "box_dim|global_dim|global_stride|element_stride"
_FIELDS = f"global_address|rank|elemtype|interleave_layout|swizzle_mode|fill_mode|{_AXES}"


@INSTRUCTIONS(
    rf"tensormap\.replace\.tile\.({_FIELDS})(\.(global|shared::cta))?(\.b1024)?\.b(32|64)"
)
def _replace(i: PtxInstruction) -> str:
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
def _copy(i: PtxInstruction) -> str:
    """The lanes copy together; here each copies all, which is the same bytes."""
    if i.operands[2] not in ("128", "0x80"):
        raise i.fail("of another size than 128 bytes")
    return (
        f"uint32_t f_ = {i.shared(1)}; "
        f"char* t_ = (char*)emu::memory_store((void*)({i.address(0)}), 128); "
        "for (uint32_t n_ = 0; n_ < 128; n_ += 64) "
        "emu::copy_bytes(t_ + n_, emu::shared_load(f_ + n_, 64), 64);"
    )
