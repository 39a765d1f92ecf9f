"""From a code address of a kernel's library to a line of the CUDA text, and to its origin."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from septran.emulator.errors import CudaPlace

_COMMENT = re.compile(r"//\s?(.*)$")
_MOST_LINES_ABOVE = 60


def origin_of(lines: Sequence[str], line: int) -> str:
    """The nearest line above that is a comment, at the same depth or an outer one.

    `line` is 1-based.
    """
    if not 1 <= line <= len(lines):
        return ""
    depth = _indent(lines[line - 1])
    for at in range(line - 2, max(-1, line - 2 - _MOST_LINES_ABOVE), -1):
        text = lines[at]
        if not text.strip():
            continue
        # A comment inside of a nested block that has ended is of other statements.
        if _indent(text) <= depth and (found := _COMMENT.match(text.strip())):
            return found[1].strip()
        if re.match(r"\}?\s*(extern|__global__|__device__|__forceinline__|static)\b", text):
            break
    return ""


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


_LINE = re.compile(r"kernel\.cpp:(\d+)")


@dataclass
class Sites:
    """Resolves return addresses in a library; asks the debug information once for each."""

    library: Path
    source: str
    lines_before: int
    origin: Callable[[Sequence[str], int], str] = origin_of
    """What a line came from, by the text's lines and its number."""
    known: dict[int, int] = field(default_factory=dict)

    def lines(self, addresses: Iterable[int]) -> dict[int, int]:
        """The outermost line of each address: where the kernel calls, not inside a helper."""
        missing = sorted({a for a in addresses if a} - self.known.keys())
        if missing:
            self.known |= self._resolved(missing)
        return self.known

    def place(self, address: int) -> CudaPlace:
        """The line and the origin next to it."""
        line = self.lines([address]).get(address, 0)
        text = self.source.splitlines()
        if not 1 <= line <= len(text):
            return CudaPlace(0, "")
        return CudaPlace(line, text[line - 1].strip()[:160], self.origin(text, line))

    def _resolved(self, addresses: list[int]) -> dict[int, int]:
        tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
        if tool is None:
            return dict.fromkeys(addresses, 0)
        # A return address is behind the call.
        asked = "\n".join(hex(a - 1) for a in addresses)
        done = subprocess.run(
            # -i: inlined frames as well, of which the last one is in the kernel's own text.
            [tool, "-i", "-a", "-e", str(self.library)],
            input=asked, capture_output=True, text=True, check=False,
        )  # fmt: skip
        groups = re.split(r"^0x[0-9a-f]+\n", done.stdout, flags=re.MULTILINE)[1:]
        if len(groups) != len(addresses):
            return dict.fromkeys(addresses, 0)
        return {a: self._outermost(g) for a, g in zip(addresses, groups, strict=True)}

    def _outermost(self, frames: str) -> int:
        """Return the line of the last inlined frame that is in the kernel's own text."""
        found = _LINE.findall(frames)
        return int(found[-1]) - self.lines_before if found else 0
