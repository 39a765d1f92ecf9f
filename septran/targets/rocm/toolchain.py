"""Find what compiles HIP text for AMD's GPUs: clang with lld, or hipRTC. It needs no GPU."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from septran.errors import TargetError

VARIABLE = "SEPTRAN_HIP_COMPILER"
"""``none``, ``hiprtc``, or the path of a clang++ that knows AMD's GPUs."""
INSTALL = "apt-get install clang-19 lld-19 llvm-19 rocm-device-libs"
OLDEST = 17
"""The first release with all builtins of gfx942 that the text has."""
LIBRARIES = (
    "/opt/rocm/amdgcn/bitcode", "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
)  # fmt: skip
"""Where AMD's device libraries are, which have the functions of mathematics."""
CONTROLS = (
    "ocml", "oclc_daz_opt_off", "oclc_finite_only_off", "oclc_unsafe_math_off",
    "oclc_correctly_rounded_sqrt_on", "oclc_wavefrontsize64_on", "oclc_abi_version_500",
)  # fmt: skip
RUNTIME_VARIABLE = "SEPTRAN_LIBHIPRTC"
"""The path of a hipRTC."""
RUNTIMES = (
    "libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5",
    "/opt/rocm/lib/libhiprtc.so",
)  # fmt: skip
"""Where hipRTC is; until ROCm 5.2 it was in the library of HIP itself."""
SECONDS = 600


class NoHipCompilerError(TargetError):
    """Nothing here compiles HIP for AMD's GPUs."""

    code = "SEP578"


@dataclass(frozen=True)
class HipCompiler:
    """A clang that makes code objects."""

    path: Path
    release: int

    def __str__(self) -> str:
        return f"clang {self.release}, {self.path}"

    def tool(self, name: str) -> Path | None:
        """A tool of the same release, such as llvm-objdump."""
        beside = [
            self.path.resolve().with_name(name),
            self.path.with_name(f"{name}-{self.release}"),
        ]
        found = shutil.which(f"{name}-{self.release}") or shutil.which(name)
        return next((p for p in beside if p.is_file()), Path(found) if found else None)


@dataclass(frozen=True)
class HipRtc:
    """The compiler library of a ROCm installation, which gives code objects alone."""

    library: str

    def __str__(self) -> str:
        return f"hipRTC, {self.library}"


def compiler() -> HipCompiler | HipRtc:
    """Return what compiles HIP here; raises NoHipCompilerError."""
    found = available()
    if found is None:
        wish = os.environ.get(VARIABLE)
        asked = f", as {VARIABLE} asks for {wish!r}" if wish else ""
        raise NoHipCompilerError(
            "there is no compiler for HIP: neither a clang from "
            f"{OLDEST} on with lld nor hipRTC is found{asked}",
            hint=f"{INSTALL}; HIP text, tile programs and emulated runs (--emulate) need none",
        )
    return found


def available() -> HipCompiler | HipRtc | None:
    """Return the compiler of HIP on this host, or None; clang before hipRTC."""
    wish = os.environ.get(VARIABLE)
    found = None if wish == "hiprtc" else _chosen(wish, os.environ.get("PATH"))
    if found or wish not in (None, "hiprtc"):
        return found
    return _runtime(os.environ.get(RUNTIME_VARIABLE))


@functools.cache
def _runtime(wish: str | None) -> HipRtc | None:
    for name in [wish] if wish else RUNTIMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "hiprtcCompileProgram"):
            return HipRtc(name)
    return None


@functools.cache
def _chosen(wish: str | None, path: str | None) -> HipCompiler | None:
    del path  # part of the key: what is found depends on it
    if wish == "none":
        return None
    names = ["/opt/rocm/llvm/bin/clang++", "clang++", *(f"clang++-{n}" for n in range(24, 16, -1))]
    for name in [wish] if wish else names:
        found = shutil.which(name)
        if found and (tool := _looked_at(Path(found))) is not None:
            return tool
    return None


def _looked_at(path: Path) -> HipCompiler | None:
    """The compiler, if it is recent enough and makes code for AMD's GPUs."""
    try:
        said = _said(path, "--version") + _said(path, "--print-targets")
    except (OSError, subprocess.TimeoutExpired):
        return None
    release = re.search(r"clang version (\d+)", said)
    if release is None or int(release[1]) < OLDEST or "amdgcn" not in said:
        return None
    tool = HipCompiler(path, int(release[1]))
    return tool if tool.tool("ld.lld") is not None else None


def _said(path: Path, option: str) -> str:
    done = subprocess.run(
        [str(path), option], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout


def device_libraries(arch: str) -> list[Path]:
    """The files that functions of mathematics are in, and what they ask; none where they are not.

    Named here because clang looks for them in a ROCm of its own release alone.
    """
    folder = next((Path(p) for p in LIBRARIES if (Path(p) / "ocml.bc").is_file()), None)
    if folder is None:
        return []
    version = folder / f"oclc_isa_version_{arch.removeprefix('gfx')}.bc"
    # Older ones lack CDNA 3 and know CDNA 2, whose mathematics is the same.
    chosen = version if version.is_file() else folder / "oclc_isa_version_90a.bc"
    return [*(folder / f"{name}.bc" for name in CONTROLS), chosen]
