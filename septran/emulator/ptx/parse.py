"""PTX text taken apart: variables, functions, and the statements of their bodies by line.

PTX ISA, chapters 4 "Syntax" and 5 "State Spaces, Types, and Variables".
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from septran.emulator.errors import CudaPlace, UnknownInstructionError
from septran.emulator.inline_asm import split
from septran.emulator.launch import registers_at_launch
from septran.emulator.ptx.instructions import TYPES, size_of

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(.*)$")
_CALLER = re.compile(r"inlined_at\s+(\d+)\s+(\d+)")
_BOUNDARY = re.compile(r"^\s*(?:\.\w+\s+)*\.(entry|func)\b")


def source_of(lines: Sequence[str], line: int) -> str:
    """``gemm.py:12`` of the nearest ``.loc`` above in the function; empty where there is none.

    Line 0 stands for no line of the source, and is passed over. `line` is 1-based.
    """
    for at in range(min(line, len(lines)) - 1, -1, -1):
        if _BOUNDARY.match(lines[at]):
            break
        found = _LOC.match(lines[at])
        if found and found[2] != "0":
            names = _names("\n".join(lines))
            caller = _CALLER.search(found[4])
            text = f"{names.get(found[1], 'file ' + found[1])}:{found[2]}"
            if caller and caller[2] != "0":
                text += f", inlined at {names.get(caller[1], 'file ' + caller[1])}:{caller[2]}"
            return text
    return ""


def _names(text: str) -> dict[str, str]:
    return {n: PurePosixPath(path).name for n, path in _FILE.findall(text)}


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"([$%\w]+)\s*:(?!:)")
# These end with their line; all other directives end with a semicolon or a body.
_LINEWISE = re.compile(r"\.(loc|file|version|target|address_size)\b[^\n]*")
_HEADER = re.compile(r"((\.(visible|weak|extern|common)\s+)*)\.(entry|func)\b")
_VARIABLE = re.compile(
    r"(?:\.(?:visible|weak|extern|common)\s+)*\.(?P<space>global|const|shared|local|param|tex)\s+"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(?P<align>\d+)\s+)?(?:\.v(?P<vector>[248])\s+)?"
    r"\.(?P<type>\w+)\s+(?:\.ptr\s*(?:\.\w+\s*)*(?:\.align\s+\d+\s*)?)?"
    r"(?P<name>[$%\w]+)\s*(?P<extents>(?:\[[^\]]*\]\s*)*)(?:=\s*(?P<initial>.*))?$",
    re.DOTALL,
)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class PtxStatement:
    """A statement of a body, a bracket of a scope, or a label."""

    kind: str
    """``instruction``, ``directive``, ``label``, ``{`` or ``}``."""
    text: str
    """Without its semicolon, with single spaces."""
    line: int
    """The line where it starts, 1-based."""


@dataclass(frozen=True)
class Variable:
    """A variable of a state space, or a parameter."""

    name: str
    space: str
    type: str
    align: int
    bytes: int
    """0 of an array without an extent: dynamic shared memory."""
    initial: tuple[str, ...] = ()
    """The elements that it starts with, in order; empty where none are given."""
    line: int = 0


@dataclass(frozen=True)
class PtxFunction:
    """A kernel (``.entry``) or a device function (``.func``)."""

    name: str
    kernel: bool
    line: int
    """The line of its header, 1-based."""
    opens: int
    """The line of the bracket that opens its body."""
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...]
    directives: str
    """``.maxntid`` and others, as they stand in the text."""
    body: tuple[PtxStatement, ...] | None
    """The statements in order; None where it is only declared."""

    def numbers(self, directive: str) -> tuple[int, ...]:
        """The numbers after a performance directive, such as ``.maxntid``; empty without it."""
        found = re.search(rf"\.{directive}\s+([\d,\s]+)", self.directives)
        return tuple(int(n) for n in found[1].replace(",", " ").split()) if found else ()

    def registers(self, threads: int) -> int:
        """Registers of a thread at launch, in a block of that many threads.

        PTX ISA, "Performance-Tuning Directives": ``.maxnreg`` says them, else ptxas gives what
        the most threads of a block and the fewest blocks of a multiprocessor leave.
        """
        if most := self.numbers("maxnreg"):
            return most[0]
        bound = math.prod(self.numbers("reqntid") or self.numbers("maxntid") or (threads,))
        return registers_at_launch(bound, *self.numbers("minnctapersm")[:1])


@dataclass(frozen=True)
class Module:
    """A PTX file."""

    target: str
    variables: tuple[Variable, ...]
    functions: tuple[PtxFunction, ...]
    text: str = field(repr=False)

    @property
    def kernels(self) -> tuple[PtxFunction, ...]:
        """Functions that can be launched."""
        return tuple(f for f in self.functions if f.kernel and f.body is not None)

    def kernel(self, name: str) -> PtxFunction | None:
        """The kernel of that name."""
        return next((f for f in self.kernels if f.name == name), None)


def is_ptx(text: str) -> bool:
    """Whether `text` is PTX: its first words are ``.version``."""
    return _COMMENT.sub("", text).lstrip().startswith(".version")


def failure(message: str, text: str, line: int) -> UnknownInstructionError:
    """An error at a line of PTX text."""
    lines = text.splitlines()
    shown = lines[line - 1].strip()[:160] if 1 <= line <= len(lines) else ""
    place = CudaPlace(line, shown)
    error = UnknownInstructionError(
        f"{message}\n  at {place}",
        hint="an instruction becomes known in septran/emulator/ptx/",
    )
    error.place = place
    return error


@functools.lru_cache(maxsize=16)
def parse(text: str) -> Module:
    """`text` as a module; raises UnknownInstructionError with the line."""
    target = _TARGET.search(text)
    if not target:
        raise failure("PTX text has no .target", text, 1)
    variables: list[Variable] = []
    functions: list[PtxFunction] = []
    for piece, line, body in _module_pieces(text):
        if header := _HEADER.match(piece):
            functions.append(_function(piece, header, line, body, text))
        elif found := variable_of(piece, line):
            variables.append(found)
        elif not piece.startswith((".section", ".pragma", ".alias")):
            raise failure(f"no PTX directive that is known: {piece[:80]!r}", text, line)
    return Module(target[1], tuple(variables), tuple(functions), text)


# ------------------------------------------------------------------ the module's pieces
def _blanked(text: str) -> str:
    """`text` with its comments as spaces: lines and offsets stay."""
    return _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def _module_pieces(text: str) -> Iterator[tuple[str, int, tuple[int, str] | None]]:
    """Each directive with its line; of functions the body's offset and text, too."""
    clean, at = _blanked(text), 0
    while True:
        at += len(clean[at:]) - len(clean[at:].lstrip())
        if at >= len(clean):
            return
        if linewise := _LINEWISE.match(clean, at):
            at = linewise.end()
            continue
        line = clean.count("\n", 0, at) + 1
        end, closes = _end_of_piece(clean, at)
        piece = " ".join(clean[at:end].split())
        if closes is None:
            yield piece, line, None
            at = end + 1
        else:
            yield piece, line, (end + 1, clean[end + 1 : closes])
            at = closes + 1


def _end_of_piece(text: str, at: int) -> tuple[int, int | None]:
    """Return the end of a directive: its semicolon, or its body's bracket with that one's end."""
    depth, initial = 0, False
    for n in range(at, len(text)):
        character = text[n]
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "=":
            initial = True
        elif character == ";" and depth == 0:
            return n, None
        # Behind `=` brackets are around the elements of an array, not around a body.
        elif character == "{" and initial:
            depth += 1
        elif character == "}" and initial:
            depth -= 1
        elif character == "{" and depth == 0:
            return n, _closing(text, n)
    raise failure("a directive has no end", text, text.count("\n", 0, at) + 1)


def _closing(text: str, opening: int) -> int:
    depth = 0
    for found in re.finditer(r"[{}]", text[opening:]):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return opening + found.start()
    raise failure("a bracket is not closed", text, text.count("\n", 0, opening) + 1)


def variable_of(text: str, line: int) -> Variable | None:
    """``.shared .align 16 .b8 name[64]``; None where `text` is something else."""
    found = _VARIABLE.match(text)
    if not found or found["type"] not in TYPES:
        return None
    size = size_of(TYPES[found["type"]]) * int(found["vector"] or 1)
    extents = re.findall(r"\[\s*(\d*)\s*\]", found["extents"])
    count = 1
    for extent in extents:
        # Without an extent: as many as its elements say, or 0, which is dynamic shared memory.
        count *= int(extent) if extent else 0
    initial = (found["initial"] or "").replace("{", " ").replace("}", " ")
    elements = tuple(e.strip() for e in initial.split(",") if e.strip())
    if extents and "" in extents and elements:
        count = len(elements)
    # PTX ISA, `.align`: by default a multiple of the element's, or vector's, own size.
    align = int(found["align"] or size)
    return Variable(found["name"], found["space"], found["type"], align, size * count, elements,
                    line)  # fmt: skip


def _function(
    piece: str, header: re.Match[str], line: int, body: tuple[int, str] | None, text: str
) -> PtxFunction:
    found = re.match(
        r"\s*(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[$%\w]+)\s*(?:\((?P<parameters>[^)]*)\))?"
        r"(?P<directives>.*)$",
        piece[header.end() :],
    )
    if not found:
        raise failure(f"no header of a function: {piece[:80]!r}", text, line)
    parameters = tuple(_parameters(found["parameters"], text, line))
    results = tuple(_parameters(found["results"], text, line))
    opens = text.count("\n", 0, body[0]) + 1 if body else line
    statements = tuple(_statements(body[1], opens)) if body else None
    return PtxFunction(
        found["name"], header[4] == "entry", line, opens, parameters, results,
        found["directives"], statements,
    )  # fmt: skip


def _parameters(listed: str | None, text: str, line: int) -> Iterator[Variable]:
    for one in split(listed or "", ","):
        if not one.strip():
            continue
        if re.match(r"\s*\.reg\b", one):
            raise failure("parameters in registers are not known", text, line)
        variable = variable_of(one.strip(), line)
        if variable is None:
            raise failure(f"no parameter: {one.strip()!r}", text, line)
        yield variable


# ------------------------------------------------------------------ a body's statements
def _statements(body: str, line: int) -> Iterator[PtxStatement]:
    """Statements in order; `line` is that of the body's first character."""
    at, counted = 0, 0
    while True:
        at += len(body[at:]) - len(body[at:].lstrip())
        if at >= len(body):
            return
        line += body.count("\n", counted, at)
        counted = at
        if body[at] in "{};":
            if body[at] != ";":
                yield PtxStatement(body[at], body[at], line)
            at += 1
        elif linewise := _LINEWISE.match(body, at):
            yield PtxStatement("directive", " ".join(linewise[0].split()), line)
            at = linewise.end()
        elif label := _LABEL.match(body, at):
            yield PtxStatement("label", label[1], line)
            at = label.end()
        else:
            end = body.find(";", at)
            end = len(body) if end < 0 else end
            text = " ".join(body[at:end].split())
            yield PtxStatement("directive" if text[0] == "." else "instruction", text, line)
            at = end + 1
