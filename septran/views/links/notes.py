"""Notes in generated code: which lines each one speaks of."""

from __future__ import annotations

import re
from dataclasses import dataclass

from septran.views.links.origins import note_text

_TEXT = r"(?P<note>(?:[^\"\\]|\\.)*)"
_KINDS = {
    "block": re.compile(
        rf'^\s*with T\.attr\(\{{"origin": "{_TEXT}"\}}\):$|^\s*# (?P<said>\S.* \[[^\]]+:\d+.*\])$'
    ),
    "rest": re.compile(rf'^\s*T\.attr\(\{{"origin": "{_TEXT}"\}}\)$'),
    "next": re.compile(
        r"^\s*(?:/\* (?P<c>.*?) \*/|// (?P<cpp>\S.*)"
        rf'|T\.call_extern\("\w+", "septran_note", "{_TEXT}"\))$'
    ),
}
"""How far a note reaches: over what is deeper, over the rest of its block, or over the
statements that follow it up to one that holds notes of its own."""
_OPENS = re.compile(r"\s*(?:\}\s*)?(for|while|if|else|with)\b")


@dataclass(frozen=True)
class Note:
    """One note and the lines that it speaks of, its own first."""

    line: int
    text: str
    covered: tuple[int, ...]


def notes_of(text: str) -> tuple[Note, ...]:
    """All notes; a line belongs to the innermost that reaches it."""
    rows = text.splitlines()
    found = {n: kind_text for n, row in enumerate(rows, 1) if (kind_text := _note(row))}
    owners = _owners(rows, found)
    lines: dict[int, list[int]] = {n: [n] for n in found}
    for number, owner in owners.items():
        lines[owner].append(number)
    return tuple(Note(n, found[n][1], tuple(lines[n])) for n in found)


def _note(row: str) -> tuple[str, str] | None:
    for kind, pattern in _KINDS.items():
        match = pattern.match(row)
        if match is not None:
            text = next(value for value in match.groupdict().values() if value is not None)
            return kind, note_text(text.replace('\\"', "'"))
    return None


def indent(row: str) -> int:
    """Return how deep a line stands."""
    return len(row) - len(row.lstrip())


def block(rows: list[str], number: int) -> range:
    """The lines, from 1, that are deeper than line `number` and follow it."""
    depth, end = indent(rows[number - 1]), number + 1
    while end <= len(rows) and (not rows[end - 1].strip() or indent(rows[end - 1]) > depth):
        end += 1
    return range(number + 1, end)


def _owners(rows: list[str], found: dict[int, tuple[str, str]]) -> dict[int, int]:
    """The note of each line that has one."""
    owners: dict[int, int] = {}
    open_notes: list[tuple[int, str, int]] = []
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        depth = indent(row)
        while open_notes and not _reaches(open_notes[-1], depth):
            open_notes.pop()
        if number in found:
            # Two notes on statements of one block: the second ends what the first speaks of.
            if open_notes and open_notes[-1][:2] == (depth, "next"):
                open_notes.pop()
            open_notes.append((depth, found[number][0], number))
            continue
        if open_notes and _has_own(rows, number, found) and _later(open_notes[-1], depth, number):
            open_notes.pop()
        # A closing brace ends a block and is no statement that a note could be on.
        if open_notes and row.strip() != "}":
            owners[number] = open_notes[-1][2]
    return owners


def _reaches(note: tuple[int, str, int], depth: int) -> bool:
    return depth > note[0] or (depth == note[0] and note[1] != "block")


def _later(note: tuple[int, str, int], depth: int, number: int) -> bool:
    """Whether a line is a statement after the first one that a note speaks of."""
    return note[1] == "next" and depth == note[0] and number > note[2] + 1


def _has_own(rows: list[str], number: int, found: dict[int, tuple[str, str]]) -> bool:
    """Whether a statement holds notes of its own."""
    return _OPENS.match(rows[number - 1]) is not None and any(
        n in found for n in block(rows, number)
    )
