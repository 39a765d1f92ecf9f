"""Leaves by functions of one's own: ``leaf_task_bindings: {tile: "extern kernels.cpp:tile"}``.

The mapping names a C++ file beside itself and a function in it, which computes a leaf in place of
the machine's instructions. Here the name is read, the file found, and the function's prototype made
from the leaf's tensors; what the function computes is the leaf's own meaning, which stays that of
the reference, the interpreter and `Kernel.check`. The target compiles the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from septran.backends import backend_of
from septran.errors import MappingError
from septran.ir import expressions as ex
from septran.location import Location
from septran.machine.model import Instruction, Machine
from septran.mapping.extern.name import EXTERN, FORM
from septran.mapping.resolved import Setting
from septran.task.tree import Assign, Loop, Param, TaskNode, statements

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
C_TYPES = {
    "float32": "float", "float64": "double", "bool": "bool",
    "float16": "septran::float16", "bfloat16": "septran::bfloat16",
}  # fmt: skip
"""The C++ types of elements that <cstdint> does not name."""


class ExternSourceError(MappingError):
    """A mapping names a file or a function in a way that cannot be compiled."""

    code = "SEP327"


class ExternLeafError(MappingError):
    """A function of the user's cannot compute this leaf, as it has no way to be told enough."""

    code = "SEP328"


def extern_of(wanted: Sequence[Setting[str]]) -> Setting[str] | None:
    """Return the function that a list of instructions names; None where it has only instructions.

    Raises ExternSourceError where others stand beside it.
    """
    named = [setting for setting in wanted if setting.value.startswith(f"{EXTERN} ")]
    if named and len(wanted) > 1:
        message = f"{named[0].value!r} is one of several: a function takes whatever its leaf is"
        raise ExternSourceError(message, named[0].where, hint="name it alone")
    return named[0] if named else None


def instruction(machine: Machine, task: TaskNode, setting: Setting[str]) -> Instruction:
    """Return a function as an instruction of the machine; raises Extern...Error."""
    match = FORM.fullmatch(setting.value)
    assert match is not None, "the mapping was checked when it was read"
    if not backend_of(machine.backend).compiles_functions:
        raise ExternLeafError(
            f"{machine.name} runs no functions of one's own: {task.variant} is to be {match[2]}",
            setting.where,
            hint="they are for CPUs; give this machine's mapping an instruction for the leaf",
        )
    _require_simple(task, setting)
    stub = prototype(task, match[2])
    file = _found(match[1], setting.where, stub)
    options = {"file": str(file), "function": match[2], "digest": digest(file)}
    return Instruction(
        setting.value, EXTERN, options=MappingProxyType(options), location=setting.where
    )


def _found(name: str, where: Location | None, stub: str) -> Path:
    """Return the file of that name beside the mapping; raises ExternSourceError."""
    folder = Path(where.file).parent if where and Path(where.file).is_file() else Path()
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise ExternSourceError(f"{name} is outside of the mapping's folder", where)
    if not file.is_file():
        hint = f'a file that begins so would do:\n#include "septran_leaf.h"\n{stub} {{ ... }}'
        raise ExternSourceError(f"there is no file {file}", where, hint=hint)
    return file


def digest(file: Path) -> str:
    """Return the SHA-256 of a source file and of all files that it includes in quotes."""
    found = hashlib.sha256()
    for part in _with_included(file.resolve(), set()):
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def _with_included(file: Path, seen: set[Path]) -> Iterator[bytes]:
    if file in seen or not file.is_file():
        return  # a system's header, or SepTran's own
    seen.add(file)
    content = file.read_bytes()
    yield content
    for name in _INCLUDE.findall(content.decode("utf-8", "replace")):
        yield from _with_included((file.parent / name).resolve(), seen)


def ordered(task: TaskNode) -> tuple[Param, ...]:
    """Return a leaf's parameters, the written one first, as a tile program has operands."""
    return tuple(sorted(task.params, key=lambda p: not p.writes))


def prototype(task: TaskNode, function: str) -> str:
    """Return how a function is declared that computes a leaf."""
    tiles = ", ".join(f"{tile_type(p)} {p.name}" for p in task.params)
    return f"void {function.rpartition('::')[2]}({tiles})"


def tile_type(param: Param) -> str:
    """Return the C++ type of a parameter: constant elements where it is only read."""
    kind = C_TYPES.get(param.dtype, f"std::{param.dtype}_t")
    return f"septran::tile<{'' if param.writes else 'const '}{kind}, {len(param.shape)}>"


def _require_simple(task: TaskNode, setting: Setting[str]) -> None:
    """Raise ExternLeafError where a leaf's meaning needs more than its tensors' elements."""
    reason = _obstacle(task)
    if reason is not None:
        raise ExternLeafError(
            f"{setting.value!r} cannot compute {task.variant}: {reason}",
            setting.where,
            hint="write a leaf of this part alone, and bind that",
            notes=[("the leaf is here", task.location)],
        )


def _obstacle(task: TaskNode) -> str | None:
    written = [p.name for p in task.params if p.writes]
    if not task.leaf:
        return "it launches tasks, and is no leaf"
    if len(written) != 1:
        return f"it writes {' and '.join(written) or 'nothing'}, and a function writes one tensor"
    wide = [p.name for p in task.params if p.dtype.startswith("float8")]
    if wide:
        return f"{wide[0]} has elements of 8 bits, of which C++ has no type"
    inner = {v for s in statements(task.body) if isinstance(s, Loop) for v in s.variables}
    for statement in statements(task.body):
        for part in ex.walk(statement.value) if isinstance(statement, Assign) else ():
            if isinstance(part, ex.Scalar):
                return f"it uses the scalar {part.name}, which only its tensors could bring"
            outer = isinstance(part, ex.IndexValue) and part.index.variables() - inner
            if outer or isinstance(part, ex.Position):
                return "it computes with positions in the caller's tensor"
    return None


def with_instructions(machine: Machine, found: Sequence[Instruction]) -> Machine:
    """Return a machine with the functions that a mapping brings, each once."""
    fresh = {i.name: i for i in found}
    return replace(machine, instructions=(*machine.instructions, *fresh.values()))
