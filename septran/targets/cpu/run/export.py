"""A kernel as an object file with a C header and an example, for programs without TVM."""

from __future__ import annotations

import math
import re
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from septran.targets.cpu.run.c_function import RUNTIME, CFunction, Parameter

HEADER = Template("""\
/* $title: $shapes.
 * Written by SepTran $version. Every tensor is contiguous, row by row. Floats of 16 and 8 bits are
 * integers of as many bits here. $summed
 */
#ifndef ${guard}_H
#define ${guard}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0 when it is done, else there was no memory for what it needs meanwhile$refused$beyond. */
$declaration;

#ifdef __cplusplus
}
#endif

#endif
""")
EXAMPLE = Template("""\
/* Calls $symbol on numbers that are easy to follow, and prints what its results sum up to. */

#include <stdio.h>

#include "$name.h"

$tensors

int main(void) {
$fills
  int failed = $symbol($arguments);
  if (failed) return 1;
$prints
  return 0;
}
""")
BUILD = Template("""\
#!/bin/sh
# Makes the example of $title, with a C compiler for that processor.
set -e
cd "$$(dirname "$$0")"
"$${CC:-$compiler}" -O2 -pthread $$CFLAGS -o example $name.o septran_runtime.c example.c -lm
""")
README = Template("""\
# $title

`$name.o` has the function that `$name.h` declares; `septran_runtime.c` gives it threads and scratch
memory, and may be replaced. Neither TVM nor SepTran is needed:

    sh build.sh && ./example

$fixed: $shapes.
""")
ONES = {"float16": 0x3C00, "bfloat16": 0x3F80, "float8_e4m3fn": 0x38, "float8_e5m2": 0x3C}
"""The number one in elements that C has as integers."""
COMPILERS = {"aarch64": "aarch64-linux-gnu-gcc"}
"""Compilers that are not called cc, by the architecture of the object."""


def export(function: CFunction, folder: Path, roles: Sequence[str]) -> Path:
    """Write the files; `roles` says ``input``, ``output`` or ``summed`` of each tensor.

    Returns the object file's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W", "_", function.name)
    words = _words(function, name, roles)
    texts = {f"{name}.h": HEADER, "example.c": EXAMPLE, "build.sh": BUILD, "README.md": README}
    for file, template in texts.items():
        (folder / file).write_text(template.substitute(words), encoding="utf-8")
    build = folder / "build.sh"
    build.chmod(build.stat().st_mode | stat.S_IXUSR)
    shutil.copyfile(RUNTIME, folder / "septran_runtime.c")
    path = folder / f"{name}.o"
    path.write_bytes(function.code)
    return path


def _words(function: CFunction, name: str, roles: Sequence[str]) -> dict[str, str]:
    # By name: the package is above the targets, and has been imported to get here.
    version = sys.modules["septran"].__version__
    tensors = list(zip(function.tensors, roles, strict=True))
    scalars = function.parameters[len(tensors) :]
    read = [t.name for t, role in tensors if role == "input"]
    written = [t for t, role in tensors if role != "input"]
    summed = [t.name for t, role in tensors if role == "summed"]
    extents = {e for t, _ in tensors for e in t.extents}
    told = [f"{s.name} of at most {s.example}" for s in scalars if s.name in extents]
    return {
        "fixed": "Shapes are fixed" + (f" but for {', '.join(told)}" if told else ""),
        "beyond": f",\n * or an extent is beyond the code: {', '.join(told)}" if told else "",
        "refused": ",\n * or the system does not let it use tile registers"
        if b"septran_ask_for_tiles" in function.code
        else "",
        "title": f"{function.name} for {function.arch}",
        "version": version, "name": name,
        "symbol": function.symbol, "guard": function.symbol.upper(),
        "shapes": ", ".join(f"{t.name} {_extents(t)} {t.dtype}" for t, _ in tensors),
        "summed": f"Results are added to {', '.join(summed)}." if summed else "",
        "declaration": function.declaration(read),
        "tensors": "\n".join(f"static {t.c_type} {t.c_name}[{_count(t)}];" for t, _ in tensors),
        "fills": "\n".join(_fill(t, n) for n, (t, role) in enumerate(tensors) if role == "input"),
        "arguments": ", ".join([t.c_name for t, _ in tensors] + [str(s.example) for s in scalars]),
        "prints": "\n".join(map(_print, written)),
        "compiler": COMPILERS.get(function.architecture, "cc"),
    }  # fmt: skip


def _extents(tensor: Parameter) -> str:
    return "x".join(tensor.extents or map(str, tensor.shape or ())) or "scalar"


def _count(tensor: Parameter) -> int:
    return math.prod(tensor.shape or ())


def _fill(tensor: Parameter, number: int) -> str:
    """Small whole numbers, other ones in each tensor; ones where C has no such type."""
    value = f"i % {5 + 2 * number}" if tensor.dtype != "bool" else "i % 2"
    if tensor.dtype.startswith("float") or tensor.dtype == "bfloat16":
        value = hex(ONES[tensor.dtype]) if tensor.dtype in ONES else value
    loop = f"for (long i = 0; i < {_count(tensor)}; i++)"
    return f"  {loop} {tensor.c_name}[i] = {value};"


def _print(tensor: Parameter) -> str:
    loop = f"for (long i = 0; i < {_count(tensor)}; i++)"
    total = f"sum_{tensor.name}"
    return (
        f"  double {total} = 0;\n  {loop} {total} += (double){tensor.c_name}[i];\n"
        f'  printf("{tensor.name} %.17g\\n", {total});'
    )
