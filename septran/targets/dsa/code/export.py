"""A kernel for a DSA as C for the vendor's library, with build files and an example.

The example runs the control program of every core against the recorder, which only notes what is
asked for, and compares that with the commands that the simulator was given: a host without the
device can so see that the C is compiled as it was meant.
"""

from __future__ import annotations

import math
import re
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.dtypes import itemsize, numpy_dtype
from septran.errors import TargetError
from septran.simulator.commands import ARGUMENTS, parameter_address
from septran.targets.base import LibraryPart
from septran.targets.dsa.code.jit import rounded
from septran.targets.dsa.code.recorder import BEGIN, TAKE, recorder_source
from septran.targets.dsa.code.vendor import ASCENDC, Vendor
from septran.targets.templates import filled
from septran.tile.nodes import TileProgram

if TYPE_CHECKING:
    from septran.targets.dsa.code.build import DsaExecutable

TEMPLATES = Path(__file__).with_name("templates")


class NotWrittenError(TargetError):
    """There are no build files for kernels in the language of a machine."""

    code = "SEP549"


def export_program(part: LibraryPart, executable: DsaExecutable, folder: Path) -> Path:
    """Write the C of a kernel's control program with what it needs; the path of its header.

    Raises VendorError where the vendor's header is not there, and NotWrittenError for kernels that
    are not in C.
    """
    program = part.versions[0][1]
    vendor = Vendor(executable.machine)
    if vendor.language == ASCENDC:
        machine = executable.machine.name
        raise NotWrittenError(
            f"{part.name} for {machine} is Ascend C, which the vendor's own tools build: there is "
            "no export of it",
            vendor.where("language"),
            hint=f"`septran explain {part.name} --on {machine} --stage source` prints the text",
        )
    words = _words(part, executable, program, vendor)
    for place in ("include", "src", "recorder", "examples/data"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "vendor", ignore_errors=True)
    inside = vendor.header_files.copy_to(folder / "vendor").relative_to(folder)
    words["vendor"] = inside.as_posix()
    name = words["name"]
    texts = {
        f"include/{name}.h": "kernel.h", "examples/example.c": "example.c",
        "CMakeLists.txt": "CMakeLists.txt", "build.sh": "build.sh", "README.md": "README.md",
    }  # fmt: skip
    for file, template in texts.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        (folder / file).write_text(filled(text, **words), encoding="utf-8")
    build = folder / "build.sh"
    build.chmod(build.stat().st_mode | stat.S_IXUSR)
    (folder / f"src/{name}.c").write_text(executable.source.text, encoding="utf-8")
    (folder / "recorder/recorder.c").write_text(recorder_source(vendor), encoding="utf-8")
    for file, content in _data(part, executable, program).items():
        (folder / "examples/data" / file).write_bytes(content)
    return folder / f"include/{name}.h"


def _words(
    part: LibraryPart, executable: DsaExecutable, program: TileProgram, vendor: Vendor
) -> dict[str, str]:
    name = executable.symbol
    found = re.search(rf"^void {name}\((.*?)\)\s*\{{", executable.source.text, re.M | re.S)
    parameters = " ".join(found[1].split()) if found else "void"
    sizes = [f"  {s.name}: an extent, from {s.least} to {s.most}" for s in executable.sizes]
    rooms = [
        f"  temporary {n}: {size} bytes of main memory, for all cores together"
        for n, size in enumerate(executable.workspaces)
    ]
    names = [*program.params, *(f"temporary {n}" for n in range(len(executable.workspaces)))]
    tables = [f"  {names[n]} once more, which the control program reads itself"
              for n, _ in executable.tables]  # fmt: skip
    tensors = [
        f"  {b.name} [{', '.join(map(str, b.exists or b.shape))}] {b.dtype}: {role}"
        for b, role in zip(map(program.buffer, program.params), part.roles, strict=True)
    ]
    scalars = [f"  {s.name}: a scalar of {s.dtype}" for s in program.scalars]
    lines = [*tensors, *rooms, *tables, *scalars, *sizes]
    return {
        "name": name, "upper": name.upper(), "summary": part.summary.replace("*/", "* /"),
        "version": sys.modules["septran"].__version__, "machine": executable.machine.name,
        "header": vendor.header, "cores": str(executable.cores), "parameters": parameters,
        "arguments": "\n".join(f" * {line}" for line in lines),
        "logic": part.hashes.get("logic", ""), "mapping": part.hashes.get("mapping", ""),
        "count": str(ARGUMENTS), "begin": BEGIN, "take": TAKE,
        "passed": _passed(part, executable, program), "tables": _tables(part, executable, program),
    }  # fmt: skip


def _passed(part: LibraryPart, executable: DsaExecutable, program: TileProgram) -> str:
    """The arguments of the example's call behind the core's number."""
    buffers = executable.tensors + len(executable.workspaces)
    words = [f"(void *)(intptr_t)INT64_C({parameter_address(n)})" for n in range(buffers)]
    words += [f"table_{n}" for n in range(len(executable.tables))]
    words += [repr(number) for number in _numbers(part, executable, program)]
    return "".join(f", {word}" for word in words)


def _numbers(
    part: LibraryPart, executable: DsaExecutable, program: TileProgram
) -> list[float | int]:
    given = part.reference.scalars if part.reference is not None else {}
    scalars = [rounded(s.dtype, given.get(s.name, 1)) for s in program.scalars]
    tensors = _tensors(part, program)
    return [*(int(x) if isinstance(x, bool | np.bool_) else x.item() if hasattr(x, "item") else x
              for x in scalars), *(size.of(tensors) for size in executable.sizes)]  # fmt: skip


def _tensors(part: LibraryPart, program: TileProgram) -> list[np.ndarray[Any, Any]]:
    """The tensors of the example's call: those of its numbers, else shells of their shapes."""
    reference, found = part.reference, []
    for buffer in map(program.buffer, program.params):
        given = None
        if reference is not None:
            given = reference.inputs.get(buffer.name)
            given = reference.exact.get(buffer.name) if given is None else given
        shell = np.broadcast_to(np.zeros((), numpy_dtype(buffer.dtype)), buffer.shape)
        found.append(shell if given is None else np.asarray(given))
    return found


def _tables(part: LibraryPart, executable: DsaExecutable, program: TileProgram) -> str:
    """The declarations of the tensors of indices that the control program reads."""
    lines, tensors = [], _tensors(part, program)
    rooms = [*(math.prod(x.shape) for x in tensors), *executable.workspaces]
    for place, (number, dtype) in enumerate(executable.tables):
        # Of a temporary it is known in bytes.
        count = rooms[number] // (itemsize(dtype) if number >= len(tensors) else 1)
        lines += [
            f"  static {dtype}_t table_{place}[{max(1, count)}];",
            f'  read_all("data/table_{place}", table_{place}, sizeof *table_{place} * {count});',
        ]
    return "\n".join(lines)


def _data(part: LibraryPart, executable: DsaExecutable, program: TileProgram) -> dict[str, bytes]:
    """The commands of all cores without the lines that they are from, and the tables."""
    tensors = [np.ascontiguousarray(x) if n in dict(executable.tables) else x
               for n, x in enumerate(_tensors(part, program))]  # fmt: skip
    scalars: Sequence[Any] = _numbers(part, executable, program)[: len(program.scalars)]
    stream = executable.stream(scalars, tensors).copy()
    stream["line"] = 0
    indices = executable.indices(scalars, tensors)
    tables = {f"table_{place}": found.tobytes() for place, found in enumerate(indices)}
    return {"commands": stream.tobytes(), **tables}
