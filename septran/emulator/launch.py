"""The launches of a lowered program: kernels, their arguments, their order.

The contract between lowering, the launcher, export and the emulator. A `CudaProgram` is
CUDA text plus a list of launches on one stream; buffers are named, so that whoever runs it
decides where they lie.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
    told: tuple[tuple[str, int, str], ...] = ()
    """The extents and strides that follow from those that a call tells, and how.

    Each is ``extents`` or ``strides``, the place in it, and arithmetic over the call's extents.
    """

    def at(self, sizes: Mapping[str, int]) -> TensorMap:
        """The map of a call with these extents."""
        if not self.told:
            return self
        found = {"extents": list(self.extents), "strides": list(self.strides)}
        for which, place, text in self.told:
            found[which][place] = evaluated(text, sizes)
        # The driver wants a multiple of 16, though of a single row no stride is ever used.
        if len(self.extents) == 2 and self.extents[1] == 1:
            found["strides"] = [-(-found["strides"][0] // 16) * 16]
        extents, strides = (tuple(found[which]) for which in ("extents", "strides"))
        return replace(self, extents=extents, strides=strides, told=())


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
    told: str = field(default="", kw_only=True)
    """The number of blocks as arithmetic over the extents that a call tells; `grid` is the most."""
    dependent: bool = field(default=False, kw_only=True)
    """Whether it may start before the launch before it has ended: the kernel waits for that."""

    def at(self, sizes: Mapping[str, int]) -> KernelLaunch:
        """The launch of a call with these extents."""
        grid = max(1, evaluated(self.told, sizes)) if self.told else self.grid
        arguments = (a.at(sizes) if isinstance(a, TensorMap) else a for a in self.arguments)
        return replace(self, grid=grid, arguments=tuple(arguments), told="")

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
    """What the text is for, such as ``sm_90a`` or ``gfx942``."""

    @property
    def lanes(self) -> int:
        """Threads of a warp: 64 on AMD's CDNA, whose architectures are called gfx9 and more."""
        return 64 if self.arch.startswith("gfx9") else 32

    def at(self, sizes: Mapping[str, int]) -> CudaProgram:
        """The program of a call that tells these extents, which are the last of its scalars."""
        return replace(self, launches=tuple(launch.at(sizes) for launch in self.launches))


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def evaluated(text: str, sizes: Mapping[str, int]) -> int:
    """The value of arithmetic over extents, as an index is written: ``(M + 127)//128``.

    Raises ValueError for what is none.
    """

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(int() as number):
                return int(number)
            case ast.Name(name):
                return sizes[name]
            case ast.UnaryOp(ast.USub(), inner):
                return -value(inner)
            case ast.BinOp(left, kind, right):
                return _OPERATORS[type(kind)](value(left), value(right))
            case ast.Call(ast.Name("min" | "max" as name), operands):
                return (min if name == "min" else max)(map(value, operands))
        raise ValueError(f"{text} is no arithmetic over extents")

    return value(ast.parse(text, mode="eval").body)


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
