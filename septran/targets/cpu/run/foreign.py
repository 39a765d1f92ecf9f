"""Kernels for processors of another kind than this host's: compiled, and run by an emulator.

The kernel's object file is linked with a small program that reads its tensors from a file, puts
each of them before a page that nothing may touch, calls the kernel, and writes them back. QEMU
runs it, instruction by instruction: slow, and with numbers that owe this host nothing.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from septran.errors import TargetError
from septran.targets.base import Source, TensorIR
from septran.targets.cpu.run.build import FACTS, MissingFeatureError, annotated, built
from septran.targets.cpu.run.c_function import RUNTIME, CFunction, Parameter, c_function
from septran.targets.cpu.run.isa import foreign_system, unit_of
from septran.targets.cpu.simd import NEON
from septran.targets.tensor_memory import as_bytes
from septran.temporary import TemporaryFolder
from septran.tile.nodes import TileProgram

Array = np.ndarray[Any, Any]
OBJECT = "kernel.o"
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PACKAGES = "qemu-user, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"
"""Where Debian has the two."""
SECONDS = 600
"""Time after which an emulated call is given up."""
_FORMATS = {
    "float32": "f", "float64": "d", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "bool": "?",
}  # fmt: skip
_RUNNER = """\
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

{declaration};

/* Room that ends where nothing may be read or written. */
static void *placed(size_t size) {{
  size_t page = 4096, pages = (size + page - 1) / page;
  char *room = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return NULL;
  mprotect(room + page, pages * page, PROT_READ | PROT_WRITE);
  return room + (pages + 1) * page - size;
}}

int main(int count, char **words) {{
  uint64_t sizes[{tensors}];
  void *tensors[{tensors}];
  FILE *file = count == 2 ? fopen(words[1], "r+b") : NULL;
  if (!file || fread(sizes, sizeof sizes, 1, file) != 1) return 2;
  for (int n = 0; n < {tensors}; n++) {{
    tensors[n] = placed(sizes[n]);
    if (!tensors[n] || fread(tensors[n], 1, sizes[n], file) != sizes[n]) return 2;
  }}
{scalars}  if ({symbol}({arguments})) return 3;
  if (fseek(file, sizeof sizes, SEEK_SET)) return 2;
  for (int n = 0; n < {tensors}; n++)
    if (fwrite(tensors[n], 1, sizes[n], file) != sizes[n]) return 2;
  return fclose(file) ? 2 : 0;
}}
"""


class EmulatedRunError(TargetError):
    """An emulated kernel ended without a result."""

    code = "SEP515"


@dataclass(frozen=True)
class ForeignExecutable:
    """A kernel in the machine code of another processor."""

    text: str
    """The loops that LLVM compiled, with comments that say where they are from."""
    compiled: CFunction = field(repr=False)
    emulator: str = EMULATOR

    @property
    def name(self) -> str:
        """The kernel's name, that of its entry task."""
        return self.compiled.name

    @property
    def arch(self) -> str:
        """LLVM's name of the processor that the code is for."""
        return self.compiled.arch

    @property
    def source(self) -> Source:
        """The loops, the assembly, and its figures."""
        assembly = self.compiled.assembly
        found = figures(assembly, 8 * unit_of(self.arch).bytes)
        return Source(self.name, "llvm", self.text, {"assembly": assembly}, found)

    def missing(self) -> tuple[str, ...]:
        """Programs that running it needs and this host does not have."""
        return tuple(name for name in (self.emulator, COMPILER) if shutil.which(name) is None)

    def __call__(self, *arguments: Any) -> None:
        """Run emulated on DLPack tensors in the order of the parameters, then the scalars."""
        lacks = self.missing()
        if lacks:
            raise MissingFeatureError(
                f"{self.name} was compiled for {self.arch}, and this host has no "
                f"{' and no '.join(lacks)} to emulate it",
                hint=f"Debian's packages are {PACKAGES}; `septran export` writes it for its own "
                "processor",
            )
        count = len(self.compiled.tensors)
        tensors = [as_bytes(x) for x in arguments[:count]]
        sizes = _sizes(self.compiled.tensors, arguments)
        values = [*arguments[count:], *sizes.values()]
        scalars = b"".join(
            struct.pack(_FORMATS[p.dtype], value)
            for p, value in zip(self.compiled.parameters[count:], values, strict=True)
        )
        with TemporaryFolder("emulated") as folder:
            self._run(folder, tensors, scalars)

    def _run(self, folder: Path, tensors: Sequence[Array], scalars: bytes) -> None:
        data = folder / "data"
        lengths = struct.pack(f"<{len(tensors)}Q", *(t.size for t in tensors))
        data.write_bytes(lengths + b"".join(t.tobytes() for t in tensors) + scalars)
        processor = ["-cpu", emulated_processor(self.arch)]
        program = str(_linked(self.compiled).path / "kernel")
        done = subprocess.run(
            [EMULATOR, *processor, program, str(data)], capture_output=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-300:]
            raise EmulatedRunError(
                f"{self.name} for {self.arch} ended with {done.returncode} in {EMULATOR}: {said}",
                hint="this is a mistake of SepTran, not of your files; please report it",
            )
        results = data.read_bytes()
        start = len(lengths)
        for tensor in tensors:
            new = np.frombuffer(results, np.uint8, tensor.size, start)
            start += tensor.size
            if not np.array_equal(tensor, new):  # inputs may be memory that cannot be written
                tensor[:] = new

    def save(self, folder: Path) -> None:
        """The object file, and beside it what else is known."""
        (folder / OBJECT).write_bytes(self.compiled.code)
        facts = {
            "name": self.name,
            "arch": self.arch,
            "parameters": [asdict(p) for p in self.compiled.parameters],
            "text": self.text,
            "llvm": base64.b64encode(self.compiled.llvm).decode(),
        }
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def build_foreign(ir: TensorIR, program: TileProgram, arch: str) -> ForeignExecutable:
    """Machine code for `ir`, run by an emulator where there is one."""
    return ForeignExecutable(annotated(ir), built(ir, lambda: c_function(ir, program, arch)))


def load_foreign(folder: Path) -> ForeignExecutable:
    """Return what `ForeignExecutable.save` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    parameters = tuple(
        Parameter(
            p["name"],
            p["dtype"],
            None if p["shape"] is None else tuple(p["shape"]),
            tuple(p.get("extents", ())),
            p.get("example", 1),
        )
        for p in facts["parameters"]
    )
    code = (folder / OBJECT).read_bytes()
    llvm = base64.b64decode(facts.get("llvm", ""))
    function = CFunction(facts["name"], facts["arch"], parameters, code, llvm)
    if "assembly" in facts:  # which former versions saved
        vars(function)["assembly"] = facts["assembly"]
    return ForeignExecutable(facts["text"], function)


def emulated_processor(arch: str) -> str:
    """QEMU's name of a processor that has what `arch` has, with scalable vectors as long."""
    bits = 8 * unit_of(arch).bytes
    return f"max,sve{bits}=on,sve-default-vector-length={bits // 8}"


def _sizes(tensors: Sequence[Parameter], arguments: Sequence[Any]) -> dict[str, int]:
    """The extents that this call tells, in the order in which the function takes them."""
    found: dict[str, int] = {}
    for tensor, argument in zip(tensors, arguments, strict=False):
        for name, extent in zip(tensor.extents, argument.shape, strict=bool(tensor.extents)):
            if name.isidentifier():
                found.setdefault(name, int(extent))
    return found


@functools.lru_cache(maxsize=64)
def _linked(function: CFunction) -> TemporaryFolder:
    """A folder with the program that runs a kernel."""
    folder = TemporaryFolder("linked")
    (folder.path / OBJECT).write_bytes(function.code)
    (folder.path / "runner.c").write_text(_runner(function), encoding="utf-8")
    # Static, as QEMU would look for the other system's libraries in this one's folders.
    options = ["-static", "-O1", "-pthread", "-DSEPTRAN_POISON", "-o", "kernel"]
    files = [OBJECT, "runner.c", str(RUNTIME.resolve()), "-lm"]
    done = subprocess.run(
        [COMPILER, *options, *files], cwd=folder.path, capture_output=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise EmulatedRunError(
            f"{function.name} for {function.arch} could not be linked: {said}",
            hint=f"{COMPILER} needs a C library for that system: {PACKAGES}",
        )
    return folder


def _runner(function: CFunction) -> str:
    tensors = function.tensors
    scalars = function.parameters[len(tensors) :]
    read = "".join(
        f"  {p.c_type} scalar_{n};\n"
        f"  if (!fread(&scalar_{n}, sizeof scalar_{n}, 1, file)) return 2;\n"
        for n, p in enumerate(scalars)
    )
    words = [f"tensors[{n}]" for n in range(len(tensors))]
    words += [f"scalar_{n}" for n in range(len(scalars))]
    return _RUNNER.format(
        declaration=function.declaration(), symbol=function.symbol, tensors=len(tensors),
        scalars=read, arguments=", ".join(words),
    )  # fmt: skip


def figures(assembly: str, bits: int) -> dict[str, Any]:
    """Return counts of the machine code: instructions, FMAs, spills, vector registers."""
    code = [
        line.strip()
        for line in assembly.splitlines()
        if line.startswith("\t") and not line.strip().startswith(".")
    ]
    vectors = [line for line in code if re.search(r"\b(?:[qz]\d+\b|v\d+\.)", line)]
    scalable = any(re.search(r"\bz\d+\b", line) for line in vectors)
    return {
        "instructions": len(code),
        "fused multiply-adds": sum(line.startswith(("fmla", "fmad", "fmls")) for line in code),
        "vector spills": sum("[sp" in line for line in vectors),
        "vector bits": bits if scalable else 8 * NEON.bytes,
    }


def is_foreign(arch: str) -> bool:
    """Whether code for a processor cannot be this host's."""
    return foreign_system(arch) is not None
