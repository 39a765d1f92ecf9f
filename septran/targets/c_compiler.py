"""Find a C compiler, and what it needs for C that uses apache-tvm-ffi's headers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import tvm_ffi


def c_compiler() -> str | None:
    """$CC, cc, gcc or clang; None where there is none of them."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def include_options() -> tuple[str, ...]:
    """For C that includes apache-tvm-ffi's headers."""
    paths = dict.fromkeys((tvm_ffi.libinfo.find_include_path(), _dlpack()))
    return tuple(f"-I{path}" for path in paths if path)


def link_options() -> tuple[str, ...]:
    """For libraries that use apache-tvm-ffi, which is loaded before they are."""
    folder = Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent
    return (f"-L{folder}", "-ltvm_ffi")


def _dlpack() -> str:
    find = getattr(tvm_ffi.libinfo, "find_dlpack_include_path", None)
    return str(find()) if find else ""
