"""The ROCm target: TileProgram -> TensorIR -> HIP C++ -> code object.

Kernels are written by the CUDA target's code generator, in HIP's dialect and with the emitters
of AMD's instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from septran.targets.base import LibraryPart, TensorIR
from septran.targets.code_digest import code_digest
from septran.targets.cuda.host.write import HostProgram, write_program
from septran.targets.cuda.kernels import GpuVendor, lower_kernels
from septran.targets.cuda.private_memory import privatised
from septran.targets.cuda.run.emulated import build_emulated
from septran.targets.cuda.target import KernelIR, KernelTarget, kernels_as
from septran.targets.cuda.text.printing import print_cuda, target_of
from septran.targets.rocm.dialect import HIP
from septran.targets.rocm.emitter_table import EMITTERS
from septran.targets.rocm.text.prelude import CLOSING, prelude
from septran.tile.nodes import TileProgram

PRINTED_AS = "sm_90a"
"""The architecture for which TVM prints C++: one that has all types."""


HOST = HostProgram(
    driver="HIP (libamdhip64.so, or HIP_LIBRARY)", language="HIP C++",
    text="hip", code="co", source=Path(__file__).with_name("host.c"),
    queue="a hipStream_t", memory="what hipMalloc returns, in the device's current context",
    compile="${HIP_COMPILER:-/opt/rocm/llvm/bin/clang++} -x hip --offload-arch=@arch@ \\\n"
    "  --offload-device-only --no-gpu-bundle-output -nogpuinc -O3 -std=c++17 \\\n"
    "  -ffp-contract=off -fno-strict-aliasing -mcode-object-version=5 -Wno-unused \\\n"
    "  ${HIPFLAGS:-} @name@.hip -o @name@.co",
)  # fmt: skip
"""The host program of exported kernels."""


@dataclass(frozen=True)
class HipIR(KernelIR):
    """Kernels as TensorIR, and as HIP text."""

    def printed(self, arch: str) -> str:
        """With a prelude of HIP's own."""
        del arch
        return print_cuda(self.module, target_of(PRINTED_AS), prelude) + CLOSING


@dataclass(frozen=True)
class RocmTarget(KernelTarget):
    """Serves machines with ``backend: rocm``."""

    name: str = "rocm"

    def lower(self, program: TileProgram) -> KernelIR:
        """One PrimFunc for each kernel of `program`."""
        program = privatised(program)
        vendor = GpuVendor(EMITTERS, HIP)
        return kernels_as(
            HipIR, program, lower_kernels(program, target_of(PRINTED_AS), vendor=vendor)
        )

    def build(self, ir: TensorIR, program: TileProgram) -> Any:
        """Compile for the machine of `program`, where a compiler is found."""
        from septran.targets.rocm.executable import build

        assert isinstance(ir, KernelIR)
        return build(ir.cuda, program)

    def emulated(self, ir: TensorIR, program: TileProgram) -> Any:
        """Return what runs the same HIP text on the CPU."""
        assert isinstance(ir, KernelIR)
        return replace(build_emulated(ir.cuda, program), language="hip")

    def load(self, folder: Path) -> Any:
        """Return what `save` of an executable wrote."""
        from septran.targets.rocm.executable import load

        return load(folder)

    def write_program(self, part: LibraryPart, executable: Any, folder: Path) -> Path:
        """Write HIP C++, machine code, a host program and an example; the path of the header.

        There is machine code only where a compiler was found; `build.sh` makes it of the text.
        """
        machine, sizes = executable.machine, executable.sizes
        compiled = getattr(executable, "compiled", None)  # an emulated one has none
        code = None if compiled is None else compiled.code
        return write_program(part, executable.program, machine, sizes, HOST, folder, code)

    def fingerprint(self) -> str:
        """TVM's version, the compiler's, and the code that prints and compiles."""
        from septran.targets.rocm.toolchain import available

        # The CUDA target's files, too: most of the text is theirs.
        folder = Path(__file__).parent
        digest = code_digest(folder, folder.with_name("cuda"))
        return f"rocm tvm {tvm.__version__} {available()} {digest}"

    def missing(self) -> str | None:
        """Why kernels cannot run here: no driver, no GPU, no compiler; None where they can."""
        from septran.targets.rocm.executable import missing

        return missing()


TARGET = RocmTarget()
