"""Functions of one's own as object code: the user's file, compiled by this system's C++ compiler.

A generated file includes the user's, compares the function's type with the prototype that the leaf
asks for, and gives it a C name that says which source and which compiler it was made from.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from septran.errors import TargetError
from septran.location import Location
from septran.machine.model import Instruction, Machine
from septran.mapping.extern.function import digest, prototype, tile_type
from septran.mapping.extern.name import EXTERN
from septran.targets.cpu.run.isa import foreign_system, llvm_arch, native, processor
from septran.task.tree import TaskNode
from septran.temporary import TemporaryFolder
from septran.tile.nodes import Compute, TileProgram, nodes

HEADER = Path(__file__).with_name("septran_leaf.h")
"""The header that users' files include."""
OPTIONS = ("-std=c++17", "-O3", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-math-errno")
"""No exception may pass through a kernel; without the two, the objects need no C++ library."""
SECONDS = 300
"""Time after which the compiler is given up."""
_ERROR = re.compile(r"^(.+?):(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$", re.MULTILINE)
_UNDEFINED = re.compile(r"undefined reference to [`'](.+?)'$", re.MULTILINE)
_GENERATED = "septran_call.cpp"


class NoCxxCompilerError(TargetError):
    """A mapping names a function of the user's, and there is no C++ compiler here."""

    code = "SEP522"


class ExternCompileError(TargetError):
    """The C++ compiler refused the user's file."""

    code = "SEP523"


class ExternSignatureError(TargetError):
    """A file has no function of that name with the parameters that the leaf's tensors ask for."""

    code = "SEP524"


def symbol(instruction: Instruction, task: TaskNode, machine: Machine) -> str:
    """The C name of a function, which differs wherever its code may."""
    made = (instruction.options["digest"], _caller(instruction, task), *_command(machine))
    return f"septran_leaf_{hashlib.sha256(repr(made).encode()).hexdigest()[:24]}"


def functions_of(program: TileProgram) -> bytes:
    """The functions that a program calls as an object file; empty where it calls none.

    Raises TargetError.
    """
    found = _objects(program)
    if not found:
        return b""
    compiler = _compiler(llvm_arch(program.machine))
    made = _joined(tuple(found.values()), compiler)
    _require_defined(made, compiler, program)
    return made


def _require_defined(made: bytes, compiler: str, program: TileProgram) -> None:
    """Raise ExternCompileError where functions call what neither they nor the system define.

    The process would end at the first call, without a word of which leaf it was.
    """
    with TemporaryFolder(EXTERN) as folder:
        (folder / "all.o").write_bytes(made)
        command = [compiler, "-shared", "-Wl,-z,defs", "all.o", "-o", "functions.so"]
        said = _run(command, folder, required=False)
    if said is None:
        return
    named = [n for n in program.machine.instructions if n.primitive == EXTERN]
    missing = ", ".join(sorted(set(_UNDEFINED.findall(said))))
    raise ExternCompileError(
        f"{', '.join(n.name for n in named)}: "
        + (f"nothing defines {missing}" if missing else f"it cannot be linked: {said[-400:]}"),
        named[0].location,
        hint="define it in the same file, or include the file that does",
    )


def _objects(program: TileProgram) -> dict[str, bytes]:
    """The object file of each function by its symbol."""
    found: dict[str, bytes] = {}
    for node in nodes(program.body):
        if isinstance(node, Compute) and node.meaning is not None:
            instruction = program.machine.instruction(node.instruction)
            name = symbol(instruction, node.meaning, program.machine)
            if name not in found:
                found[name] = _compiled(instruction, node.meaning, program.machine, name)
    return found


def _joined(objects: Sequence[bytes], compiler: str) -> bytes:
    """One object file of several, in which they find each other."""
    if len(objects) == 1:
        return objects[0]
    with TemporaryFolder(EXTERN) as folder:
        names = [f"part{n}.o" for n in range(len(objects))]
        for name, content in zip(names, objects, strict=True):
            (folder / name).write_bytes(content)
        _run([compiler, "-r", "-nostdlib", *names, "-o", "all.o"], folder)
        return (folder / "all.o").read_bytes()


def linked(code: bytes, program: TileProgram) -> bytes:
    """A kernel's object file together with the functions that it calls."""
    functions = functions_of(program)
    compiler = _compiler(llvm_arch(program.machine))
    return _joined((code, functions), compiler) if functions else code


def shared_library(program: TileProgram) -> bytes:
    """The functions that a program calls as a shared library; empty where it calls none."""
    made = functions_of(program)
    if not made:
        return b""
    with TemporaryFolder(EXTERN) as folder:
        (folder / "all.o").write_bytes(made)
        compiler = _compiler(llvm_arch(program.machine))
        _run([compiler, "-shared", "all.o", "-o", "functions.so"], folder)
        return (folder / "functions.so").read_bytes()


@functools.lru_cache(maxsize=64)
def provide(library: bytes) -> None:
    """Let code that LLVM makes in this process find the functions of a shared library."""
    if library:
        with TemporaryFolder(EXTERN) as folder:
            (folder / "functions.so").write_bytes(library)
            ctypes.CDLL(str(folder / "functions.so"), mode=ctypes.RTLD_GLOBAL)


def _compiler(arch: str) -> str:
    system = foreign_system(arch)
    return f"{system}-g++" if system else os.environ.get("CXX", "c++")


def _command(machine: Machine) -> tuple[str, ...]:
    """The compiler with its version and its options, the processor among them."""
    arch = llvm_arch(machine)
    compiler = _compiler(arch)
    own = machine.arch in ("", "native") and arch == native().arch and "x86-64" not in arch
    word = "-mcpu" if foreign_system(arch) else "-march"
    return compiler, _version(compiler), *OPTIONS, f"{word}={'native' if own else processor(arch)}"


@functools.cache
def _version(compiler: str) -> str:
    path = shutil.which(compiler)
    if path is None:
        return ""
    done = subprocess.run([path, "--version"], capture_output=True, check=False, timeout=SECONDS)
    return done.stdout.decode(errors="replace").partition("\n")[0]


def _compiled(instruction: Instruction, task: TaskNode, machine: Machine, name: str) -> bytes:
    compiler, version, *options = _command(machine)
    file, where = Path(instruction.options["file"]), instruction.location
    if not version:
        raise NoCxxCompilerError(
            f"{instruction.name} needs a C++ compiler, and there is no {compiler} here", where,
            hint="install one (Debian's g++, or g++-aarch64-linux-gnu), or name it in CXX",
        )  # fmt: skip
    with TemporaryFolder(EXTERN) as folder:
        text = _caller(instruction, task).replace("@SYMBOL@", name)
        (folder / _GENERATED).write_text(text, encoding="utf-8")
        command = [compiler, *options, f"-I{HEADER.parent}", f"-iquote{file.parent}"]
        command += [f'-DSEPTRAN_FILE="{file}"', "-c", _GENERATED, "-o", "leaf.o"]
        failed = _run(command, folder, required=False)
        if failed is not None:
            raise _refused(failed, instruction, task)
        if digest(file) != instruction.options["digest"]:
            raise ExternCompileError(f"{file} has changed meanwhile", where, hint="compile anew")
        return (folder / "leaf.o").read_bytes()


def _caller(instruction: Instruction, task: TaskNode) -> str:
    """The file that includes the user's, and calls the function by a C name."""
    function = instruction.options["function"]
    types = ", ".join(tile_type(p) for p in task.params)
    declared, passed = [], []
    for n, param in enumerate(task.params):
        kind = tile_type(param)
        element = kind.removeprefix("septran::tile<").rpartition(",")[0]
        extents = [f"n{n}_{axis}" for axis in range(len(param.shape))]
        strides = [f"s{n}_{axis}" for axis in range(len(param.shape))]
        declared.append(", ".join([f"{element} *p{n}", *_integers(extents), *_integers(strides)]))
        passed.append(f"{kind}{{p{n}, {{{', '.join(extents)}}}, {{{', '.join(strides)}}}}}")
    return "\n".join(
        (
            '#include "septran_leaf.h"',
            "#include SEPTRAN_FILE",
            f"static constexpr void (*septran_function)({types}) = &{function};",
            f'extern "C" void @SYMBOL@({", ".join(declared)}) {{',
            f"  septran_function({', '.join(passed)});",
            "}",
            "",
        )
    )


def _integers(names: Sequence[str]) -> Iterator[str]:
    return (f"std::int64_t {name}" for name in names)


def _refused(said: str, instruction: Instruction, task: TaskNode) -> TargetError:
    """The compiler's first error as one of the user's file, or of the function's type."""
    function, where = str(instruction.options["function"]), instruction.location
    wanted = prototype(task, function)
    found = _ERROR.search(said)
    if found is None:
        return ExternCompileError(f"{instruction.name} does not compile: {said[-400:]}", where)
    file, line, column, message = found.groups()
    if Path(file).name == _GENERATED:
        return ExternSignatureError(
            f"{Path(instruction.options['file']).name} has no {wanted}: {message}", where,
            hint=f"the leaf's tensors ask for this prototype:\n{wanted};",
            notes=[("the leaf is here", task.location)],
        )  # fmt: skip
    place = Location(file, int(line), int(column) if column else None)
    notes = [("the mapping names it here", where)] if where else []
    return ExternCompileError(f"{message} (in {instruction.name})", place, notes=notes)


def _run(command: Sequence[str], folder: Path, *, required: bool = True) -> str | None:
    """Run a compiler; what it said where it failed, None where all is well."""
    environment: Mapping[str, str] = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        list(command), cwd=folder, capture_output=True, check=False, timeout=SECONDS,
        env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace")
    if required:
        raise ExternCompileError(f"{command[0]} cannot link it: {said.strip()[-400:]}")
    return said
