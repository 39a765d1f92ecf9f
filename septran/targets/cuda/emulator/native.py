"""The C structures of runtime/interface.h, and a kernel's library."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = 0x7E45A9B1
"""Marks a tensor map of the emulator."""

RECORD = np.dtype(
    [("site", "u8"), ("command", "i4"), ("queue", "i4"), ("block", "i4"), ("warp", "i4"),
     *((name, "i8") for name in ("issue", "start", "end", "bytes", "flops", "barrier",
                                 "bandwidth", "sync"))]
)  # fmt: skip
CONFLICT = np.dtype([("site", "u8"), ("requests", "u8"), ("wavefronts", "u8"), ("ideal", "u8")])
COUNTS = (
    "steps", "tma_loads", "tma_load_bytes", "tma_stores", "tma_store_bytes", "copies",
    "copy_bytes", "wgmma", "mma", "flops", "global_load_bytes", "global_store_bytes",
    "shared_loads", "shared_stores", "barriers", "switches", "poisoned",
)  # fmt: skip


class Buffer(ctypes.Structure):
    """An array in the emulated global memory."""

    _fields_ = (("address", c_uint64), ("bytes", c_uint64))


class TensorMapBits(ctypes.Structure):
    """What a ``CUtensorMap`` holds here."""

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
        ("memory", c_uint64), ("memory_bytes", c_uint64),
    )  # fmt: skip


class Library:
    """A kernel's library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.c = ctypes.CDLL(str(path))
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
        """Where the library was loaded, for addresses of its debug information."""
        anchor = ctypes.cast(self.c.emu_launch, c_void_p).value
        info = _DlInfo()
        ctypes.CDLL(None).dladdr(c_void_p(anchor), ctypes.byref(info))
        return int(info.base or 0)

    def records(self, result: int, count: str, first: str, dtype: np.dtype[Any]) -> Any:
        """An array that the runtime holds, copied."""
        number = getattr(self.c, count)(result)
        if not number:
            return np.zeros(0, dtype)
        raw = ctypes.string_at(getattr(self.c, first)(result), number * dtype.itemsize)
        return np.frombuffer(bytearray(raw), dtype)


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p), ("base", c_void_p), ("symbol", ctypes.c_char_p),
        ("address", c_void_p),
    )  # fmt: skip
