"""Find a C compiler and make a shared library with it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from septran.errors import TargetError

NAMES = ("cc", "gcc", "clang")
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")


class CompileError(TargetError):
    """The C compiler refused generated C, or the vendor's header."""

    code = "SEP543"


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
        words = name.split() if name else []
        if words and shutil.which(words[0]):
            return tuple(words)
    return ("zig", "cc") if shutil.which("zig") else None


def build_library(source: Path, library: Path, options: Sequence[str] = ()) -> None:
    """Compile a C file to a shared library; raises CompileError with what the compiler said."""
    command = compiler()
    assert command is not None
    words = [*command, *FLAGS, *options, str(source), "-o", str(library)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise CompileError(
            f"{command[0]} refused the C of {source.stem}:\n{said[:2000]}",
            hint="compare the vendor section of the machine file with the vendor's header",
        )
