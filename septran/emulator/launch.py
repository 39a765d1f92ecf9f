"""The launches of a lowered program: kernels, their arguments, their order.

The contract between lowering, the launcher, export and the emulator. A `CudaProgram` is
CUDA text plus a list of launches on one stream; buffers are named, so that whoever runs it
decides where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

REGISTERS = 65536
"""Registers of a multiprocessor."""
REGISTER_UNIT = 8
"""Registers of a thread are allocated in these units."""


@dataclass(frozen=True)
class Pointer:
    """A kernel argument: the address of a parameter's or scratch buffer's first element."""

    buffer: str
    """A name in `CudaProgram.params` or `CudaProgram.scratch`."""
    dtype: str
    name: str
    """The argument's name in the kernel's signature."""


@dataclass(frozen=True)
class ScalarArgument:
    """A kernel argument: a run-time scalar of the call, passed by value."""

    name: str
    """A name in `CudaProgram.scalars`, and the argument's name."""
    dtype: str


@dataclass(frozen=True)
class TensorMap:
    """A kernel argument: a `CUtensorMap` (``const __grid_constant__``) of a buffer in GLOBAL.

    The fields are those of cuTensorMapEncodeTiled; element strides are 1, nothing is
    interleaved and what is out of bounds is zero.
    """

    buffer: str
    """A name in `CudaProgram.params` or `CudaProgram.scratch`."""
    dtype: str
    extents: tuple[int, ...]
    """Elements along each axis, the innermost first."""
    strides: tuple[int, ...]
    """Bytes between neighbours along axes 1 and up; multiples of 16."""
    box: tuple[int, ...]
    """Elements that one copy moves, the innermost first."""
    swizzle: int
    """0, 32, 64 or 128: bytes within which 16-byte chunks are permuted."""
    name: str
    """The argument's name in the kernel's signature."""
    offset: int = 0
    """Bytes from the buffer's start to element 0; a multiple of 16."""


Argument = Union[TensorMap, Pointer, ScalarArgument]


@dataclass(frozen=True)
class KernelLaunch:
    """One kernel on a one-dimensional grid."""

    kernel: str
    """The ``extern "C" __global__`` function's name in the source."""
    grid: int
    """The number of blocks."""
    block: int
    """The number of threads of a block."""
    cluster: int
    """Blocks that share a cluster; 1 without clusters."""
    shared_bytes: int
    """Dynamic shared memory; over 48 KiB its limit must be raised by the launcher."""
    arguments: tuple[Argument, ...]
    """In the order of the kernel's C++ signature."""

    @property
    def grid_shape(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        return self.grid, 1, 1

    @property
    def block_shape(self) -> tuple[int, int, int]:
        """Threads of a block along x, y and z."""
        return self.block, 1, 1


def registers_at_launch(threads: int, blocks: int = 1) -> int:
    """Registers of each thread that a kernel is compiled for by ``__launch_bounds__``.

    A multiprocessor shares its registers out to whole quarters of a warpgroup's warps, and they
    go by 8: ptxas gives 168 to 384 threads, and to 320 of them, too. It says 255 where 256 are
    allocated.
    """
    warps = -(-threads // 128) * 4
    return min(256, REGISTERS // (32 * warps * blocks) // REGISTER_UNIT * REGISTER_UNIT)


@dataclass(frozen=True)
class CudaProgram:
    """CUDA C++ text and the launches that make a call of the operator, in order."""

    source: str
    launches: tuple[KernelLaunch, ...]
    scratch: tuple[tuple[str, int], ...]
    """Temporaries in GLOBAL: name and bytes; aligned to 256 bytes, contents undefined."""
    params: tuple[str, ...]
    """The call's tensors, by the names of `TileProgram.params` and in that order."""
    scalars: tuple[tuple[str, str], ...] = ()
    """The call's run-time scalars after the tensors: name and dtype."""
    arch: str = ""
    """What the text is for, such as ``sm_90a``."""


@dataclass(frozen=True)
class StructArgument:
    """A kernel argument: bytes by value, with addresses of buffers in them."""

    name: str
    fill: Callable[[Callable[[str], int]], bytes]
    """Returns the bytes, given a function from a buffer's name to its address."""
    align: int = 16


@dataclass(frozen=True)
class ShapedLaunch(KernelLaunch):
    """One kernel on a grid of up to three axes; clusters lie along x."""

    arguments: tuple[Any, ...]
    """Of the kinds that lowering makes, and `StructArgument`."""
    blocks: tuple[int, int, int] = (1, 1, 1)
    threads: tuple[int, int, int] = (1, 1, 1)

    @property
    def grid_shape(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        return self.blocks

    @property
    def block_shape(self) -> tuple[int, int, int]:
        """Threads of a block along x, y and z."""
        return self.threads
