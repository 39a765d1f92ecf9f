"""The folder of a kernel with a host program in C: text, launches, an example that compares.

The program declares what it needs of a driver and loads it when it is opened, so that its build
takes a C compiler alone.
"""

from __future__ import annotations

import math
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from septran.dtypes import C_TYPES, itemsize
from septran.emulator.launch import Argument, CudaProgram, Pointer, ScalarArgument
from septran.machine.model import Machine
from septran.targets.base import LibraryPart
from septran.targets.call_sizes import CallSize
from septran.targets.cuda.run.launcher import LauncherError
from septran.targets.templates import check_header, filled
from septran.tile.nodes import Buffer, TileProgram

TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class HostProgram:
    """How kernels get to a device, and what the files say of it."""

    driver: str
    """The driver's name in words."""
    language: str
    """Of the kernels' text."""
    text: str
    """The end of the text's file name."""
    code: str
    """The end of the name of the file that a program opens: the text, where a driver compiles."""
    source: Path
    """The functions of the driver in C, which `host.c` calls."""
    queue: str
    memory: str
    compile: str = ""
    """The command that makes the code of the text, in `build.sh`; ``@name@`` is the kernel's."""
    handles: Mapping[str, str] = field(default_factory=dict)
    """What a program may ask for, by the field of `Device`, with what it is."""


def write_program(
    part: LibraryPart, program: CudaProgram, machine: Machine, sizes: Sequence[CallSize],
    host: HostProgram, folder: Path, code: bytes | None = None,
) -> Path:  # fmt: skip
    """Write the folder; the path of its header. Raises LauncherError."""
    if sizes:
        told = " and ".join(size.name for size in sizes)
        raise LauncherError(
            f"{part.name} is for any {told}, and an exported host program for one call's extents",
            hint="leave out dynamic, and export a kernel for each length",
        )
    tile = part.versions[0][1]
    words = _words(part, program, machine, host, tile)
    name = words["name"]
    more = filled(host.source.read_text(encoding="utf-8"), **words)
    words |= {"driver": more} | {"more": _handles(name, host)}
    texts = {"src/{}.c": "host.c", "examples/example.c": "example.c", "build.sh": "build.sh"}
    plain = words | {"driver": host.driver}
    files = {
        path.format(name): filled(_template(file), **words) for path, file in texts.items()
    } | {
        f"include/{name}.h": filled(_template("host.h"), **plain),
        "README.md": filled(_template("README.md"), **plain),
        "examples/check.h": check_header(),
        f"{name}.{host.text}": program.source,
    }
    for place in ("include", "src", "examples/data"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        (folder / path).write_text(text, encoding="utf-8")
    build = folder / "build.sh"
    build.chmod(build.stat().st_mode | stat.S_IXUSR)
    if code is not None:
        (folder / f"{name}.{host.code}").write_bytes(code)
    if part.reference is not None:
        for path, content in part.reference.files(
            zip(tile.params, part.roles, strict=True)
        ).items():
            (folder / "examples/data" / path).write_bytes(content)
    return folder / f"include/{name}.h"


def _words(
    part: LibraryPart, program: CudaProgram, machine: Machine, host: HostProgram, tile: TileProgram
) -> dict[str, str]:
    tensors = [tile.buffer(name) for name in program.params]
    name = f"septran_{part.name}"
    scalars = "".join(f", {C_TYPES[dtype]} {n}" for n, dtype in program.scalars)
    compiled = host.compile and f"{filled(host.compile, name=name, arch=program.arch)}\n"
    return {
        "name": name, "upper": name.upper(), "summary": part.summary.replace("*/", "* /"),
        "version": sys.modules["septran"].__version__, "machine": machine.name,
        "language": host.language, "driver": host.driver, "queue": host.queue,
        "memory": host.memory, "text": f"{name}.{host.text}", "code": f"{name}.{host.code}",
        "logic": part.hashes.get("logic", ""), "mapping": part.hashes.get("mapping", ""),
        "arguments": "\n".join(_described(b, r) for b, r in zip(tensors, part.roles, strict=True)),
        "prototype": "".join(
            f", {'const ' * (role == 'input')}{C_TYPES[b.dtype]} *{b.name}"
            for b, role in zip(tensors, part.roles, strict=True)
        ) + scalars,
        "numbers": scalars, "tensors": str(len(tensors)), "scratch": str(len(program.scratch)),
        "launches": str(len(program.launches)),
        "most": str(max(len(launch.arguments) for launch in program.launches)),
        "table": _table(program),
        "bytes": ", ".join(
            str(n) for n in (*map(_bytes, tensors), *(size for _, size in program.scratch))
        ),
        "read": _flags(role != "output" for role in part.roles),
        "written": _flags(role != "input" for role in part.roles),
        "addresses": "".join(f"&{n}, " for n, _ in program.scalars),
        "pointers": ", ".join(b.name for b in tensors),
        "passed": "".join(f", {n}" for n, _ in program.scalars),
        "extra": "".join(
            f"\n/* {what}, as a call needs it that shares memory with the kernels. */\n"
            f"void *{name}_{word}({name}_kernels *kernels);\n"
            for word, what in host.handles.items()
        ),
        "needs": " and clang" if host.compile else "", "compile": compiled,
        "files": f"| `{name}.{host.code}` | machine code for {program.arch} |\n"
        if host.compile else "",
        **_example(part, tensors, program),
    }  # fmt: skip


def _flags(values: Iterable[bool]) -> str:
    return ", ".join(str(int(value)) for value in values)


def _count(buffer: Buffer) -> int:
    return math.prod(int(n) for n in buffer.shape)


def _bytes(buffer: Buffer) -> int:
    return _count(buffer) * itemsize(buffer.dtype)


def _described(buffer: Buffer, role: str) -> str:
    shape = ", ".join(map(str, buffer.shape))
    return f" *   {buffer.name} [{shape}] {buffer.dtype}: {role}"


def _table(program: CudaProgram) -> str:
    """The launches as C has them: what each argument is."""
    places = {name: n for n, name in enumerate((*program.params, *(n for n, _ in program.scratch)))}
    numbers = {name: n for n, (name, _) in enumerate(program.scalars)}

    def one(argument: Argument) -> str:
        if isinstance(argument, ScalarArgument):
            return f"{{{numbers[argument.name]}, {itemsize(argument.dtype)}}}"
        assert isinstance(argument, Pointer), "only NVIDIA's GPUs have maps of tensors"
        return f"{{{places[argument.buffer]}, 0}}"

    return "".join(
        f'    {{"{x.kernel}", {x.grid}, {x.block}, {x.shared_bytes}, {len(x.arguments)},\n'
        f"     {{{', '.join(map(one, x.arguments))}}}}},\n"
        for x in program.launches
    )


def _handles(name: str, host: HostProgram) -> str:
    return "".join(
        f"void *{name}_{word}({name}_kernels *kernels) {{ return kernels->device.{word}; }}\n"
        for word in host.handles
    )


def _example(part: LibraryPart, tensors: Sequence[Buffer], program: CudaProgram) -> dict[str, str]:
    """What the example makes, passes and compares."""
    made, compared, reference = [], [], part.reference
    for buffer, role in zip(tensors, part.roles, strict=True):
        count, word, dtype = _count(buffer), buffer.name, buffer.dtype
        size = f"{count}, sizeof(*{word})"
        room = f"new_tensor({size})"
        if role != "output" and reference is not None:
            room = f'read_tensor("data/{word}", {size})'
        made.append(f"  {C_TYPES[dtype]} *{word} = {room};")
        if role != "output" and reference is None:
            made.append(f"  memset({word}, 0, {count} * sizeof(*{word}));")
        if role != "input" and reference is not None:
            both = ", ".join(
                f'read_tensor("data/{word}.{of}", {count}, sizeof(double))'
                for of in ("exact", "bound")
            )
            compared.append(
                f'  if (!wrong) wrong = compare("{word}", "{dtype}", {word}, {count}, {both});'
            )
    given = reference.scalars if reference is not None else {}
    numbers = [given.get(n, 1) for n, _ in program.scalars]
    words = [repr(int(x) if isinstance(x, bool | np.bool_) else x) for x in numbers]
    return {
        "made": "\n".join(made), "compared": "\n".join(compared),
        "call": "".join(f", {word}" for word in (*(b.name for b in tensors), *words)),
    }  # fmt: skip


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
