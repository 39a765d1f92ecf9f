"""Text within the width of a screen: long lines go on below, further right than they began."""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 120
"""Columns that a printed line has at most, unless it has a longer word."""
_HANG = 8


def wrapped(text: str, width: int = WIDTH) -> str:
    """Return a text whose lines have at most `width` columns.

    The last column of a table goes on below itself where it begins in the first third.
    """
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width))


def _parts(line: str, width: int) -> Iterator[str]:
    if len(line) <= width:
        yield line
        return
    indent = len(line) - len(line.lstrip())
    columns = [m.end() for m in re.finditer(r"(?<=\S)\s{2,}", line) if m.end() <= width // 3]
    hang = " " * (columns[-1] if columns else min(indent + _HANG, width // 2))
    while len(line) > width and (at := _break(line, width, len(hang))):
        yield line[:at].rstrip()
        line = hang + line[at:].lstrip()
    yield line


def _break(line: str, width: int, hang: int) -> int:
    """Return where a line is parted: between two fields if it can be; 0 where it has no space."""
    fields = line.rfind("  ", max(hang + 1, width // 2), width + 1)
    if fields > 0:
        return fields
    words = line.rfind(" ", hang + 1, width + 1)
    return words if words > 0 else line.find(" ", width) + 1
