"""Every error a user can cause, each with a code, a place and a hint.

    SepTranError
    ├── LogicError      SEP1xx  a logic file says something impossible
    ├── MachineError    SEP2xx  a machine file does
    ├── MappingError    SEP3xx  a mapping file does, alone or for this logic
    ├── TileError       SEP4xx  a tile program is wrong (a pass or an edit broke it)
    ├── TargetError     SEP5xx  a target cannot build this program
    └── CallError       SEP6xx  a kernel was called with unsuitable arguments

`Errors` carries all mistakes of one file at once. Subclasses for single mistakes
live beside the code that raises them and set `code`.
"""

from __future__ import annotations

import difflib
import math
import os
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from septran.location import Location


class SepTranError(Exception):
    """A mistake that the user can mend: what is wrong, where, and what would be right."""

    code: ClassVar[str] = "SEP000"

    def __init__(
        self,
        message: str,
        where: Location | None = None,
        *,
        hint: str | None = None,
        notes: Iterable[tuple[str, Location]] = (),
    ) -> None:
        """`notes` are further places, each with a word on it, as for the second of two accesses."""
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.related = tuple(notes)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        lines = [f"{place}{self.message} [{self.code}]"]
        if self.where:
            lines += _excerpt(self.where)
        for word, where in self.related:
            lines += [f"  {where}: {word}", *_excerpt(where)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What notebooks show: the user's own lines; what SepTran did inside helps nobody."""
        if full_traceback():
            return traceback.format_exception(self)
        return f"{type(self).__name__}: {self}".splitlines()


def full_traceback() -> bool:
    """Return whether mistakes shall come with Python's traceback: SEPTRAN_FULL_TRACEBACK=1."""
    return os.environ.get("SEPTRAN_FULL_TRACEBACK", "0") not in ("", "0")


@dataclass(frozen=True)
class Shortage:
    """A memory that would have to hold more than its capacity, in bytes."""

    memory: str
    needed: int
    limit: int
    """Bytes."""

    @property
    def excess(self) -> float:
        """The binary logarithm of the needed bytes over the capacity."""
        return math.log2(self.needed / max(1, self.limit))

    def __str__(self) -> str:
        return f"{self.memory} would have to hold {self.needed:,} bytes and has {self.limit:,}"


class CapacityRefusal:
    """Mixin of errors about a memory that is too small, so that smaller tiles may help."""

    shortage: Shortage | None = None

    def of(self, memory: str, needed: int, limit: int) -> Self:
        """Return the error itself, with the memory that it is about."""
        self.shortage = Shortage(memory, needed, limit)
        return self


class LogicError(SepTranError):
    """A logic file says something impossible."""

    code = "SEP100"


class MachineError(SepTranError):
    """A machine file says something impossible."""

    code = "SEP200"


class MappingError(SepTranError):
    """A mapping file says something impossible, alone or for this logic."""

    code = "SEP300"


class TileError(SepTranError):
    """A tile program breaks a rule of Tile IR."""

    code = "SEP400"
    of_passes: ClassVar[bool] = False
    """Whether the error is the fault of the compiler where its own passes made the program."""

    def internal(self) -> TileError:
        """Return the same error as a fault of the compiler, at the logic line of the node."""
        notes = [("what the passes made of this line is wrong", self.where)] if self.where else []
        why = f"; {self.hint}" if self.hint else ""
        return type(self)(
            f"internal error: {self.message}",
            hint=f"this is a fault of SepTran's passes, not of your files: please report it with "
            f"logic, mapping and shapes{why}",
            notes=(*notes, *self.related),
        )


class TargetError(SepTranError):
    """A target cannot build or run this program."""

    code = "SEP500"


class CallError(SepTranError):
    """A kernel was called with arguments it cannot take."""

    code = "SEP600"


class Errors(SepTranError):
    """Several mistakes at once, in the order of their places."""

    code = "SEP001"

    def __init__(self, errors: Iterable[SepTranError]) -> None:
        self.errors = tuple(errors)
        count = len(self.errors)
        super().__init__(f"{count} mistake{'s' if count != 1 else ''}")

    def __str__(self) -> str:
        return "\n".join([*(str(error) for error in self.errors), f"{self.message}."])


def is_fault_of_passes(error: SepTranError) -> bool:
    """Return whether an error, or one of several, is a fault of the compiler's own passes."""
    inner = error.errors if isinstance(error, Errors) else (error,)
    return any(isinstance(one, TileError) and one.of_passes for one in inner)


def raise_all(errors: Iterable[SepTranError]) -> None:
    """Raise a single error itself, several as `Errors`; return where there is none."""
    found = list(errors)
    if len(found) == 1:
        raise found[0]
    if found:
        raise Errors(found)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known words, several if equally near, or lists all."""
    words = sorted(map(str, known))
    if close := _closest(str(name), words):
        *others, last = map(repr, close)
        return f"did you mean {' or '.join((', '.join(others), last) if others else (last,))}?"
    return f"known: {', '.join(words)}" if words else "none is known here"


def _closest(name: str, words: list[str]) -> list[str]:
    """Return the words most like `name`, several if equally near, none if all differ much."""
    ways = (str, str.lower)
    both = {
        word: [difflib.SequenceMatcher(None, to(word), to(name)).ratio() for to in ways]
        for word in words
    }
    # Capitals decide among equally near words only: `m` is `M` rather than a part of `most`.
    likeness = {word: [max(found), *found] for word, found in both.items()}
    best = max(likeness.values(), default=[0.0])
    return [word for word in words if likeness[word] == best] if max(best) >= _LIKE else []


_LIKE = 0.6
"""The likeness, from 0 to 1, at which a word counts as another one misspelt (difflib's default)."""


_WIDEST = 160
"""The number of characters of a line that an excerpt shows."""


def _excerpt(where: Location) -> list[str]:
    """Return the line and a caret below it; of a long line, the part around the caret."""
    text = where.text
    if not text:
        return []
    column = where.column or 1
    start = max(0, column - 1 - _WIDEST // 2) if len(text) > _WIDEST else 0
    # What a terminal would obey is not passed on to it.
    shown = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
    part = shown[start : start + _WIDEST]
    lines = [f"    {part}"]
    if where.column is not None:
        pad = "".join("\t" if c == "\t" else " " for c in part[: column - 1 - start])
        length = max(1, min(where.length, len(part) - len(pad)))
        lines.append(f"    {pad}{'^' * length}")
    return lines
