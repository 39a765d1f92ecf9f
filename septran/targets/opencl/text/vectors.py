"""Moves of vectors in OpenCL C: as accesses of a vector type, which code knows to be aligned.

TVM's printer writes `vload4` and `vstore4`, which promise the compiler an element's alignment
alone; and a function of a driver's library hides from it that they touch an array of other
elements beside: PoCL 3.0 then takes the values that an array had before a `vstore2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ALIGNED = "__attribute__((aligned(16)))"
_ARRAY = re.compile(
    r"((?:__global|__local) )?(?:__attribute__\(\(.*?\)\) )?(\w+)(?:\* restrict (\w+)| (\w+)\[)"
)
_CAST = re.compile(r"\((?:(__global|__local) )?(\w+)\*\)")
_MOVE = re.compile(r"v(load|store)(\d)\(")
_PRIVATE = re.compile(r"^(\s*)(u?(?:char|short|int|long)|float|double)( \w+\[\d+\];)", re.MULTILINE)


def with_vectors(kernel: str) -> str:
    """The text of one kernel with its `vload` and `vstore` as accesses of vectors."""
    arrays = {m[3] or m[4]: (m[1] or "", m[2]) for m in _ARRAY.finditer(kernel)}
    return _PRIVATE.sub(rf"\1{ALIGNED} \2\3", _accesses(kernel, arrays))


def _accesses(text: str, arrays: Mapping[str, tuple[str, str]]) -> str:
    found: list[str] = []
    end = 0
    while (move := _MOVE.search(text, end)) is not None:
        found.append(text[end : move.start()])
        operands, end = _operands(text, move.end())
        space, element = _place(operands[-1], arrays)
        found.append(f"*({space}{element}{move[2]}*)({operands[-1]})")
        if move[1] == "store":
            found.append(f" = {_accesses(operands[0], arrays)}")
    return "".join([*found, text[end:]])


def _place(pointer: str, arrays: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """The address space and the element of what a pointer goes to."""
    cast = _CAST.match(pointer)
    if cast is not None:
        return (f"{cast[1]} " if cast[1] else ""), cast[2]
    return arrays[pointer.partition(" ")[0]]


def _operands(text: str, start: int) -> tuple[list[str], int]:
    """The operands of a call whose parenthesis was opened, and where it ends."""
    depth, at, begin = 1, start, start
    found: list[str] = []
    while depth:
        character = text[at]
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth or (depth == 1 and character == ","):
            found.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return found, at
