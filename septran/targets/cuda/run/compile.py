"""CUDA text -> cubin and PTX, and what the compiler said of it as data."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.errors import TargetError
from septran.targets.cuda.run.toolchain import Compiler, Nvcc, Nvrtc, compiler, disassemblers

SECONDS = 600
STANDARD = "-std=c++17"
UNUSED = "177,550"
"""Warnings about variables that nothing reads: TVM's common subexpressions leave them, and so
does a temporary of the logic that is written and never read."""


class RefusedError(TargetError):
    """NVRTC or nvcc refused generated CUDA text, or warned of it: a mistake of SepTran."""

    code = "SEP571"


@dataclass(frozen=True)
class KernelFigures:
    """The resources of one kernel, as ptxas reports them."""

    kernel: str
    registers: int
    """Registers of a thread before any `setmaxnreg`."""
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    barriers: int
    """Named barriers that are reserved."""


@dataclass(frozen=True)
class Advisory:
    """A remark of ptxas that costs speed, such as C7510: wgmma are serialised."""

    code: str
    text: str


@dataclass(frozen=True)
class Compiled:
    """Machine code of one CUDA text."""

    arch: str
    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)
    log: str = field(repr=False)
    compiler: str
    """The compiler's name with its version."""
    seconds: float

    @property
    def figures(self) -> tuple[KernelFigures, ...]:
        """One for each kernel, in the order of the text."""
        return read_figures(self.log)

    @property
    def advisories(self) -> tuple[Advisory, ...]:
        """The performance advisories of ptxas."""
        found = re.findall(r"\((C7\d{3})\) (.*)", self.log)
        return tuple(dict.fromkeys(Advisory(code, text.strip()) for code, text in found))


def compile_text(text: str, arch: str, name: str = "kernel") -> Compiled:
    """Compile, at most once in a process; raises RefusedError, NoCompilerError."""
    return _compile(compiler(), text, arch, name)


@functools.lru_cache(maxsize=64)
def _compile(tool: Compiler, text: str, arch: str, name: str) -> Compiled:
    start = time.perf_counter()
    if isinstance(tool, Nvrtc):
        cubin, ptx, log = _by_nvrtc(tool, text, arch, name)
    else:
        cubin, ptx, log = _by_nvcc(tool, text, arch, name)
    # nvcc and NVRTC write `warning #177-D:`, ptxas writes `warning :`.
    warned = [line for line in log.splitlines() if re.search(r"warning( #\d+(-D)?)?\s*:", line)]
    if warned:
        raise _refused(tool, name, "\n".join(warned))
    return Compiled(arch, cubin, ptx, log, str(tool), time.perf_counter() - start)


def _refused(tool: Compiler, name: str, said: str) -> RefusedError:
    return RefusedError(
        f"{tool} refused the CUDA text of {name}:\n{said.strip()[:2000]}",
        hint="this is a mistake of SepTran, not of your files; please report it",
    )


def _by_nvrtc(tool: Nvrtc, text: str, arch: str, name: str) -> tuple[bytes, str, str]:
    library = tool.library
    program = ctypes.c_void_p()
    title = f"{name}.cu".encode()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), title, 0, None, None)
    try:
        # `read_figures` lives by -v: without it ptxas reports neither registers nor spills.
        words = [f"-arch={arch}", STANDARD, "--ptxas-options=-v", f"-diag-suppress={UNUSED}"]
        options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        status = library.nvrtcCompileProgram(program, len(words), options)
        log = _text_of(library, program, "ProgramLog")
        if status:
            library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise _refused(tool, name, log or library.nvrtcGetErrorString(status).decode())
        cubin = _bytes_of(library, program, "CUBIN")
        return cubin, _text_of(library, program, "PTX"), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes_of(library: Any, program: Any, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def _text_of(library: Any, program: Any, what: str) -> str:
    return _bytes_of(library, program, what).rstrip(b"\0").decode(errors="replace")


def _by_nvcc(tool: Nvcc, text: str, arch: str, name: str) -> tuple[bytes, str, str]:
    with tempfile.TemporaryDirectory(prefix="septran-nvcc-") as place:
        folder = Path(place)
        (folder / "kernel.cu").write_text(text, encoding="utf-8")
        log = run_nvcc(
            tool,
            ("-cubin", f"-arch={arch}", STANDARD, "-Xptxas=-v", "-diag-suppress", UNUSED,
             "--keep", "--keep-dir", place, "-o", str(folder / "kernel.cubin"),
             str(folder / "kernel.cu")),
            name,
        )  # fmt: skip
        return (folder / "kernel.cubin").read_bytes(), (folder / "kernel.ptx").read_text(), log


def run_nvcc(tool: Nvcc, options: Sequence[str], name: str) -> str:
    """Return what nvcc says; raises RefusedError where it fails."""
    try:
        done = subprocess.run(
            [str(tool.path), *options], capture_output=True, text=True, check=False,
            timeout=SECONDS, stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"{tool} did not compile {name}: {error}") from error
    if done.returncode:
        raise _refused(tool, name, done.stderr or done.stdout)
    return done.stdout + done.stderr


def read_figures(log: str) -> tuple[KernelFigures, ...]:
    """The kernels that ``ptxas -v`` reports."""
    found = []
    for part in re.split(r"Compiling entry function ", log)[1:]:
        kernel = re.match(r"'([^']+)'", part)
        if kernel is None:
            continue
        found.append(
            KernelFigures(
                kernel[1],
                _number(r"Used (\d+) registers", part),
                _number(r"(\d+) bytes spill stores", part),
                _number(r"(\d+) bytes spill loads", part),
                _number(r"(\d+) bytes stack frame", part),
                _number(r"(\d+) bytes smem", part),
                _number(r"used (\d+) barriers", part),
            )
        )
    return tuple(found)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@functools.lru_cache(maxsize=64)
def disassemble(cubin: bytes) -> str | None:
    """SASS, the machine code as text; None where no disassembler can read it."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        texts = (_disassembled_by(tool, file.name) for tool in disassemblers())
        return next(filter(None, texts), None)


def _disassembled_by(tool: Path, file: str) -> str | None:
    """Return what one disassembler says; None where it is older than the code, or broken."""
    option = "-c" if tool.name == "nvdisasm" else "-sass"
    try:
        done = subprocess.run(
            [str(tool), option, file], capture_output=True, text=True, check=False,
            timeout=SECONDS, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
