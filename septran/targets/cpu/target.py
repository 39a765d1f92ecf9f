"""The CPU target: TileProgram -> TensorIR -> LLVM -> machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm

from septran.targets.base import GuardedCode, LibraryPart, TensorIR, WrittenLibrary
from septran.targets.cpu.extern.compiler import functions_of
from septran.targets.cpu.lowering import lower_program
from septran.targets.cpu.run.build import (
    CpuExecutable,
    MissingFeatureError,
    annotated,
    build,
    load,
)
from septran.targets.cpu.run.foreign import (
    OBJECT,
    ForeignExecutable,
    build_foreign,
    is_foreign,
    load_foreign,
)
from septran.targets.cpu.run.guarded import compile_guarded, guarded_code
from septran.targets.cpu.run.isa import llvm_arch, native
from septran.targets.cpu.run.threads import set_threads, usable_cores, use_all_cores
from septran.tile.nodes import TileProgram

if TYPE_CHECKING:
    from septran.targets.cpu.library.opened import LibraryExecutable

Code = CpuExecutable | ForeignExecutable


@dataclass(frozen=True)
class CpuTarget:
    """Serves machines with ``backend: cpu``."""

    name: str = "cpu"

    def lower(self, program: TileProgram) -> TensorIR:
        """One PrimFunc for `program`."""
        function = lower_program(program)
        return TensorIR(program.name, tvm.IRModule({program.name: function}))

    def build(self, ir: TensorIR, program: TileProgram) -> Code:
        """Compile for the machine of `program`."""
        arch = llvm_arch(program.machine)
        if is_foreign(arch):
            return build_foreign(ir, program, arch)
        use_all_cores()
        return build(ir, arch, functions_of(program))

    def load(self, folder: Path) -> Code:
        """Return what an executable's `save` wrote."""
        if (folder / OBJECT).exists():
            return load_foreign(folder)
        use_all_cores()
        return load(folder)

    def placed(self, executable: Code, ir: TensorIR, program: TileProgram) -> Code:
        """With the comments of `ir` in its text."""
        return replace(executable, text=annotated(ir))

    def write_library(
        self, parts: Sequence[LibraryPart], folder: Path, name: str | None
    ) -> WrittenLibrary:
        """The folder of a C library with these kernels."""
        from septran.targets.cpu.library.write import write_library

        return write_library(parts, folder, name)

    def open_library(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, LibraryExecutable]:
        """The kernels of such a folder, as a C compiler linked them."""
        from septran.targets.cpu.library.opened import open_library

        return open_library(folder, facts)

    def guarded(self, program: TileProgram) -> GuardedCode:
        """The kernel with its scratch buffers in rooms that its caller gives it."""
        _require_own(program, "run between guard pages")
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

        _require_own(program, "recorded part by part")
        return Recorded(record(program, arguments))

    def fingerprint(self) -> str:
        """TVM's version, the processor for which ``native`` compiles, and its vectors."""
        taken = native()
        return f"cpu llvm tvm {tvm.__version__} {taken.arch} {8 * taken.unit.bytes}"

    def missing(self) -> str | None:
        """Nothing: wherever TVM is, there is a CPU."""
        return None


def _require_own(program: TileProgram, what: str) -> None:
    """Refuse what is only done with code that this host's own processor runs."""
    arch = llvm_arch(program.machine)
    if is_foreign(arch):
        raise MissingFeatureError(
            f"{program.name} was compiled for {arch}, and only code for this host's kind of "
            f"processor can be {what}",
            hint="an emulated call has its tensors before guard pages in any case"
            if "guard" in what
            else "emulated code has no times",
        )


TARGET = CpuTarget()
