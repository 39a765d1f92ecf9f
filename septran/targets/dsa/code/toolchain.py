"""Find a C compiler, and run it."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from septran.errors import TargetError
from septran.temporary import TemporaryFolder

NAMES = ("cc", "gcc", "clang")
FLAGS = (
    "-std=c11", "-O1", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra",
    "-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
)  # fmt: skip
"""Other warnings are no errors: those of a compiler of next year would stop kernels of today."""
CPP_NAMES = ("c++", "g++", "clang++")
CPP_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-ffp-contract=off", "-w")
SECONDS = 300


class CompileError(TargetError):
    """The C compiler refused generated C, or the vendor's header."""

    code = "SEP543"


def as_utf8(text: str) -> bytes:
    """The bytes of a text for a compiler; raises CompileError where it has half a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        line = text[: error.start].count("\n") + 1
        raise CompileError(
            f"line {line} of the text has {text[error.start]!r}, half of a character that UTF-8 "
            "has as a whole only",
            hint="take it out, or write the whole character",
        ) from None


def compiler() -> tuple[str, ...] | None:
    """The command of a C compiler: $CC, cc, gcc, clang or zig; None where there is none.

    ``SEPTRAN_DSA_CC=none`` does as if there were none.
    """
    return _found(os.environ.get("SEPTRAN_DSA_CC"), os.environ.get("CC"), os.environ.get("PATH"))


@functools.cache
def _found(own: str | None, cc: str | None, path: str | None) -> tuple[str, ...] | None:
    del path  # part of the key: what is found depends on it
    if own == "none":
        return None
    for name in (own, cc, *NAMES):
        words = shlex.split(name) if name else []
        if words and shutil.which(words[0]):
            return tuple(words)
    return ("zig", "cc") if shutil.which("zig") else None


def cpp_compiler() -> tuple[str, ...] | None:
    """The command of a C++ compiler: $CXX, c++, g++ or clang++; None where there is none.

    ``SEPTRAN_DSA_CC=none`` does as if there were none.
    """
    own = "none" if os.environ.get("SEPTRAN_DSA_CC") == "none" else os.environ.get("CXX")
    return _cpp(own, os.environ.get("PATH"))


@functools.cache
def _cpp(own: str | None, path: str | None) -> tuple[str, ...] | None:
    del path  # part of the key: what is found depends on it
    if own == "none":
        return None
    for name in (own, *CPP_NAMES):
        words = shlex.split(name) if name else []
        if words and shutil.which(words[0]):
            return tuple(words)
    return None


def run_cpp_compiler(what: str, options: Sequence[str]) -> None:
    """Run the C++ compiler; raises CompileError with what it said of `what`."""
    command = cpp_compiler()
    if command is None:
        raise CompileError("there is no C++ compiler", hint="install g++ or clang++, or set CXX")
    _run(
        (*command, *CPP_FLAGS, *options), what, {}, "this is a mistake of SepTran; please report it"
    )


def run_compiler(
    what: str, options: Sequence[str], places: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Run the C compiler; raises CompileError with what it said of `what`.

    `places` are the folders whose copies the compiler reads, by those of the copies.
    """
    command = compiler()
    if command is None:
        raise CompileError("there is no C compiler", hint="install gcc or clang, or set CC")
    hint = "compare the vendor section of the machine file with the vendor's header"
    _run((*command, *FLAGS, *options), what, places, hint)


def _run(command: Sequence[str], what: str, places: Mapping[str, str], hint: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            timeout=SECONDS, stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{command[0]} did not compile {what}: {error}") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        for copy, original in places.items():
            said = said.replace(copy, original)
        raise CompileError(f"{command[0]} refused {what}:\n{said[:2000]}", hint=hint)


@functools.cache
def scratch() -> Path:
    """A folder of this process for what it compiles."""
    _kept.append(TemporaryFolder("dsa"))
    return _kept[-1].path


_kept: list[TemporaryFolder] = []
"""Removed when the process ends."""
