"""Which comment of the generator belongs to a line of CUDA text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMENT = re.compile(r"//\s?(.*)$")
_FAR = 60


def origin_of(lines: Sequence[str], line: int) -> str:
    """The nearest line above that is a comment, at the same depth or an outer one.

    `line` is 1-based.
    """
    if not 1 <= line <= len(lines):
        return ""
    depth = _indent(lines[line - 1])
    for at in range(line - 2, max(-1, line - 2 - _FAR), -1):
        text = lines[at]
        if not text.strip():
            continue
        if _indent(text) <= depth and (found := _COMMENT.match(text.strip())):
            return found[1].strip()
        if re.match(r"\}?\s*(extern|__global__|__device__|__forceinline__|static)\b", text):
            break
    return ""


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
