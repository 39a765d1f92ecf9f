"""Find what compiles CUDA text: NVRTC, nvcc, and a disassembler. No GPU is needed for any.

NVRTC is a library that compiles within the process; it comes with torch for CUDA, with
PyPI's ``nvidia-cuda-nvrtc`` and with NVIDIA's CUDA toolkit. nvcc is slower (it starts a
host compiler, too) and goes second.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.errors import TargetError

VARIABLE = "SEPTRAN_CUDA_COMPILER"
"""``nvrtc``, ``nvcc``, ``none``, or the path of an nvcc or of a libnvrtc."""
INSTALL = "pip install nvidia-cuda-nvrtc"
INSTALL_DISASSEMBLER = "pip install nvidia-cuda-nvdisasm"


class NoCompilerError(TargetError):
    """Nothing here compiles CUDA: there is neither NVRTC nor nvcc."""

    code = "SEP570"


@dataclass(frozen=True)
class Nvrtc:
    """NVIDIA's compiler library."""

    path: Path
    version: tuple[int, int]
    library: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    @staticmethod
    def open(path: Path) -> Nvrtc:
        """Load a libnvrtc; raises OSError where it cannot be."""
        for builtins in sorted(path.parent.glob("libnvrtc-builtins.so*")):
            # NVRTC opens them by name: found only where they are loaded already.
            if ".alt." not in builtins.name:
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(path))
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return Nvrtc(path, (major.value, minor.value), library)


@dataclass(frozen=True)
class Nvcc:
    """NVIDIA's compiler driver."""

    path: Path
    version: tuple[int, int]

    def __str__(self) -> str:
        return f"nvcc {self.version[0]}.{self.version[1]}"


Compiler = Nvrtc | Nvcc


def compiler() -> Compiler:
    """Return what compiles CUDA here; raises NoCompilerError."""
    found = available()
    if found is None:
        wish = os.environ.get(VARIABLE)
        asked = f", as {VARIABLE} asks for {wish!r}" if wish else ""
        raise NoCompilerError(
            f"there is no compiler for CUDA: neither NVRTC nor nvcc is found{asked}",
            hint=f"{INSTALL} (or a CUDA toolkit of 12.0 or later); CUDA text, tile programs and "
            "emulated runs (--emulate) need none",
        )
    return found


def is_asked_for(variable: str = VARIABLE) -> bool:
    """Whether the user has named a compiler or a device, without which something is wrong."""
    return os.environ.get(variable, "none") not in ("", "none")


def available() -> Compiler | None:
    """Return the compiler of CUDA on this host: NVRTC, else nvcc, else None."""
    return _chosen(os.environ.get(VARIABLE), os.environ.get("PATH"), tuple(sys.path))


@functools.cache
def _chosen(wish: str | None, path: str | None, places: tuple[str, ...]) -> Compiler | None:
    del path, places  # part of the key: what is found depends on them
    if wish == "none":
        return None
    if wish and wish not in ("nvrtc", "nvcc"):
        return _named(Path(wish))
    if wish == "nvcc":
        return nvcc()
    return nvrtc() or (nvcc() if wish is None else None)


def _named(path: Path) -> Compiler | None:
    if not path.is_file():
        return None
    return Nvrtc.open(path) if ".so" in path.name else _nvcc_at(path)


def nvrtc() -> Nvrtc | None:
    """The newest NVRTC that can be loaded, those of Python packages before the toolkit's."""
    for folder in _library_folders():
        for path in sorted(folder.glob("libnvrtc.so.*"), key=_release, reverse=True):
            if ".alt." in path.name:
                continue
            try:
                return Nvrtc.open(path)
            except (OSError, AttributeError):
                continue
    name = ctypes.util.find_library("nvrtc")
    try:
        return Nvrtc.open(Path(name)) if name else None
    except (OSError, AttributeError):
        return None


def nvcc() -> Nvcc | None:
    """Nvcc of the PATH, of a Python package, or of the toolkit."""
    found = shutil.which("nvcc")
    folders = [*_package_folders("bin"), *(root / "bin" for root in _toolkits())]
    for path in [Path(found)] if found else []:
        if (known := _nvcc_at(path)) is not None:
            return known
    return next(filter(None, (_nvcc_at(folder / "nvcc") for folder in folders)), None)


def disassemblers() -> tuple[Path, ...]:
    """Return what shows machine code, nvdisasm before cuobjdump: PATH, Python packages, toolkits.

    All of them, as one that is older than the compiler cannot read what it made.
    """
    return _disassemblers(os.environ.get("PATH"), tuple(sys.path))


@functools.cache
def _disassemblers(path: str | None, places: tuple[str, ...]) -> tuple[Path, ...]:
    del path, places
    folders = [
        *_package_folders("bin"), *_triton_folders(), *(root / "bin" for root in _toolkits()),
    ]  # fmt: skip
    found = (
        Path(program)
        for name in ("nvdisasm", "cuobjdump")
        for program in (shutil.which(name), *(folder / name for folder in folders))
        if program and os.access(program, os.X_OK) and Path(program).is_file()
    )
    return tuple(dict.fromkeys(found))


def _triton_folders() -> Iterator[Path]:
    """Yield where Triton, which comes with torch for CUDA, has its copies of NVIDIA's programs."""
    for place in dict.fromkeys(sys.path):
        yield Path(place or ".") / "triton" / "backends" / "nvidia" / "bin"


@functools.cache
def _nvcc_at(path: Path) -> Nvcc | None:
    if not path.is_file() or not os.access(path, os.X_OK):
        return None
    try:
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"release (\d+)\.(\d+)", output)
    return Nvcc(path, (int(found[1]), int(found[2]))) if found else None


def _library_folders() -> Iterator[Path]:
    yield from _package_folders("lib")
    for root in _toolkits():
        yield from (root / "lib64", root / "targets" / "x86_64-linux" / "lib")


def _package_folders(part: str) -> Iterator[Path]:
    """Folders of NVIDIA's Python packages: ``nvidia/cu13/lib``, ``nvidia/cuda_nvrtc/lib``."""
    for place in dict.fromkeys(sys.path):
        root = Path(place or ".") / "nvidia"
        if root.is_dir():
            yield from sorted(root.glob(f"*/{part}"), key=_release, reverse=True)


def _toolkits() -> Iterable[Path]:
    named = [Path(p) for p in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if p]
    default = Path("/usr/local/cuda")
    return [*named, default, *sorted(default.parent.glob("cuda-*"), key=_release, reverse=True)]


def _release(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.name))
