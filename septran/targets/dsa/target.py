"""The DSA target: TileProgram -> TensorIR with `dsa.*` externs -> vendor C -> a simulated run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import tvm

from septran.simulator import commands
from septran.targets.base import LibraryPart, TensorIR
from septran.targets.dsa.code.build import DsaExecutable, build, load, placed
from septran.targets.dsa.code.toolchain import compiler
from septran.targets.dsa.code.trust import remarks, untrusted
from septran.targets.dsa.code.vendor import Vendor
from septran.targets.dsa.lowering import lower_program
from septran.tile.nodes import Remark, TileProgram


@dataclass(frozen=True)
class ControlProgram(TensorIR):
    """The TensorIR of a DSA, with what is to be said of the vendor's header."""

    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class DsaTarget:
    """Serves machines with ``backend: dsa``."""

    name: str = "dsa"

    def lower(self, program: TileProgram) -> TensorIR:
        """One PrimFunc: a core's control program, and which vendor's header it is for."""
        Vendor(program.machine).check()
        function = lower_program(program)
        header = Vendor(program.machine).header_digest
        if header is not None:  # so that a kernel is built anew when the header changes
            stated = f"{header}, not trusted" if untrusted(program.machine) else header
            function = function.with_attr("vendor_header", stated)
        module = tvm.IRModule({program.name: function})
        return ControlProgram(program.name, module, remarks(program.machine))

    def build(self, ir: TensorIR, program: TileProgram) -> DsaExecutable:
        """Vendor C, and what records its commands for the simulator."""
        return build(ir, program)

    def load(self, folder: Path) -> DsaExecutable:
        """Return what `DsaExecutable.save` wrote."""
        return load(folder)

    def placed(
        self, executable: DsaExecutable, ir: TensorIR, program: TileProgram
    ) -> DsaExecutable:
        """The source with the comments of `ir` in its C and in the origins of its lines."""
        return placed(executable, ir, program)

    def write_program(self, part: LibraryPart, executable: DsaExecutable, folder: Path) -> Path:
        """The C for the vendor's library, with its header and build files."""
        from septran.targets.dsa.code.export import export_program

        return export_program(part, executable, folder)

    def fingerprint(self) -> str:
        """The code that generates, and the compiler."""
        folder = Path(__file__).parent / "code"  # on which an executable depends beside its IR
        digest = hashlib.sha256()
        ascend = folder.with_name("ascend")
        files = [*folder.glob("*.py"), *ascend.glob("*.py"), *ascend.rglob("*.h")]
        for file in sorted(files):
            digest.update(file.read_bytes())
        digest.update(Path(commands.__file__).read_bytes())
        return f"dsa tvm {tvm.__version__} cc {compiler()} {digest.hexdigest()[:16]}"

    def missing(self) -> str | None:
        """Nothing: the simulator runs everywhere."""
        return None


TARGET = DsaTarget()
