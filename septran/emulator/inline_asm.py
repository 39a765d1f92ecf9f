"""Inline assembly in CUDA text: find each ``asm`` statement and take it apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ASM = re.compile(r"\b(?:asm|__asm__)(?:\s+(?:volatile|__volatile__))?\s*\(")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r'(?:\[(\w+)\]\s*)?"([^"]*)"\s*\((.*)\)$', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class AsmOperand:
    """One C++ expression that assembly reads or writes."""

    constraint: str
    """Its type: r, l, f, d, h or n; outputs start with = or +."""
    expression: str
    name: str = ""
    """The name by which ``%[name]`` refers to it; empty where only its number does."""

    @property
    def written(self) -> bool:
        """Whether assembly writes it."""
        return self.constraint[:1] in "=+"

    @property
    def kind(self) -> str:
        """The constraint's letter."""
        return self.constraint.lstrip("=+&")


@dataclass(frozen=True)
class AsmStatement:
    """An ``asm`` statement of CUDA text."""

    start: int
    end: int
    """Offsets in the text; the semicolon is inside."""
    body: str
    """The PTX, its strings joined."""
    operands: tuple[AsmOperand, ...]
    """Outputs first, as ``%0``, ``%1``... count them."""


def statements(text: str) -> Iterator[AsmStatement]:
    """Each ``asm`` statement of `text`."""
    at = 0
    while found := _ASM.search(text, at):
        close = matching(text, found.end() - 1)
        at = close + 1
        while text[at : at + 1].isspace():
            at += 1
        at += text[at : at + 1] == ";"
        # GCC, extended assembly: the template, outputs, inputs, and what is overwritten besides.
        sections = split(text[found.end() : close], ":")
        operands = [_operand(o) for part in sections[1:3] for o in split(part, ",") if o.strip()]
        body = "".join(_unescaped(s) for s in _STRING.findall(sections[0]))
        yield AsmStatement(found.start(), at, body, tuple(operands))


def _operand(text: str) -> AsmOperand:
    found = _OPERAND.match(text.strip())
    if not found:
        raise ValueError(f"no operand of inline assembly: {text.strip()}")
    return AsmOperand(found[2], found[3].strip(), found[1] or "")


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text)


def matching(text: str, opening: int) -> int:
    """Offset of the bracket that closes the one at `opening`; strings are skipped."""
    for at, character, depth in _outside_strings(text, opening):
        if character in ")]}" and not depth:
            return at
    raise ValueError("a bracket is not closed")


def split(text: str, separator: str) -> list[str]:
    """`text` at each `separator` that is in no bracket and no string; ``::`` of C++ names stays.

    In a list of sections (`separator` ``:``) two colons are two separators.
    """
    parts, start = [], 0
    for at, character, depth in _outside_strings(text, 0):
        if character == separator and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _outside_strings(text: str, at: int) -> Iterator[tuple[int, str, int]]:
    """Yield each character from `at` on with its offset, and the depth of brackets behind it."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character == '"':
            at = _STRING.match(text, at).end()  # type: ignore[union-attr]
            continue
        depth += (character in "([{") - (character in ")]}")
        yield at, character, depth
        at += 1
