"""The host's side of a launch: tables for the C launcher, and its compilation.

The launcher (launcher.h) is C and knows no kernel: it is compiled once, in a fifth of a
second, and makes functions of apache-tvm-ffi out of cubins and tables.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm_ffi

from septran.dtypes import itemsize
from septran.emulator.launch import (
    Argument,
    CudaProgram,
    KernelLaunch,
    Pointer,
    ScalarArgument,
    TensorMap,
    evaluated,
)
from septran.errors import TargetError
from septran.targets.c_compiler import c_compiler, include_options, link_options
from septran.temporary import TemporaryFolder
from septran.tile.nodes import TileProgram

MAX_TENSORS, MAX_AXES, MAX_ARGUMENTS, MAX_LAUNCHES = 24, 8, 24, 12
MAX_SCALARS, MAX_SCRATCH, MAX_NAME, MAP_AXES = 16, 16, 128, 5
CUDA, ROCM = 2, 10
"""The numbers of kDLCUDA and kDLROCM in DLPack's DLDeviceType."""
HERE = Path(__file__).parent
LIBRARY = "launcher.so"

_MAP_TYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1,
    "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7,
    "float64": 8, "bfloat16": 9,
}  # fmt: skip
"""CUtensorMapDataType; what has no own entry is copied by its bytes."""
_KINDS = {
    "int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6, "float8_e4m3fn": 10, "float8_e5m2": 12,
}  # fmt: skip
"""DLPack's DLDataTypeCode by the name of an element type, without its bits where they vary."""


class LauncherError(TargetError):
    """The C launcher cannot be compiled, or does not hold what a program asks for."""

    code = "SEP572"


class DriverError(TargetError):
    """There is no driver of the GPU's vendor here, or it refused a launch."""

    code = "SEP573"


class KernelArgumentError(TargetError):
    """A tensor passed to a GPU kernel is not what it was compiled for."""

    code = "SEP574"


tvm_ffi.register_error("septran.DriverError", DriverError)
tvm_ffi.register_error("septran.ArgumentError", KernelArgumentError)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a call."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    told: tuple[str, ...] = ()
    """Its extents as arithmetic over those that a call tells; empty where it has no such."""

    def at(self, sizes: Mapping[str, int]) -> TensorSpec:
        """The tensor of a call that tells these extents."""
        if not self.told:
            return self
        return TensorSpec(self.name, self.dtype, tuple(evaluated(t, sizes) for t in self.told))


def parameter_specs(program: TileProgram) -> tuple[TensorSpec, ...]:
    """The tensors of a call, in the order of the program's parameters."""
    buffers = map(program.buffer, program.params)
    return tuple(TensorSpec(b.name, b.dtype, b.shape, tuple(map(str, b.exists))) for b in buffers)


def specs_from(data: Iterable[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    """The tensors of a call, of what ``dataclasses.asdict`` gave and JSON kept."""
    return tuple(
        TensorSpec(t["name"], t["dtype"], tuple(t["shape"]), tuple(t.get("told", ()))) for t in data
    )


class CTensor(ctypes.Structure):
    """``Tensor`` of launcher.h."""

    _fields_ = (
        ("name", ctypes.c_char * MAX_NAME), ("code", ctypes.c_int32), ("bits", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("alignment", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_AXES),
    )  # fmt: skip


class CArgument(ctypes.Structure):
    """``Argument`` of launcher.h."""

    _fields_ = (
        ("kind", ctypes.c_int32), ("index", ctypes.c_int32), ("offset", ctypes.c_int64),
        ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("extents", ctypes.c_uint64 * MAP_AXES), ("strides", ctypes.c_uint64 * MAP_AXES),
        ("box", ctypes.c_uint32 * MAP_AXES), ("swizzle", ctypes.c_int32),
    )  # fmt: skip


class CLaunch(ctypes.Structure):
    """``KernelLaunch`` of launcher.h."""

    _fields_ = (
        ("kernel", ctypes.c_char * MAX_NAME), ("grid", ctypes.c_uint32),
        ("block", ctypes.c_uint32), ("cluster", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32), ("argument_count", ctypes.c_int32),
        ("dependent", ctypes.c_int32), ("arguments", CArgument * MAX_ARGUMENTS),
    )  # fmt: skip


class LauncherProgram(ctypes.Structure):
    """``Program`` of launcher.h."""

    _fields_ = (
        ("name", ctypes.c_char * MAX_NAME), ("arch", ctypes.c_char * 16),
        ("device_type", ctypes.c_int32), ("tensor_count", ctypes.c_int32),
        ("scalar_count", ctypes.c_int32), ("scratch_count", ctypes.c_int32),
        ("launch_count", ctypes.c_int32), ("reserved", ctypes.c_int32),
        ("tensors", CTensor * MAX_TENSORS), ("scalar_codes", ctypes.c_int32 * MAX_SCALARS),
        ("scalar_bits", ctypes.c_int32 * MAX_SCALARS),
        ("scratch_bytes", ctypes.c_uint64 * MAX_SCRATCH), ("launches", CLaunch * MAX_LAUNCHES),
    )  # fmt: skip


def table(
    name: str, program: CudaProgram, tensors: Sequence[TensorSpec], device_type: int = CUDA
) -> LauncherProgram:
    """Description of a program for the C launcher; raises LauncherError where it is too large."""
    _limit(name, "tensors", len(tensors), MAX_TENSORS)
    _limit(name, "scalars", len(program.scalars), MAX_SCALARS)
    _limit(name, "scratch buffers", len(program.scratch), MAX_SCRATCH)
    _limit(name, "kernels", len(program.launches), MAX_LAUNCHES)
    result = LauncherProgram(
        name.encode()[: MAX_NAME - 1], program.arch.encode(), device_type, len(tensors),
        len(program.scalars), len(program.scratch), len(program.launches),
    )  # fmt: skip
    for place, tensor in enumerate(tensors):
        result.tensors[place] = _tensor(name, tensor)
    for place, (_, dtype) in enumerate(program.scalars):
        result.scalar_codes[place], result.scalar_bits[place] = _scalar(name, dtype)
    for place, (_, size) in enumerate(program.scratch):
        # CUDA driver API, cuMemAlloc: an allocation of 0 bytes is an error.
        result.scratch_bytes[place] = max(size, 1)
    buffers = [tensor.name for tensor in tensors] + [buffer for buffer, _ in program.scratch]
    scalars = [scalar for scalar, _ in program.scalars]
    for place, launch in enumerate(program.launches):
        result.launches[place] = _launch(launch, buffers, scalars)
    return result


def _limit(name: str, what: str, count: int, most: int) -> None:
    if count > most:
        raise LauncherError(f"{name} has {count} {what}; the launcher holds {most}")


def _tensor(name: str, tensor: TensorSpec) -> CTensor:
    _limit(name, f"axes in {tensor.name}", len(tensor.shape), MAX_AXES)
    code, bits = dl_type(tensor.dtype)
    # Copies by 16 bytes, and TMA, want 16; a tensor of torch starts at a multiple of 512.
    return CTensor(
        tensor.name.encode()[: MAX_NAME - 1], code, bits, len(tensor.shape), 16,
        (ctypes.c_int64 * MAX_AXES)(*tensor.shape),
    )  # fmt: skip


def dl_type(dtype: str) -> tuple[int, int]:
    """DLPack's code and bits of an element type."""
    kind = dtype if dtype in _KINDS else dtype.rstrip("0123456789")
    return _KINDS[kind], 8 * itemsize(dtype)


def _scalar(name: str, dtype: str) -> tuple[int, int]:
    code, bits = dl_type(dtype)
    if dtype.startswith(("bfloat", "float8")) or (code == _KINDS["float"] and bits == 16):
        message = f"{name} takes a scalar of {dtype}, which kernels cannot be passed by value"
        raise LauncherError(message, hint="declare it as float32")
    return code, bits


def _launch(launch: KernelLaunch, buffers: Sequence[str], scalars: Sequence[str]) -> CLaunch:
    _limit(launch.kernel, "arguments", len(launch.arguments), MAX_ARGUMENTS)
    # One less, as the name ends in a zero there.
    _limit(launch.kernel, "letters", len(launch.kernel), MAX_NAME - 1)
    result = CLaunch(
        launch.kernel.encode(), launch.grid, launch.block, launch.cluster, launch.shared_bytes,
        len(launch.arguments), launch.dependent,
    )  # fmt: skip
    for place, argument in enumerate(launch.arguments):
        result.arguments[place] = _argument(argument, buffers, scalars)
    return result


def _argument(argument: Argument, buffers: Sequence[str], scalars: Sequence[str]) -> CArgument:
    match argument:
        case TensorMap():
            return CArgument(
                0, buffers.index(argument.buffer), argument.offset, _MAP_TYPES[argument.dtype],
                len(argument.extents), (ctypes.c_uint64 * MAP_AXES)(*argument.extents),
                (ctypes.c_uint64 * MAP_AXES)(*argument.strides),
                (ctypes.c_uint32 * MAP_AXES)(*argument.box), argument.swizzle,
            )  # fmt: skip
        case Pointer():
            return CArgument(1, buffers.index(argument.buffer))
        case ScalarArgument():
            return CArgument(2, scalars.index(argument.name))


def make_function(
    table: LauncherProgram, cubin: bytes, library: Path | None = None, key: int = 0
) -> Any:
    """A `tvm_ffi.Function` that launches; the driver is opened when it is first called.

    Functions of one key, other than 0, are of the same code, and share what the driver loads.
    """
    module = _module(library or compile_launcher())
    size = ctypes.sizeof(table)
    code = ctypes.create_string_buffer(cubin, len(cubin))
    return module.create(ctypes.addressof(table), size, ctypes.addressof(code), len(cubin), key)


@functools.cache
def _module(library: Path) -> Any:
    return tvm_ffi.load_module(str(library))


@functools.cache
def compile_launcher(device_type: int = CUDA) -> Path:
    """The launcher as a shared library, once in a process; raises LauncherError.

    It is for AMD's driver where the device type is ROCM, else for NVIDIA's.
    """
    command = c_compiler()
    if command is None:
        raise LauncherError(
            "launching GPU kernels takes a C compiler, and there is none",
            hint="install gcc or clang, or set CC",
        )
    _kept.append(TemporaryFolder("launcher"))
    path = _kept[-1].path / LIBRARY
    done = subprocess.run(
        [command, "-O2", "-fPIC", "-shared", *(["-DSEPTRAN_HIP"] if device_type == ROCM else []),
         *include_options(), str(HERE / "launcher.c"), "-o", str(path), *link_options(), "-ldl"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise LauncherError(f"{command} refused the launcher:\n{done.stderr.strip()[:2000]}")
    return path


_kept: list[TemporaryFolder] = []
"""Removed when the process ends."""
