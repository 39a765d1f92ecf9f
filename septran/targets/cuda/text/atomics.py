"""Joining to an element in memory at once, where C++ for GPUs has no function for it."""

from __future__ import annotations

from collections.abc import Collection

from septran.targets.templates import filled

NATIVE = frozenset({"int32"})
"""Types that C++ for GPUs joins itself: ``atomicAdd``, ``atomicMax``, ``atomicMin``."""
_EXTREME = """\
// The @WORD@, or NaN, by compare and exchange; the first exchange changes nothing, and reads.
__device__ __forceinline__ void septran_atomic_@FUNCTION@_@DTYPE@(@TYPE@* place, @TYPE@ value) {
  @BITS@ wanted = @TO@(value), seen = atomicCAS((@BITS@*)place, wanted, wanted), found = seen;
  do {
    seen = found;
    @TYPE@ held = @FROM@(seen);
    if (held @BEYOND@ value || held != held) return;
    found = atomicCAS((@BITS@*)place, seen, wanted);
  } while (found != seen);
}
"""
_LONG = """\
__device__ __forceinline__ void septran_atomic_@FUNCTION@_int64(int64_t* place, int64_t value) {
  @CALLED@((@TYPE@*)place, (@TYPE@)value);
}
"""
_FLOATS = {
    "float32": ("float", "int", "__float_as_int", "__int_as_float"),
    "float64": (
        "double", "unsigned long long", "(unsigned long long)__double_as_longlong",
        "__longlong_as_double",
    ),
}  # fmt: skip
_CALLED = {
    "sum": ("atomicAdd", "unsigned long long"), "max": ("atomicMax", "long long"),
    "min": ("atomicMin", "long long"),
}  # fmt: skip


def atomic_name(function: str, dtype: str) -> str:
    """The function that joins by ``sum``, ``max`` or ``min`` to an element of a type."""
    native = dtype in NATIVE or (function == "sum" and dtype in _FLOATS)
    return _CALLED[function][0] if native else f"septran_atomic_{function}_{dtype}"


def atomics(words: Collection[str]) -> list[str]:
    """The texts of the functions that are among the words."""
    found = []
    for function, word, beyond in (("max", "greater", ">="), ("min", "less", "<=")):
        for dtype, (kind, bits, to, back) in _FLOATS.items():
            if f"septran_atomic_{function}_{dtype}" in words:
                names = {"FUNCTION": function, "WORD": word, "BEYOND": beyond, "DTYPE": dtype}
                found.append(filled(_EXTREME, **names, TYPE=kind, BITS=bits, TO=to, FROM=back))
    for function, (called, kind) in _CALLED.items():
        if f"septran_atomic_{function}_int64" in words:
            found.append(filled(_LONG, FUNCTION=function, CALLED=called, TYPE=kind))
    return found
