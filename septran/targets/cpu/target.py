"""The CPU target: TileProgram -> TensorIR -> LLVM -> machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from septran.targets.base import GuardedCode, TensorIR
from septran.targets.cpu.lowering import lower_program
from septran.targets.cpu.run.build import CpuExecutable, annotated, build, load
from septran.targets.cpu.run.guarded import compile_guarded, guarded_code
from septran.targets.cpu.run.isa import llvm_arch, native
from septran.targets.cpu.run.threads import set_threads, usable_cores, use_all_cores
from septran.tile.nodes import TileProgram


@dataclass(frozen=True)
class CpuTarget:
    """Serves machines with ``backend: cpu``."""

    name: str = "cpu"

    def lower(self, program: TileProgram) -> TensorIR:
        """One PrimFunc for `program`."""
        function = lower_program(program)
        return TensorIR(program.name, tvm.IRModule({program.name: function}))

    def build(self, ir: TensorIR, program: TileProgram) -> CpuExecutable:
        """Compile for the machine of `program`."""
        use_all_cores()
        return build(ir, llvm_arch(program.machine))

    def load(self, folder: Path) -> CpuExecutable:
        """What `CpuExecutable.save` wrote."""
        use_all_cores()
        return load(folder)

    def placed(
        self, executable: CpuExecutable, ir: TensorIR, program: TileProgram
    ) -> CpuExecutable:
        """With the comments of `ir` in its text."""
        return replace(executable, text=annotated(ir))

    def guarded(self, program: TileProgram) -> GuardedCode:
        """The kernel with its scratch buffers in rooms that its caller gives it."""
        return guarded_code(program)

    def compile_guarded(self, code: GuardedCode, give: int, take: int) -> Callable[..., Any]:
        """The function, whose rooms `give` gives."""
        return compile_guarded(code, give, take)

    def usable_cores(self) -> int:
        """Those that the system lets this process use."""
        return usable_cores()

    def set_threads(self, count: int) -> None:
        """Run parallel loops on `count` threads from now on."""
        set_threads(count)

    def marks(
        self, program: TileProgram, arguments: Sequence[Any], zeros: Callable[[int], Any]
    ) -> Any:
        """When each block of its parallel loops ran, on which thread."""
        from septran.targets.cpu.run.instrumentation import Recorded, record

        return Recorded(record(program, arguments))

    def fingerprint(self) -> str:
        """TVM's version, the processor for which ``native`` compiles, and its vectors."""
        taken = native()
        return f"cpu llvm tvm {tvm.__version__} {taken.arch} {8 * taken.unit.bytes}"

    def missing(self) -> str | None:
        """Nothing: wherever TVM is, there is a CPU."""
        return None


TARGET = CpuTarget()
