"""The CUDA target: TileProgram -> TensorIR -> CUDA C++ -> cubin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm

from septran.dtypes import itemsize
from septran.emulator.launch import CudaProgram, KernelLaunch, ScalarArgument
from septran.targets.base import TensorIR
from septran.targets.code_digest import code_digest
from septran.targets.cuda.fragment.fragments import Holding
from septran.targets.cuda.kernels import LoweredNest, lower_kernels
from septran.targets.cuda.private_memory import privatised
from septran.targets.cuda.run.instrumentation import Marks
from septran.targets.cuda.text.printing import print_cuda, target_of
from septran.tile.nodes import Remark, TileProgram


@dataclass(frozen=True)
class KernelIR(TensorIR):
    """Kernels as TensorIR, one PrimFunc each, with how they are launched."""

    launches: tuple[KernelLaunch, ...] = ()
    program: TileProgram | None = None
    remarks: tuple[Remark, ...] = ()
    """What the code generator decided, or could not do, and why."""
    holdings: tuple[Holding, ...] = ()
    """How REGISTER buffers are spread over threads."""

    @cached_property
    def cuda(self) -> CudaProgram:
        """The CUDA text and its launches."""
        assert self.program is not None
        arch = self.program.machine.arch or "sm_80"
        # A temporary that no kernel takes gets no memory.
        used = {a.buffer for n in self.launches for a in n.arguments if hasattr(a, "buffer")}
        scratch = tuple(
            (b.name, math.prod(b.shape) * itemsize(b.dtype) * b.stages)
            for b in self.program.buffers
            if b.memory == "GLOBAL" and b.name not in self.program.params and b.name in used
        )
        return CudaProgram(
            self.printed(arch),
            self.launches,
            scratch,
            self.program.params,
            (*((s.name, s.dtype) for s in self.program.scalars), *self._sizes),
            arch,
        )

    def printed(self, arch: str) -> str:
        """The kernels' text for an architecture."""
        return print_cuda(self.module, target_of(arch))

    @property
    def _sizes(self) -> Iterator[tuple[str, str]]:
        """The extents that calls tell, with the type in which kernels take them."""
        assert self.program is not None
        kinds = {
            a.name: a.dtype
            for launch in self.launches
            for a in launch.arguments
            if isinstance(a, ScalarArgument)
        }
        return ((size.name, kinds[size.name]) for size in self.program.sizes())


def lower_to_kernels(program: TileProgram, notes: list[Marks] | None = None) -> KernelIR:
    """The kernels of `program`; with `notes` they note what they do when (`instrumentation`)."""
    program = privatised(program)
    kernels = lower_kernels(program, target_of(program.machine.arch or "sm_80"), notes)
    return kernels_as(KernelIR, program, kernels)


def kernels_as(
    kind: type[KernelIR], program: TileProgram, kernels: Sequence[LoweredNest]
) -> KernelIR:
    """Lowered nests as the stage that shows and prints them."""
    module = tvm.IRModule({k.launch.kernel: k.function for k in kernels})
    remarks = tuple(dict.fromkeys(r for k in kernels for r in k.remarks))
    holdings = tuple(dict.fromkeys(h for k in kernels for h in k.holdings))
    launches = tuple(k.launch for k in kernels)
    return kind(program.name, module, launches, program, remarks, holdings)


class KernelTarget:
    """What the targets have in common whose kernels the CUDA code generator writes."""

    def placed(self, executable: Any, ir: TensorIR, program: TileProgram) -> Any:
        """With the comments of `ir` in its text."""
        assert isinstance(ir, KernelIR)
        return replace(executable, program=ir.cuda, machine=program.machine)


@dataclass(frozen=True)
class CudaTarget(KernelTarget):
    """Serves machines with ``backend: cuda``."""

    name: str = "cuda"

    def lower(self, program: TileProgram) -> KernelIR:
        """One PrimFunc for each kernel of `program`."""
        return lower_to_kernels(program)

    def build(self, ir: TensorIR, program: TileProgram) -> Any:
        """Compile for the machine of `program`, where a compiler is found."""
        from septran.targets.cuda.run.executable import build

        assert isinstance(ir, KernelIR)
        return build(ir.cuda, program)

    def emulated(self, ir: TensorIR, program: TileProgram) -> Any:
        """Return what runs the same CUDA text on the CPU."""
        from septran.targets.cuda.run.emulated import build_emulated

        assert isinstance(ir, KernelIR)
        return build_emulated(ir.cuda, program)

    def load(self, folder: Path) -> Any:
        """Return what `save` of an executable wrote."""
        from septran.targets.cuda.run.executable import load

        return load(folder)

    def marks(
        self, program: TileProgram, arguments: Sequence[Any], zeros: Callable[[int], Any]
    ) -> Any:
        """When each warpgroup or block did what."""
        from septran.targets.cuda.run import instrumented_run as marked_run

        return marked_run.RecordedRun(marked_run.record(program, arguments, zeros))

    def fingerprint(self) -> str:
        """TVM's version, the compiler's, and the code that prints, compiles and launches."""
        from septran.targets.cuda.run.toolchain import available

        return f"cuda tvm {tvm.__version__} {available()} {code_digest(Path(__file__).parent)}"

    def missing(self) -> str | None:
        """Why kernels cannot run here; None when they can."""
        from septran.targets.cuda.run.executable import missing

        return missing()


TARGET = CudaTarget()
