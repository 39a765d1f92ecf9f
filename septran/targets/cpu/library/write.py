"""The folder of an exported library: header, objects, libraries, build files, examples, papers."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from septran.targets.base import LibraryPart, WrittenLibrary
from septran.targets.call_sizes import call_sizes
from septran.targets.cpu.library.examples import examples
from septran.targets.cpu.library.header import header
from septran.targets.cpu.library.model import ABI, TEMPLATES, CLibrary, library
from septran.targets.cpu.library.text import template
from septran.targets.cpu.library.wrappers import wrappers
from septran.targets.cpu.run.c_function import RUNTIME
from septran.targets.templates import filled
from septran.temporary import TemporaryFolder

TOOLS = {
    "": ("cc", "c++", "ar"),
    "aarch64": ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "aarch64-linux-gnu-ar"),
}
"""A C compiler, a C++ compiler and an archiver, by the architecture of the objects."""
SECONDS = 300
"""Time after which the compiler is given up."""


def write_library(parts: Sequence[LibraryPart], folder: Path, name: str | None) -> WrittenLibrary:
    """Write a library's folder; raises TargetError, OSError."""
    made = library(parts, name)
    files = _files(made)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    build = folder / "build.sh"
    build.chmod(build.stat().st_mode | stat.S_IXUSR)
    built = _build(made, folder)
    words = ", made when it was exported" if built else ", once `sh build.sh libraries` made them"
    (folder / "README.md").write_text(_readme(made, words), encoding="utf-8")
    libraries = [f"lib/lib{made.name}.{kind}" for kind in ("a", "so")] if built else []
    header = folder / "include" / f"{made.name}.h"
    return WrittenLibrary(header, (*files, "README.md", *libraries), _facts(made))


def _facts(made: CLibrary) -> dict[str, Any]:
    """What `open_library` needs, and what a reader of the manifest may ask."""
    kernels = {
        kernel.name: {
            "function": made.function(kernel),
            "processors": [version.name for version in kernel.versions],
            "tensors": len(kernel.tensors),
            "scalars": [number.dtype for number in kernel.numbers],
            "sizes": [list(size.facts) for size in call_sizes(kernel.part.versions[0][1])],
        }
        for kernel in made.kernels
    }
    return {
        "name": made.name, "prefix": made.prefix, "abi": ABI, "build": made.build,
        "kernels": kernels,
    }  # fmt: skip


def _files(made: CLibrary) -> dict[str, bytes]:
    # By name: the package is above the targets, and has been imported to get here.
    version = sys.modules["septran"].__version__
    cc, cxx, ar = TOOLS[made.architecture]
    words = {
        "name": made.name, "version": version, "numbers": numbers(version), "abi": ABI,
        "cc": cc, "cxx": cxx, "ar": ar,
        "list": ", ".join(kernel.name for kernel in made.kernels),
    }  # fmt: skip
    cmake = f"lib/cmake/{made.name}"
    texts = {
        f"include/{made.name}.h": header(made, version),
        f"src/{made.name}.c": wrappers(made, version),
        "src/runtime.c": made.runtime(RUNTIME),
        "src/processor.c": made.runtime(TEMPLATES / "processor.c"),
        f"{cmake}/{made.name}Config.cmake": filled(template("Config.cmake"), **words),
        f"{cmake}/{made.name}ConfigVersion.cmake": filled(template("ConfigVersion.cmake"), **words),
        f"lib/pkgconfig/{made.name}.pc": filled(template("library.pc"), **words),
        "CMakeLists.txt": filled(
            template("CMakeLists.txt"), **words, objects="".join(f"\n  {n}" for n in made.objects)
        ),
        "build.sh": filled(
            template("build.sh"), **words, objects=" ".join(f"src/{n}" for n in made.objects)
        ),
    }
    files = {path: text.encode() for path, text in texts.items()}
    files |= {f"src/{name}": code for name, code in made.objects.items()}
    return files | {f"examples/{name}": content for name, content in examples(made).items()}


def numbers(version: str) -> str:
    """The part of a version that CMake and pkg-config compare: ``0.2.0`` of ``0.2.0.dev1``."""
    found = re.match(r"\d+(\.\d+)*", version)
    return found[0] if found else "0"


def _build(made: CLibrary, folder: Path) -> bool:
    """Make the libraries where there is a compiler; whether there are some then."""
    if any(shutil.which(tool) is None for tool in (*TOOLS[made.architecture][::2], "sh")):
        return False
    own = {"OUT": "", "CC": "", "AR": "", "CFLAGS": "", "LDFLAGS": "", "STATIC_ONLY": ""}
    with TemporaryFolder("library") as place:
        environment = {**os.environ, **own, "OUT": str(place)}
        done = subprocess.run(
            ["sh", str(folder / "build.sh"), "libraries"], env=environment, capture_output=True,
            timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            return False
        for kind in ("a", "so"):
            shutil.copyfile(place / f"lib{made.name}.{kind}", folder / f"lib/lib{made.name}.{kind}")
    return True


def _readme(made: CLibrary, libraries: str) -> str:
    version = sys.modules["septran"].__version__
    told = [
        f"{word} of `{kernel.name}` from {least} to {most}"
        for kernel in made.kernels
        for word, (least, most) in kernel.spans.items()
    ]
    processors = dict.fromkeys(v.name for kernel in made.kernels for v in kernel.versions)
    return filled(
        template("README.md"), name=made.name, version=version, made=libraries,
        list=", ".join(kernel.name for kernel in made.kernels),
        processors=", ".join(processors),
        fixed="Shapes are fixed" + (f" but for {'; '.join(told)}." if told else "."),
    )  # fmt: skip
