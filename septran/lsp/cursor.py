"""Where a cursor is in YAML that is being written, which no parser takes yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

ITEM = "[]"
"""The step of a path from a list to one of its elements."""
_KEY = re.compile(r"""("[^"]*"|'[^']*'|[\w*.-]+)\s*:(?=\s|$)""")
_WORD = re.compile(r"[\w*.-]*$")


@dataclass(frozen=True)
class Cursor:
    """A place in a document, by the keys that lead to it."""

    path: tuple[str, ...]
    """The keys to the table or the value that is being written; `ITEM` for a list's element."""
    key: bool
    """Whether a key of the table at `path` may be written here, else a value."""
    word: str
    """What is written of the word already."""


def cursor_at(text: str, line: int, column: int) -> Cursor:
    """Return where line and column, both from 0, are."""
    rows = text.split("\n")[: line + 1]
    rows[-1:] = [row[:column] for row in rows[-1:]]
    reader = _Reader()
    for row in rows[:-1]:
        reader.read(row)
    return reader.end(rows[-1])


def key_at(text: str, line: int, column: int) -> tuple[str, ...] | None:
    """Return the path to the key that is under the cursor, itself included; None for no key."""
    row = text.split("\n")[line]
    for match in _KEY.finditer(row):
        if match.start() <= column <= match.end():
            name = match[1].strip("\"'")
            return (*cursor_at(text, line, match.start()).path, name)
    return None


class _Reader:
    """Follows lines: blocks by their indentation, flow tables and lists by their brackets."""

    def __init__(self) -> None:
        self.blocks: list[tuple[int, str]] = []
        self.flow: list[tuple[str, str]] = []
        """Each open bracket with the key that was read last in it."""

    @property
    def _path(self) -> tuple[str, ...]:
        inner = (ITEM if bracket == "[" else key for bracket, key in self.flow)
        return (*(name for _, name in self.blocks), *(name for name in inner if name))

    def read(self, row: str) -> None:
        """Take a whole line."""
        row = _without_comment(row)
        if row.strip():
            self._flows(row if self.flow else self._block(row))

    def end(self, row: str) -> Cursor:
        """Take what is before the cursor in its line."""
        word = _WORD.search(row)
        written = word[0] if word else ""
        before = row[: len(row) - len(written)]
        if not self.flow:
            rest = self._block(before, open_at=len(before))
            if not rest.strip() and not before.rstrip().endswith(":"):
                return Cursor(self._path, key=True, word=written)
            self._flows(rest)
        else:
            self._flows(before)
        in_table = bool(self.flow) and self.flow[-1] == ("{", "")
        return Cursor(self._path, in_table, written)

    def _block(self, row: str, open_at: int | None = None) -> str:
        """Take the keys and dashes that begin a line, and return what follows them."""
        indent = len(row) - len(row.lstrip(" "))
        if not row.strip():
            indent = len(row) if open_at is None else open_at
        rest = row[indent:]
        while True:
            self._leave(indent, item=rest.startswith("- ") or rest == "-")
            if rest.startswith("- ") or rest == "-":
                self.blocks.append((indent, ITEM))
                more = len(rest) - len(rest[1:].lstrip(" "))
                indent, rest = indent + more, rest[more:]
                continue
            match = _KEY.match(rest)
            if match is None:
                return rest
            self.blocks.append((indent, match[1].strip("\"'")))
            return rest[match.end() :]

    def _leave(self, indent: int, item: bool) -> None:
        """Leave the blocks that a line of this indentation is not in."""
        while self.blocks:
            depth, name = self.blocks[-1]
            # A list may stand as deep as the key that it belongs to.
            if depth < indent or (item and depth == indent and name != ITEM):
                return
            self.blocks.pop()

    def _flows(self, text: str) -> None:
        """Take a part of a line that is, or may begin, a flow table or list."""
        at = 0
        while at < len(text):
            match = _KEY.match(text, at)
            if match is not None and self.flow and self.flow[-1][0] == "{":
                self.flow[-1] = ("{", match[1].strip("\"'"))
                at = match.end()
                continue
            mark = text[at]
            if mark in "{[":
                self.flow.append((mark, ""))
            elif mark in "}]" and self.flow:
                self.flow.pop()
            elif mark == "," and self.flow:
                self.flow[-1] = (self.flow[-1][0], "")
            elif mark in "\"'":
                at = _end_of_string(text, at)
            at += 1


def _end_of_string(text: str, at: int) -> int:
    end = text.find(text[at], at + 1)
    return len(text) if end < 0 else end


def _without_comment(row: str) -> str:
    match = re.match(r"""((?:[^"'#]|"[^"]*"|'[^']*'|(?<!\s)(?<!^)#)*)#?""", row)
    return match[1] if match else row
