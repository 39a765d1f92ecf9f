"""Compile translated kernels: a library each, kept by content in the user's cache folder.

The runtime is an object file and the kernels' header precompiled, once a machine, so that a
kernel costs what its own text does. Accesses to memory call the runtime because the kernel is
compiled as for a thread sanitizer, whose library is not linked: the runtime takes its place.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from septran.emulator.errors import UnknownInstructionError
from septran.errors import TargetError
from septran.temporary import TemporaryFolder
from septran.user_folder import unsafe, user_folder

_HERE = Path(__file__).parent
NAMES = ("g++", "c++", "clang++")
SECONDS = 600
# CUDA text reads the same bytes as several types, and its warnings are not the user's to mend.
COMMON = ("-std=c++17", "-fPIC", "-w", "-fno-strict-aliasing", "-fno-math-errno", "-pthread")
KERNEL = (
    "-O1", "-g1", "-fsanitize=thread", "-fno-tree-sra", "-fno-tree-loop-distribute-patterns",
    "-fno-trapping-math", "-fno-var-tracking",
)  # fmt: skip
"""Structures are copied as a whole, as the hardware's vector accesses are."""
_UNKNOWN = re.compile(
    r"error: .*?[‘'](\w+)[’'] (?:was not declared|has not been declared|does not name)"
)
_COMMENT = re.compile(
    r"""(?P<kept>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')|//(?:\\\n|[^\n])*|/\*.*?\*/""", re.DOTALL
)
"""A comment, or a literal, in which none begins."""


class HostCompilerError(TargetError):
    """There is no C++ compiler for the emulator, or it refused a translated kernel."""

    code = "SEP595"


@functools.cache
def compiler() -> tuple[str, ...]:
    """The command of a C++ compiler: $CXX, g++, c++ or clang++."""
    for name in (os.environ.get("CXX"), *NAMES):
        words = shlex.split(name) if name else []
        if words and shutil.which(words[0]):
            return tuple(words)
    raise HostCompilerError(
        "the emulator needs a C++ compiler", hint="install g++ or clang++, or set CXX"
    )


def library(text: str, lines_before: int, lanes: int = 32) -> Path:
    """The shared library of a translated kernel: one for all that differ in comments.

    `lanes` are those of a warp.
    """
    text = without_comments(text)
    key = _digest(text, _fingerprint(), str(lanes))
    return _kept(f"kernel-{key}.so", lambda to: _compile_kernel(text, lines_before, to, lanes))


def without_comments(text: str) -> str:
    """C++ whose comments, which name files and lines, are gone; each line keeps its number."""
    if 'R"' in text:  # finding where a raw string ends takes more
        return text
    return _COMMENT.sub(lambda m: m["kept"] or " " + "\n" * m[0].count("\n"), text)


def _compile_kernel(text: str, lines_before: int, to: Path, lanes: int) -> None:
    header, runtime = _header(lanes), _runtime(lanes)
    with TemporaryFolder("emulator") as folder:
        source, part = folder / "kernel.cpp", folder / "kernel.o"
        source.write_text(text, encoding="utf-8")
        _run(
            [*COMMON, *_native(), _width(lanes), *KERNEL, *_unhooked(), "-include", str(header),
             *_folders(), "-c", str(source), "-o", str(part)],
            lines_before,
        )  # fmt: skip
        _run(["-shared", "-pthread", *_linker(), str(part), str(runtime), "-o", str(to), "-ldl"])


def _width(lanes: int) -> str:
    """Return the option for warps of so many lanes."""
    return f"-DEMU_LANES={lanes}"


def _runtime(lanes: int) -> Path:
    key = _digest(_sources(), _fingerprint(), str(lanes))
    options = [*COMMON, *_native(), _width(lanes), "-O2", "-fno-trapping-math", "-fno-signed-zeros"]
    source = str(_HERE / "runtime" / "runtime.cpp")
    return _kept(f"runtime-{key}.o", lambda to: _run([*options, "-c", source, "-o", str(to)]))


def _header(lanes: int) -> Path:
    """The kernels' header: the plain name of one that is precompiled beside it."""
    key = _digest(_sources(), _fingerprint(), str(lanes))
    name = f"kernel-{key}.h"
    include = '#include "kernel.h"\n'
    plain = _kept(name, lambda to: to.write_text(include, encoding="utf-8"))
    options = [
        *COMMON, *_native(), _width(lanes), *KERNEL, *_unhooked(), *_folders(), "-x", "c++-header",
    ]  # fmt: skip
    if "clang" not in _version():
        _kept(f"{name}.gch", lambda to: _run([*options, str(plain), "-o", str(to)]))
    return plain


def _folders() -> list[str]:
    device = _HERE / "device"
    return ["-I", str(device), "-I", str(device / "cuda")]


def _unhooked() -> list[str]:
    """Return the compiler's options that leave out hooks of calls and returns."""
    if "clang" in _version():
        return ["-mllvm", "-tsan-instrument-func-entry-exit=0"]
    return ["--param", "tsan-instrument-func-entry-exit=0"]


@functools.cache
def _linker() -> list[str]:
    """Return the option for a linker that takes a third of the usual one's time, if it is there."""
    return ["-fuse-ld=gold"] if shutil.which("ld.gold") else []


def _native() -> list[str]:
    return ["-march=native"] if os.uname().machine == "x86_64" else []


def _run(options: Sequence[str], lines_before: int = 0) -> None:
    command = [*compiler(), *options]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS,
            stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostCompilerError(f"{command[0]} did not compile a kernel: {error}") from error
    if done.returncode:
        raise _refusal(done.stderr.strip(), lines_before)


def _refusal(said: str, lines_before: int) -> TargetError:
    shown = re.sub(
        r"\S*kernel\.cpp:(\d+)", lambda m: f"line {int(m[1]) - lines_before}", said
    )  # of the CUDA text
    unknown = _UNKNOWN.search(said)
    errors = [line for line in shown.splitlines() if "error" in line] or shown.splitlines()
    if unknown:
        return UnknownInstructionError(f"unknown function or type {unknown[1]!r}: {errors[0]}")
    return HostCompilerError(
        "the C++ compiler refused a translated kernel:\n" + "\n".join(errors[:8])
    )


@functools.cache
def _version() -> str:
    done = subprocess.run([*compiler(), "--version"], capture_output=True, text=True, check=False)
    return done.stdout


@functools.cache
def _sources() -> str:
    files = sorted(f for part in ("device", "runtime") for f in (_HERE / part).rglob("*.[hc]*"))
    return "\n".join(f"{f.relative_to(_HERE)}\n{f.read_text(encoding='utf-8')}" for f in files)


@functools.cache
def _fingerprint() -> str:
    """Return what else than its text a library depends on: processor and compiler."""
    # With -march=native a library is of this processor alone.
    processor = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        processor = next((x for x in lines if x.startswith(("flags", "Features"))), "")
    return _digest(repr((_version(), processor, COMMON, KERNEL)), _sources())


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


# ------------------------------------------------------------------ the folder
def _kept(name: str, make: Callable[[Path], object]) -> Path:
    """The file of that name; made by `make` where it is missing or was changed since."""
    folder = _folder()
    found, seal = folder / name, folder / f"{name}.sha256"
    # A file that was cut short, or that someone changed, has another digest.
    if _intact(found, seal):
        return found
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as staging:
        fresh = Path(staging) / name
        make(fresh)
        digest = Path(staging) / "digest"
        digest.write_text(hashlib.sha256(fresh.read_bytes()).hexdigest(), encoding="ascii")
        # Renaming is atomic: another process sees all of a file or none. What is replaced between
        # the file and its digest does not fit, and is made anew.
        fresh.replace(found)
        digest.replace(seal)
    return found


def _intact(found: Path, seal: Path) -> bool:
    try:
        state = found.stat()
        # Every kernel asks for the header, which is tens of megabytes once it is precompiled.
        version = (state.st_ino, state.st_mtime_ns, state.st_size)
        if _seen.get(found) == version:
            return True
        expected = seal.read_text(encoding="ascii")
        if hashlib.sha256(found.read_bytes()).hexdigest() != expected:
            return False
    except OSError:
        return False
    _seen[found] = version
    return True


_seen: dict[Path, tuple[int, int, int]] = {}
"""Inode, time and size of each file when its digest was right."""


@functools.cache
def _folder() -> Path:
    """A private folder in the cache directory, or of this process where that cannot be had."""
    if os.environ.get("SEPTRAN_CACHE", "1").lower() not in ("0", "off", "no"):
        folder = user_folder() / "emulator"
        if unsafe(folder) is None and os.access(folder, os.W_OK):
            return folder
    _temporaries.append(TemporaryFolder("emulator"))
    return _temporaries[-1].path


_temporaries: list[TemporaryFolder] = []
"""Removed when the process ends."""
