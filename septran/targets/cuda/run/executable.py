"""A compiled program of kernels: its source, its cubin, and its launch on a GPU."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from septran.emulator.launch import (
    Argument,
    CudaProgram,
    KernelLaunch,
    Pointer,
    ScalarArgument,
    TensorMap,
)
from septran.errors import TargetError
from septran.machine.as_json import from_json, to_json
from septran.targets.base import Source
from septran.targets.call_sizes import CallSize, call_sizes
from septran.targets.cuda.run import toolchain
from septran.targets.cuda.run.compile import Compiled, compile_text, disassemble
from septran.targets.cuda.run.facts import count_sass, kernel_facts
from septran.targets.cuda.run.launched import LaunchedKernels
from septran.targets.cuda.run.launcher import (
    LIBRARY,
    LauncherError,
    compile_launcher,
    parameter_specs,
    specs_from,
)
from septran.targets.cuda.run.sums_in_flight import uses_in_flight
from septran.targets.cuda.run.toolchain import NoCompilerError
from septran.tile.nodes import TileProgram


class SharedMemoryError(TargetError):
    """A kernel asks for more shared memory than a block can have."""

    code = "SEP576"


class SumsInFlightError(TargetError):
    """The compiler of NVIDIA moved a read of sums before the wait for their product."""

    code = "SEP577"


CUBIN, PTX, FACTS = "kernel.cubin", "kernel.ptx", "kernel.json"


@dataclass(frozen=True)
class CudaExecutable(LaunchedKernels):
    """The kernels of one operator for one GPU architecture of NVIDIA's."""

    compiled: Compiled | None = None
    """None where no compiler for CUDA was found: there is text, but nothing to launch."""

    @property
    def code(self) -> bytes:
        """The cubin; raises NoCompilerError where there is none."""
        if self.compiled is None:
            toolchain.compiler()  # raises where there is still none
            raise NoCompilerError(
                f"{self.name} was built where there was no compiler for CUDA",
                hint="compile it again",
            )
        return self.compiled.cubin

    @cached_property
    def source(self) -> Source:
        """CUDA text, PTX and machine code, with what is known of them."""
        facts, parts = kernel_facts(self.program, self.compiled, self.machine), {}
        if self.compiled is None:
            facts["not compiled"] = f"neither NVRTC nor nvcc is found: {toolchain.INSTALL}"
        else:
            parts["PTX"] = self.compiled.ptx
            sass = disassemble(self.compiled.cubin)
            if sass is None:
                facts["not disassembled"] = (
                    f"no disassembler is found: {toolchain.INSTALL_DISASSEMBLER}"
                )
            else:
                parts["SASS assembly"] = sass
                facts |= dict(count_sass(sass))
        return Source(self.name, "cuda", self.program.source, parts, facts)

    def save(self, folder: Path) -> None:
        """The cubin, the text, and all that launching and showing them takes."""
        facts: dict[str, Any] = {**kernels_to(self), "compiled": None}
        if self.compiled is not None:
            (folder / CUBIN).write_bytes(self.compiled.cubin)
            (folder / PTX).write_text(self.compiled.ptx, encoding="utf-8")
            facts["compiled"] = {
                "arch": self.compiled.arch, "log": self.compiled.log,
                "compiler": self.compiled.compiler, "seconds": self.compiled.seconds,
            }  # fmt: skip
            if missing() is None:  # it will be launched here
                (folder / LIBRARY).write_bytes(compile_launcher().read_bytes())
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")

    def export(self, folder: Path, roles: Sequence[str]) -> Path:
        """CUDA C++ with its launcher, to build with nvcc on a machine without TVM.

        `roles` says ``input``, ``output`` or ``summed`` of each tensor.
        """
        from septran.targets.cuda.run.export import export

        if self.sizes:
            names = " and ".join(size.name for size in self.sizes)
            raise LauncherError(
                f"{self.name} is for any {names}, and an exported launcher for one call's extents",
                hint="leave out dynamic, and export a kernel for each length",
            )
        return export(self, folder, roles)


def build(program: CudaProgram, tile: TileProgram) -> CudaExecutable:
    """Compile, where there is a compiler.

    Raises RefusedError, SharedMemoryError, SumsInFlightError.
    """
    check_shared(program, tile)
    compiled = None
    if toolchain.available() is not None:
        compiled = compile_text(program.source, program.arch, tile.name)
        check_sums(compiled, tile.name)
    specs = parameter_specs(tile)
    return CudaExecutable(
        tile.name, program, specs, tile.outputs, tile.machine, sizes=call_sizes(tile),
        compiled=compiled,
    )  # fmt: skip


def check_sums(compiled: Compiled, name: str) -> None:
    """Raise SumsInFlightError where machine code, as far as it can be read here, is wrong so."""
    sass = disassemble(compiled.cubin) if "wgmma.mma_async" in compiled.ptx else None
    found = uses_in_flight(sass) if sass else ()
    if found:
        raise SumsInFlightError(
            f"{compiled.compiler} uses sums of {name} while their product by wgmma is under way, "
            f"at {len(found)} places in its machine code, the first one {found[0]}",
            hint="use another release of CUDA, or `binding: {gemm: mma_sync}`; please report it",
        )


def check_shared(program: CudaProgram, tile: TileProgram) -> None:
    """Raise SharedMemoryError where a block asks for more than its machine has."""
    found = [m.capacity_bytes for m in tile.machine.memories if m.name == "SHARED"]
    limit = found[0] if found else None
    for launch in program.launches:
        if limit is not None and launch.shared_bytes > limit:
            raise SharedMemoryError(
                f"{launch.kernel} needs {launch.shared_bytes} bytes of shared memory with its "
                f"barriers and scratch; a block of {tile.machine.name} has {limit}",
                hint="make the tiles or the number of stages smaller in the mapping",
            )


def load(folder: Path) -> CudaExecutable:
    """Return what `CudaExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    compiled = None
    if facts["compiled"] is not None:
        ptx = (folder / PTX).read_text(encoding="utf-8")
        compiled = Compiled(cubin=(folder / CUBIN).read_bytes(), ptx=ptx, **facts["compiled"])
    library = folder / LIBRARY
    return CudaExecutable(
        **kernels_from(facts), library=library if library.exists() else None, compiled=compiled
    )


@functools.cache
def missing() -> str | None:
    """Why kernels cannot be launched here; None where they can."""
    name = os.environ.get("SEPTRAN_LIBCUDA", "libcuda.so.1")
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return "there is no NVIDIA driver here (libcuda.so.1 is not found)"
    count = ctypes.c_int()
    # CUDA driver API: before cuInit every other function fails.
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        return f"the NVIDIA driver finds no GPU (error {status})"
    return None


_KINDS: Mapping[str, type[Argument]] = {
    "map": TensorMap,
    "pointer": Pointer,
    "scalar": ScalarArgument,
}


def kernels_to(kernels: LaunchedKernels) -> dict[str, Any]:
    """What launching and showing kernels takes beside their machine code, as JSON-ready data."""
    return {
        "name": kernels.name, "program": program_to(kernels.program),
        "tensors": [asdict(tensor) for tensor in kernels.tensors],
        "sizes": [size.facts for size in kernels.sizes],
        "outputs": kernels.outputs, "machine": to_json(kernels.machine),
    }  # fmt: skip


def kernels_from(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `LaunchedKernels` that `kernels_to` gave."""
    return {
        "name": facts["name"], "program": program_from(facts["program"]),
        "tensors": specs_from(facts["tensors"]), "outputs": tuple(facts["outputs"]),
        "machine": from_json(facts["machine"]),
        "sizes": tuple(CallSize(*size) for size in facts.get("sizes", ())),
    }  # fmt: skip


def program_to(program: CudaProgram) -> dict[str, Any]:
    """`program` as JSON-ready data."""
    data = asdict(program)
    for launch, record in zip(data["launches"], program.launches, strict=True):
        for argument, given in zip(launch["arguments"], record.arguments, strict=True):
            argument["kind"] = next(k for k, kind in _KINDS.items() if isinstance(given, kind))
    return data


def program_from(data: Mapping[str, Any]) -> CudaProgram:
    """Return what `program_to` gave."""
    launches = (
        KernelLaunch(**{**launch, "arguments": tuple(map(_argument, launch["arguments"]))})
        for launch in data["launches"]
    )
    return CudaProgram(
        **{
            **data,
            "launches": tuple(launches),
            "scratch": tuple((name, size) for name, size in data["scratch"]),
            "params": tuple(data["params"]),
            "scalars": tuple((name, dtype) for name, dtype in data["scalars"]),
        }
    )


def _argument(data: Mapping[str, Any]) -> Argument:
    fields: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k != "kind"
    }
    if "told" in fields:
        fields["told"] = tuple((which, place, text) for which, place, text in fields["told"])
    return _KINDS[data["kind"]](**fields)
