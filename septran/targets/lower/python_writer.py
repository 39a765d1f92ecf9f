"""Python text, line by line: blocks, names that nothing else has, comments that say why."""

from __future__ import annotations

import builtins
import keyword
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

WIDTH = 100


@dataclass
class PythonWriter:
    """Lines of a Python function, and the names that are in use in it."""

    lines: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=lambda: {*dir(builtins)})
    depth: int = 0
    said: str = ""
    """The last reason that was written, which is not repeated for the next node."""

    def name(self, wish: str) -> str:
        """A Python name like `wish` that is used for nothing else."""
        clean = re.sub(r"\W", "_", wish) or "v"
        if clean[0].isdigit() or keyword.iskeyword(clean):
            clean = f"_{clean}"
        found, number = clean, 0
        while found in self.taken:
            number += 1
            found = f"{clean}_{number}"
        self.taken.add(found)
        return found

    def line(self, text: str) -> None:
        """Write a line in the block that is open."""
        self.lines.append("    " * self.depth + text if text else "")

    def comment(self, text: str) -> None:
        """Write a reason, unless the line before it has the same."""
        if text == self.said:
            return
        self.said = text
        room = WIDTH - 4 * self.depth - 2
        for part in textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False):
            self.line(f"# {part}")

    @contextmanager
    def block(self, *heads: str) -> Iterator[None]:
        """Write heads, such as a decorator and its function, and what is inside further in."""
        for head in heads:
            self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if not any(
            line.strip() and not line.strip().startswith("#") for line in self.lines[before:]
        ):
            self.line("pass")
        self.depth -= 1
        self.said = ""


def tuple_text(sizes: Sequence[int]) -> str:
    """Extents as Python writes a tuple."""
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def is_simple(text: str) -> bool:
    """Whether text is a name, a number, a call, or elements of something, as it stands."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if not depth and letter in " -~" and not text.replace(".", "").replace("e-", "").isalnum():
            return False
        if not depth and letter == " " and place:
            return False
    return True


def bracket(text: str) -> str:
    """Text as an operand."""
    return text if is_simple(text) else f"({text})"
