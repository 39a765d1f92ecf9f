"""Which line of which source a line of PTX came from: its ``.loc`` directives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

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
