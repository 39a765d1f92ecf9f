"""A compiled program of kernels for AMD's GPUs: its text, its code object, its figures."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from septran.emulator.launch import CudaProgram
from septran.machine.model import Machine
from septran.targets.base import Source
from septran.targets.call_sizes import call_sizes
from septran.targets.cuda.run.executable import check_shared, kernels_from, kernels_to
from septran.targets.cuda.run.facts import kernel_facts
from septran.targets.cuda.run.launched import LaunchedKernels
from septran.targets.cuda.run.launcher import ROCM, parameter_specs
from septran.targets.rocm import toolchain
from septran.targets.rocm.compile import HipCompiled, compile_text
from septran.targets.rocm.occupancy import unit_limits, waves_at_a_time
from septran.targets.rocm.toolchain import NoHipCompilerError
from septran.tile.nodes import TileProgram

CODE, ASSEMBLY, FACTS = "kernel.co", "kernel.s", "kernel.json"
DRIVERS = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
           "/opt/rocm/lib/libamdhip64.so")  # fmt: skip
"""Where HIP is, as in hip_driver.h; a torch for ROCm has loaded one of its own."""


@dataclass(frozen=True)
class HipExecutable(LaunchedKernels):
    """The kernels of one operator for one kind of AMD's GPUs."""

    compiled: HipCompiled | None = None
    """None where no compiler for HIP was found."""

    device_type = ROCM

    @property
    def code(self) -> bytes:
        """The code object; raises NoHipCompilerError where there is none."""
        if self.compiled is None:
            toolchain.compiler()  # raises where there is still none
            raise NoHipCompilerError(
                f"{self.name} was built where there was no compiler for HIP",
                hint="compile it again",
            )
        return self.compiled.code

    @cached_property
    def source(self) -> Source:
        """HIP text and machine code, with what is known of them."""
        facts = kernel_facts(self.program, None, self.machine)
        if self.compiled is None:
            facts["not compiled"] = f"no clang for AMD's GPUs, no hipRTC: {toolchain.INSTALL}"
            return Source(self.name, "hip", self.program.source, {}, facts)
        facts |= dict(_facts(self.compiled, self.program, self.machine))
        parts = {"GCN assembly": self.compiled.assembly} if self.compiled.assembly else {}
        return Source(self.name, "hip", self.program.source, parts, facts)

    def save(self, folder: Path) -> None:
        """The code object, the text, and all that showing them takes."""
        facts: dict[str, Any] = {**kernels_to(self), "compiled": None}
        if self.compiled is not None:
            (folder / CODE).write_bytes(self.compiled.code)
            (folder / ASSEMBLY).write_text(self.compiled.assembly, encoding="utf-8")
            kept = asdict(self.compiled)
            facts["compiled"] = {name: kept[name] for name in ("arch", "compiler", "seconds")}
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _facts(
    compiled: HipCompiled, program: CudaProgram, machine: Machine
) -> Iterator[tuple[str, Any]]:
    launches = {launch.kernel: launch for launch in program.launches}
    for found in compiled.figures:
        prefix = f"{found.kernel}: " if len(compiled.figures) > 1 else ""
        yield f"{prefix}vector registers a lane", found.vector_registers
        yield f"{prefix}of them for accumulation", found.accumulation_registers
        yield f"{prefix}scalar registers a wave", found.scalar_registers
        yield f"{prefix}spilled registers", found.spilled
        yield f"{prefix}private bytes a lane", found.private_bytes
        waves = waves_at_a_time(launches[found.kernel], found, machine)
        if waves is not None:
            limits = unit_limits(machine)
            yield f"{prefix}waves a compute unit", waves
            yield f"{prefix}occupancy", f"{waves / limits['waves'] / limits['vector_units']:.0%}"
    yield from compiled.counts.items()
    yield "code object bytes", len(compiled.code)
    yield "compiler", compiled.compiler


def build(program: CudaProgram, tile: TileProgram) -> HipExecutable:
    """Compile, where there is a compiler; raises HipRefusedError, SharedMemoryError."""
    check_shared(program, tile)
    compiled = None
    if toolchain.available() is not None:
        compiled = compile_text(program.source, program.arch, tile.name)
    return HipExecutable(
        tile.name, program, parameter_specs(tile), tile.outputs, tile.machine,
        sizes=call_sizes(tile), compiled=compiled,
    )  # fmt: skip


def load(folder: Path) -> HipExecutable:
    """Return what `HipExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    compiled = None
    if facts["compiled"] is not None:
        assembly = (folder / ASSEMBLY).read_text(encoding="utf-8")
        code = (folder / CODE).read_bytes()
        compiled = HipCompiled(code=code, assembly=assembly, **facts["compiled"])
    return HipExecutable(**kernels_from(facts), compiled=compiled)


@functools.cache
def missing() -> str | None:
    """Why kernels cannot be launched here; None where they can."""
    wish = os.environ.get("SEPTRAN_LIBAMDHIP64")
    for name in [wish] if wish else DRIVERS:
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int()
        status = driver.hipInit(0) or driver.hipGetDeviceCount(ctypes.byref(count))
        if status or not count.value:
            return f"HIP finds no AMD GPU (error {status})"
        return None
    return "there is no HIP driver here (libamdhip64.so is not found)"
