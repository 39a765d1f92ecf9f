"""PTX's special registers as C++: their types, and what the runtime says they hold.

PTX ISA, "Special Registers". One that is not here is unknown, never zero.
"""

from __future__ import annotations

_PLACES = {
    f"%{name}.{axis}": ("uint32_t", f"emu::{call}().{axis}")
    for axis in "xyz"
    for name, call in (
        ("tid", "thread_index"), ("ctaid", "block_index"), ("ntid", "block_size"),
        ("nctaid", "grid_size"))
}  # fmt: skip
_LANES = {
    "%lanemask_eq": "1u << {}", "%lanemask_lt": "(1u << {}) - 1", "%lanemask_le": "(2u << {}) - 1",
    "%lanemask_gt": "-(2u << {})", "%lanemask_ge": "-(1u << {})",
}  # fmt: skip
_LANE = "emu::special(emu::Special::lane)"
_RUNTIME = {
    "%laneid": "lane", "%warpid": "warp", "%nwarpid": "warps", "%cluster_ctarank": "block_rank",
    "%cluster_ctaid.x": "block_rank", "%cluster_nctarank": "cluster_blocks",
    "%cluster_nctaid.x": "cluster_blocks", "%clusterid.x": "cluster",
    "%nclusterid.x": "clusters", "%smid": "sm", "%dynamic_smem_size": "shared_bytes",
}  # fmt: skip
_CONSTANTS = {
    "%cluster_ctaid.y": "0u", "%cluster_ctaid.z": "0u", "%cluster_nctaid.y": "1u",
    "%cluster_nctaid.z": "1u", "%clusterid.y": "emu::block_index().y",
    "%clusterid.z": "emu::block_index().z", "%nclusterid.y": "emu::grid_size().y",
    "%nclusterid.z": "emu::grid_size().z",
    "%is_explicit_cluster": "(emu::special(emu::Special::cluster_blocks) > 1)",
    "%nsmid": "132u", "%clock": "uint32_t(emu::clock())", "%clock_hi": "0u",
    "%globaltimer_lo": "uint32_t(emu::clock())", "%globaltimer_hi": "0u",
    "%reserved_smem_offset_0": "0u", "%reserved_smem_offset_1": "1024u", "WARP_SZ": "32u",
}  # fmt: skip
_WIDE = {"%clock64": "emu::clock()", "%globaltimer": "emu::clock()", "%gridid": "uint64_t(1)"}
SPECIAL: dict[str, tuple[str, str]] = {
    **_PLACES,
    **{name: ("uint32_t", f"({text.format(_LANE)})") for name, text in _LANES.items()},
    **{name: ("uint32_t", f"emu::special(emu::Special::{x})") for name, x in _RUNTIME.items()},
    **{name: ("uint32_t", text) for name, text in _CONSTANTS.items()},
    **{name: ("uint64_t", text) for name, text in _WIDE.items()},
}
"""By name, ``%tid.x``: the C++ type and the expression."""
