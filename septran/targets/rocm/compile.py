"""HIP text -> code object, and what its metadata and disassembly say of it."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from septran.errors import TargetError
from septran.targets.rocm.toolchain import (
    SECONDS,
    HipCompiler,
    HipRtc,
    compiler,
    device_libraries,
)

COUNTED = (
    "v_mfma", "global_load", "global_store", "global_atomic", "ds_read", "ds_write",
    "ds_swizzle", "ds_bpermute", "s_waitcnt", "s_barrier", "scratch_load", "scratch_store",
)  # fmt: skip
"""How counted machine instructions begin: matrix cores, memories, waits, spills."""


CHILD = Path(__file__).with_name("hiprtc_child.py")


class HipRefusedError(TargetError):
    """Clang or hipRTC refused generated HIP text, or warned of it: a mistake of SepTran."""

    code = "SEP579"


@dataclass(frozen=True)
class HipFigures:
    """The resources of one kernel, as the code object's metadata has them."""

    kernel: str
    vector_registers: int
    """Of a lane, with those for accumulation."""
    accumulation_registers: int
    scalar_registers: int
    spilled: int
    """Registers that were spilled, vector and scalar ones."""
    private_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class HipCompiled:
    """Machine code of one HIP text."""

    arch: str
    code: bytes = field(repr=False)
    assembly: str = field(repr=False)
    """Empty where hipRTC compiled, which gives code alone; then there are no figures."""
    compiler: str
    seconds: float

    @property
    def figures(self) -> tuple[HipFigures, ...]:
        """One for each kernel."""
        return tuple(_figures(self.assembly))

    @property
    def counts(self) -> Counter[str]:
        """How often the machine code has the instructions of `COUNTED`."""
        heads = re.findall(r"^\s+([a-z]\w+)", self.assembly, re.M)
        return Counter(name for head in heads for name in COUNTED if head.startswith(name))


def compile_text(text: str, arch: str, name: str = "kernel") -> HipCompiled:
    """Compile, at most once in a process; raises HipRefusedError, NoHipCompilerError."""
    return _compile(compiler(), text, arch, name)


@functools.lru_cache(maxsize=64)
def _compile(tool: HipCompiler | HipRtc, text: str, arch: str, name: str) -> HipCompiled:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="septran-hip-") as place:
        source, code, listing = (Path(place) / f"kernel.{end}" for end in ("hip", "co", "s"))
        source.write_text(text, encoding="utf-8")
        assembly, said = "", str(tool)
        if isinstance(tool, HipRtc):
            child = [sys.executable, "-I", "-S", str(CHILD), tool.library]
            version = _run(tool, name, [*child, arch, str(source), str(code)])
            said = f"{tool}, {version}"
        else:
            clang = [str(tool.path)]
            _run(tool, name, [*clang, "-S", "-o", str(listing), *_options(arch), str(source)])
            linked = ["--no-gpu-bundle-output", "-o", str(code), *_options(arch), str(source)]
            _run(tool, name, clang + linked)
            assembly = listing.read_text(encoding="utf-8")
        return HipCompiled(arch, code.read_bytes(), assembly, said, time.perf_counter() - start)


def _options(arch: str) -> list[str]:
    passed: list[str] = []
    for file in device_libraries(arch):
        passed += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(file)]
    return [
        "-x", "hip", f"--offload-arch={arch}", "--offload-device-only", "-nogpuinc", "-nogpulib",
        *passed, "-O3", "-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing",
        "-mcode-object-version=5", "-Wno-unused",
    ]  # fmt: skip


def _run(tool: HipCompiler | HipRtc, name: str, command: Sequence[str]) -> str:
    """What a compiler wrote to standard output; raises HipRefusedError."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            timeout=SECONDS, stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HipRefusedError(f"{tool} did not compile {name}: {error}") from error
    if done.returncode or "warning:" in done.stderr:
        raise HipRefusedError(
            f"{tool} refused the HIP text of {name}:\n{done.stderr.strip()[:2000]}",
            hint="this is a mistake of SepTran, not of your files; please report it",
        )
    return done.stdout


def _figures(assembly: str) -> Iterator[HipFigures]:
    """The kernels of ``amdhsa.kernels``, YAML whose keys are in alphabetical order."""
    metadata = assembly.partition("amdhsa.kernels:")[2].partition("amdhsa.target:")[0]
    for part in re.split(r"^  - ", metadata, flags=re.M)[1:]:
        name = re.search(r"^    \.name:\s+(\S+)", part, re.M)

        def number(key: str, part: str = part) -> int:
            found = re.search(rf"\.{key}:\s+(\d+)", part)
            return int(found[1]) if found else 0

        yield HipFigures(
            name[1] if name else "", number("vgpr_count"), number("agpr_count"),
            number("sgpr_count"), number("vgpr_spill_count") + number("sgpr_spill_count"),
            number("private_segment_fixed_size"), number("group_segment_fixed_size"),
        )  # fmt: skip
