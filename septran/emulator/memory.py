"""The emulated global memory: copies of a call's arrays, far apart from each other.

It is shared with the process that emulates, where it lies at a fixed address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from septran.dtypes import POISON
from septran.emulator.errors import MisuseError
from septran.emulator.launch import CudaProgram
from septran.emulator.process import ADDRESS, MemoryFile

Array = np.ndarray[Any, Any]
GAP = 1 << 16
"""Bytes between arrays: what overruns one is found and does not reach another."""
ALIGNMENT = 256


class GlobalMemory:
    """Parameters and scratch of one call; parameters are copied in, and back at the end."""

    def __init__(self, program: CudaProgram, arrays: Mapping[str, Array]) -> None:
        self.arrays = {name: _as_bytes(name, arrays) for name in program.params}
        sizes = {name: a.size for name, a in self.arrays.items()} | dict(program.scratch)
        # The gap before the first array is where a crash is written down (`process.CRASH`).
        at, self.offsets = GAP, {}
        for name, size in sizes.items():
            self.offsets[name] = at
            at += (size + GAP + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        self.names, self.sizes = tuple(sizes), sizes
        self.file = MemoryFile(at)
        self.bytes = np.frombuffer(self.file.bytes, np.uint8)
        self.base = ADDRESS
        for name, size in sizes.items():
            self._view(name)[:] = self.arrays.get(name, np.full(size, POISON, np.uint8))
        self.table = [[self.address(name), size] for name, size in sizes.items()]

    def address(self, name: str) -> int:
        """Return where a buffer starts, for the kernels."""
        return self.base + self.offsets[name]

    def write_back(self) -> None:
        """Give the caller what the kernels wrote; read-only arrays must be as they were."""
        for name, array in self.arrays.items():
            view = self._view(name)
            if array.flags.writeable:
                array[:] = view
            elif not np.array_equal(array, view):
                raise MisuseError(f"the kernels write to {name}, which is read-only")

    def _view(self, name: str) -> Array:
        start = self.offsets[name]
        return self.bytes[start : start + self.sizes[name]]

    def close(self) -> None:
        """Give the memory back."""
        del self.bytes
        self.file.close()


def _as_bytes(name: str, arrays: Mapping[str, Array]) -> Array:
    if name not in arrays:
        raise MisuseError(f"no array for the parameter {name!r}; there are {', '.join(arrays)}")
    array = arrays[name]
    if not array.flags.c_contiguous:
        raise MisuseError(f"the array for {name!r} is not C-contiguous")
    return array.reshape(-1).view(np.uint8)
