"""The OpenCL target: TileProgram -> TensorIR -> OpenCL C -> a driver's own code.

Kernels are written by the CUDA target's code generator, in a dialect of single work-items and with
the emitters that need nothing of a vendor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from septran.targets.base import LibraryPart, TensorIR
from septran.targets.code_digest import code_digest
from septran.targets.cuda.host.write import HostProgram, write_program
from septran.targets.cuda.kernels import GpuVendor, lower_kernels
from septran.targets.cuda.private_memory import privatised
from septran.targets.cuda.target import KernelIR, KernelTarget, kernels_as
from septran.targets.opencl.dialect import OPENCL
from septran.targets.opencl.emitter_table import EMITTERS
from septran.targets.opencl.text.printing import print_opencl
from septran.tile.nodes import TileProgram

HOST = HostProgram(
    driver="any OpenCL 1.2 (libOpenCL.so.1, or OPENCL_LIBRARY)", language="OpenCL C 1.2",
    text="cl", code="cl", source=Path(__file__).parent / "run/host.c",
    queue="a cl_command_queue that runs in order", memory="cl_mem of the context below",
    handles={"context": "The cl_context", "queue": "The cl_command_queue"},
)  # fmt: skip
"""The host program of exported kernels."""


@dataclass(frozen=True)
class OpenClIR(KernelIR):
    """Kernels as TensorIR, and as OpenCL C."""

    def printed(self, arch: str) -> str:
        """The kernels' text, which is the same for every device."""
        del arch
        shared = {launch.kernel: launch.shared_bytes for launch in self.launches}
        return print_opencl(self.module, shared, {n.kernel: n.block for n in self.launches})


@dataclass(frozen=True)
class OpenClTarget(KernelTarget):
    """Serves machines with ``backend: opencl``."""

    name: str = "opencl"

    def lower(self, program: TileProgram) -> KernelIR:
        """One PrimFunc for each kernel of `program`."""
        program = privatised(program)
        target = tvm.target.Target({"kind": "opencl"})
        vendor = GpuVendor(EMITTERS, OPENCL)
        return kernels_as(OpenClIR, program, lower_kernels(program, target, vendor=vendor))

    def build(self, ir: TensorIR, program: TileProgram) -> Any:
        """Keep the text: a driver compiles it at the first call."""
        from septran.targets.opencl.run.executable import build

        assert isinstance(ir, KernelIR)
        return build(ir.cuda, program)

    def load(self, folder: Path) -> Any:
        """Return what `save` of an executable wrote."""
        from septran.targets.opencl.run.executable import load

        return load(folder)

    def write_program(self, part: LibraryPart, executable: Any, folder: Path) -> Path:
        """Write OpenCL C, a host program and an example; the path of the header."""
        machine, sizes = executable.machine, executable.sizes
        return write_program(part, executable.program, machine, sizes, HOST, folder)

    def fingerprint(self) -> str:
        """TVM's version, and the code that prints."""
        # The CUDA target's files, too: most of the text is theirs.
        folder = Path(__file__).parent
        digest = code_digest(folder, folder.with_name("cuda"))
        return f"opencl tvm {tvm.__version__} {digest}"

    def missing(self) -> str | None:
        """Why kernels cannot run here; None where a driver is found."""
        from septran.targets.opencl.run.device import missing

        return missing()


TARGET = OpenClTarget()
