"""The C structures of runtime/interface.h, and a kernel's library.

The worker (`worker.py`) loads this file by its path: it needs the standard library alone.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

MAGIC = 0x7E45A9B1
"""Marks a tensor map of the emulator."""

COUNTS = (
    "steps", "tma_loads", "tma_load_bytes", "tma_stores", "tma_store_bytes", "copies",
    "copy_bytes", "wgmma", "mma", "flops", "global_load_bytes", "global_store_bytes",
    "shared_loads", "shared_stores", "barriers", "switches", "poisoned",
)  # fmt: skip


CONFLICT_BYTES, RECORD_BYTES = 32, 88
"""The sizes of ``Conflict`` and ``Record`` in runtime/interface.h."""


class EmulatedArray(ctypes.Structure):
    """An array in the emulated global memory."""

    _fields_ = (("address", c_uint64), ("bytes", c_uint64))


class TensorMapBits(ctypes.Structure):
    """The content of a ``CUtensorMap`` in the emulator."""

    _fields_ = (
        ("base", c_uint64), ("extent", c_uint64 * 5), ("stride", c_uint64 * 5),
        ("box", c_uint32 * 5), ("rank", c_uint8), ("element", c_uint8), ("swizzle", c_uint8),
        ("type", c_uint8), ("magic", c_uint32), ("spare", c_uint32 * 3),
    )  # fmt: skip


class Request(ctypes.Structure):
    """A launch."""

    _fields_ = (
        ("entry", c_void_p), ("arguments", c_void_p), ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3), ("cluster", c_uint32), ("shared_bytes", c_uint32),
        ("shared_limit", c_uint32), ("mode", c_int32), ("seed", c_uint64), ("threads", c_uint32),
        ("trace", c_uint32), ("checks", c_uint32), ("registers", c_uint32), ("buffers", c_uint32),
        ("buffer", c_void_p),
        ("memory", c_uint64), ("memory_bytes", c_uint64), ("crash", c_uint64), ("image", c_uint64),
        ("number", c_int64),
    )  # fmt: skip


PLAIN = (
    "cluster", "shared_bytes", "shared_limit", "mode", "seed", "threads", "trace", "checks",
    "registers", "number",
)  # fmt: skip
"""Fields of a `Request` that are numbers of a launch."""


def aligned_copy(data: bytes, align: int) -> Any:
    """A copy of `data` at a multiple of `align` bytes.

    ctypes aligns by malloc, at 16 bytes; with AVX-512 the compiler copies a tensor map, which is
    declared alignas(64), by one aligned load of 64 bytes, which faults elsewhere.
    """
    room = bytearray(len(data) + align)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    copy = (c_uint8 * len(data)).from_buffer(room, -start % align)
    ctypes.memmove(copy, data, len(data))
    return copy


class NativeLibrary:
    """A kernel's library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.c = ctypes.CDLL(str(path))
        # Without a declared type ctypes takes a result for 32 bits, which would cut pointers.
        results = {
            "emu_launch": c_void_p, "emu_free": None, "emu_fault": c_int32,
            "emu_message": ctypes.c_char_p, "emu_block": c_int64, "emu_thread": c_int64,
            "emu_sites": c_uint64, "emu_counts": ctypes.POINTER(c_uint64),
            "emu_records": c_uint64, "emu_record": c_void_p, "emu_conflicts": c_uint64,
            "emu_conflict": c_void_p,
        }  # fmt: skip
        for name, result in results.items():
            function = getattr(self.c, name)
            function.argtypes, function.restype = [c_void_p], result
        self.c.emu_site.argtypes, self.c.emu_site.restype = [c_void_p, c_uint64], c_uint64

    def entry(self, kernel: str) -> int:
        """Address of the function that runs a kernel's body for one thread."""
        address = ctypes.cast(getattr(self.c, f"emu_entry_{kernel}"), c_void_p).value
        assert address
        return address

    @property
    def base(self) -> int:
        """The address at which the library was loaded, for its debug information."""
        anchor = ctypes.cast(self.c.emu_launch, c_void_p).value
        info = _DlInfo()
        ctypes.CDLL(None).dladdr(c_void_p(anchor), ctypes.byref(info))
        return int(info.base or 0)

    def outcome(self, result: int, base: int) -> dict[str, Any]:
        """Return what a launch did, as plain data; addresses are counted from `base`."""
        counts = self.c.emu_counts(result)
        sites = [self.c.emu_site(result, n) for n in range(self.c.emu_sites(result))]
        return {
            "fault": self.c.emu_fault(result),
            "message": self.c.emu_message(result).decode(errors="replace"),
            "block": self.c.emu_block(result), "thread": self.c.emu_thread(result),
            "sites": [site - base if site else 0 for site in sites],
            "counts": [counts[n] for n in range(len(COUNTS))], "base": base,
        }  # fmt: skip

    def blobs(self, result: int) -> list[bytes]:
        """Bank conflicts and the trace, as the runtime holds them."""
        c = self.c
        parts = (
            (c.emu_conflict(result), c.emu_conflicts(result) * CONFLICT_BYTES),
            (c.emu_record(result), c.emu_records(result) * RECORD_BYTES),
        )
        return [ctypes.string_at(first, size) if size else b"" for first, size in parts]


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p), ("base", c_void_p), ("symbol", ctypes.c_char_p),
        ("address", c_void_p),
    )  # fmt: skip
