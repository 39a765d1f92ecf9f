"""From TensorIR to machine code and back from disk: TVM's passes and LLVM."""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import tvm
from tvm.tirx import transform as tir

from septran.errors import TargetError
from septran.targets.base import Source, TensorIR
from septran.targets.cpu.run.isa import lacking, llvm_target
from septran.targets.cpu.run.permission import ask_for_tiles, uses_tiles
from septran.targets.cpu.run.threads import share_threads
from septran.temporary import TemporaryFolder, opened_apart

T = TypeVar("T")
LIBRARY, FACTS = "kernel.so", "kernel.json"


# Not TVM's own pipeline: its StmtSimplify takes floats for real numbers ((x + c) - c is x,
# x == x is true), which breaks NaN and rounding, and LowerIntrin takes seconds over integer
# vectors. The emitters write what LLVM has; it does what else is left out, too.
_LOWERED = (
    tir.LowerTIRxOpaque(),
    tir.UnrollLoop(),
    tir.VerifyMemory(),
    tir.BF16ComputeLegalize(),
)
PASSES = tvm.transform.Sequential(
    [
        *_LOWERED,
        tir.AnnotateEntryFunc(),
        tir.SplitHostDevice(),
        tir.MakePackedAPI(),
        tir.BF16StorageLegalize(),
        tir.LowerTVMBuiltin(),
    ]
)
C_PASSES = tvm.transform.Sequential(
    [*_LOWERED, tir.SplitHostDevice(), tir.BF16StorageLegalize(), tir.LowerTVMBuiltin()]
)
"""Of functions that C calls with pointers, not TVM with tensors."""


class BuildError(TargetError):
    """LLVM or TVM refused the generated code: a mistake of SepTran itself."""

    code = "SEP511"


class MissingFeatureError(TargetError):
    """The kernel was compiled for instructions that this host does not have."""

    code = "SEP512"


@dataclass(frozen=True)
class CpuExecutable:
    """A function in machine code, which LLVM makes once, when it is linked or called."""

    name: str
    arch: str
    text: str
    """The loops that LLVM compiled, with comments that say where they are from."""
    llvm: bytes = field(repr=False)
    """LLVM's own text of the code, optimised, and compressed."""
    module: Any
    """The `tvm.runtime.Module` of that; None where this was loaded from a library."""
    library: bytes | None = field(default=None, repr=False)
    """The shared library, once it is linked."""
    functions: bytes = field(default=b"", repr=False)
    """The object file of functions of the user's, with which it is linked; empty without any."""
    checks_arguments: bool = True
    """TVM's function refuses other shapes, dtypes, layouts and devices before it starts."""

    def __call__(self, *arguments: Any) -> None:
        """Run on DLPack tensors in the order of the parameters, then the scalars."""
        share_threads(arguments)
        self.function(*arguments)

    @cached_property
    def function(self) -> Any:
        """The compiled function; one that refuses where this host lacks its instructions."""
        missing = lacking(self.arch)
        if missing:
            return partial(_refuse, self.name, self.arch, missing)
        if uses_tiles(self.text):
            ask_for_tiles(self.name)
        return self.module[self.name] if self.library is None else _opened(self.library)[self.name]

    @cached_property
    def source(self) -> Source:
        """The loops, the assembly, and its figures."""
        return Source(
            self.name, "llvm", self.text, {"assembly": self.assembly}, figures(self.assembly)
        )

    @cached_property
    def assembly(self) -> str:
        """The machine code as text, which LLVM writes anew."""
        return assembly_of(self.llvm)

    def save(self, folder: Path) -> None:
        """A shared library, and beside it what its text and name were."""
        if self.library is None:
            self._link(folder)
        else:
            (folder / LIBRARY).write_bytes(self.library)
        llvm = base64.b64encode(self.llvm).decode()
        facts = {"name": self.name, "arch": self.arch, "text": self.text, "llvm": llvm}
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")

    def _link(self, folder: Path) -> None:
        from tvm.runtime import Executable

        with tempfile.TemporaryDirectory(dir=folder) as work:
            _reserve(Path(work) / "room", len(zlib.decompress(self.llvm)))
            more: dict[str, Any] = {}
            if self.functions:
                (Path(work) / "functions.o").write_bytes(self.functions)
                more = {"options": ["-shared", "-fPIC", str(Path(work) / "functions.o")]}
            path = str(folder / LIBRARY)
            Executable(self.module).export_library(path, workspace_dir=work, **more)
        # What is run then, too: LLVM would take as long once more to make the same in memory.
        object.__setattr__(self, "library", (folder / LIBRARY).read_bytes())


def _refuse(name: str, arch: str, missing: Sequence[str], *_: Any) -> None:
    raise MissingFeatureError(
        f"{name} was compiled for {arch}, and this host has no {', '.join(missing)}",
        hint="map it to a machine whose arch this host has, such as native",
    )


def _reserve(file: Path, size: int) -> None:
    """Fail where a disk has no room for `size` bytes: LLVM ends the process there.

    LLVM's text is several times as long as the code.
    """
    with file.open("wb") as output:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(output.fileno(), 0, size)
        else:
            output.write(bytes(size))
    file.unlink()


def compile_module(module: Any, arch: str, passes: Any = PASSES) -> Any:
    """A `tvm.runtime.Module` with the code of every function of `module`."""
    target = llvm_target(arch)
    bound = tir.BindTarget(target.with_host(target))(module)
    return tvm.get_global_func("target.build.llvm")(passes(bound), target)


def llvm_of(module: Any) -> bytes:
    """LLVM's own text of a compiled module, compressed."""
    return zlib.compress(str(module.inspect_source("ll")).encode(), level=1)


def assembly_of(llvm: bytes) -> str:
    """The machine code as text of what `llvm_of` gave."""
    with TemporaryFolder("llvm") as folder:
        file = folder / "kernel.ll"
        file.write_bytes(zlib.decompress(llvm))
        return str(tvm.runtime.load_module(str(file)).inspect_source("asm"))


def build(ir: TensorIR, arch: str, functions: bytes = b"") -> CpuExecutable:
    """Machine code for `ir`, ready to run where the host has the instructions.

    `functions` is the object file of functions that it calls; empty where it calls none.
    """
    module = built(ir, lambda: compile_module(ir.module, arch))
    text = annotated(ir)
    made = CpuExecutable(ir.name, arch, text, llvm_of(module), module, functions=functions)
    if functions:  # LLVM alone would not find them in memory
        with TemporaryFolder("linked") as folder:
            made.save(folder)
    return made


def built(ir: TensorIR, compiled: Callable[[], T]) -> T:
    """Return what `compiled` gives; raises BuildError where TVM or LLVM refuse."""
    try:
        return compiled()
    except TargetError:  # of functions of the user's, which says what is wrong with them
        raise
    except Exception as error:
        raise BuildError(
            f"no machine code for {ir.name}: {_last_line(str(error))}",
            hint="this is a mistake of SepTran, not of your files; please report it",
        ) from error


def load(folder: Path) -> CpuExecutable:
    """Return what `CpuExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    assembly = facts.pop("parts", {}).get("assembly")  # which former versions saved
    loaded = CpuExecutable(
        facts["name"], facts["arch"], facts["text"], base64.b64decode(facts.get("llvm", "")),
        None, (folder / LIBRARY).read_bytes(),
    )  # fmt: skip
    if assembly is not None:
        vars(loaded)["assembly"] = assembly
    _ = loaded.function  # which is opened now: a library of another system cannot be
    return loaded


def annotated(ir: TensorIR) -> str:
    """The loops that LLVM compiles, each part headed by a comment that says where it is from."""
    lines = []
    for line in ir.text.splitlines():
        note = re.match(r"( *)with T\.attr\(\{\"origin\": \"(.*)\"\}\):$", line)
        lines.append(f"{note[1]}# {note[2]}" if note else line)
    return "\n".join(lines)


def figures(assembly: str) -> dict[str, Any]:
    """Return what the machine code is made of: instructions, FMAs, spills, registers."""
    code = [
        line.strip()
        for line in assembly.splitlines()
        if line.startswith("\t") and not line.strip().startswith(".")
    ]
    vectors = [line for line in code if re.search(r"%[xyz]mm\d", line)]
    widths = {width for line in vectors for width in re.findall(r"%([xyz])mm", line)}
    widest = max(widths, default="x", key="xyz".index)
    return {
        "instructions": len(code),
        "fused multiply-adds": sum("vfmadd" in line for line in code),
        "vector spills": sum("(%rsp)" in line for line in vectors),
        "vector bits": {"x": 128, "y": 256, "z": 512}[widest],
    }


def _opened(library: bytes) -> Any:
    return opened_apart(library, lambda copy: tvm.runtime.load_module(str(copy)))


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "Error" in line or "Check failed" in line]
    return (lines or text.splitlines() or [""])[-1].strip()[:300]
