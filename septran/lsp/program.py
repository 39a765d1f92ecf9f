"""The logic that a mapping file is for, compiled with it: predictions and tasks for an editor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran.errors import MappingError, SepTranError, nearest
from septran.format_units import time_text
from septran.location import Location
from septran.mapping.mapping import MappingFile
from septran.operators import names as operator_names
from septran.views import explain
from septran.views.explanation import Explanation

_SAID = re.compile(r"^#\s*logic:\s*(\S+)\s*(.*)$", re.M)
_SIZE = re.compile(r"(\w+)\s*=\s*(\d+)")
SUFFIX = ".mapping.yaml"


@dataclass(frozen=True)
class EditedLogic:
    """What a mapping file is looked at with."""

    logic: str | Path
    sizes: dict[str, Any]

    @property
    def shipped(self) -> bool:
        """Whether it is an operator of the library, which may always be run."""
        return isinstance(self.logic, str)


class UnknownSubjectError(MappingError):
    """The line ``# logic:`` of a mapping file names no logic, or says no sizes."""

    code = "SEP329"


def subject_of(text: str, file: Path) -> EditedLogic | None:
    """Return the logic of a line such as ``# logic: gemm M=64 N=64 K=64``, or beside the file.

    Raises UnknownSubjectError where there is such a line and no such logic.
    """
    said = _SAID.search(text)
    if said is None:
        beside = file.with_name(file.name.removesuffix(SUFFIX) + ".py")
        same = file.name.endswith(SUFFIX) and beside.is_file()
        return EditedLogic(beside, {}) if same else None
    for word in re.finditer(r"\S+", said[2]):
        if not _SIZE.fullmatch(word[0]):
            message = f"{word[0]!r} is no size"
            raise UnknownSubjectError(
                message, _place(text, file, said.start(2) + word.start(), word[0]),
                hint="write NAME=SIZE, such as M=512",
            )  # fmt: skip
    sizes = {name: int(size) for name, size in _SIZE.findall(said[2])}
    if said[1] in operator_names():
        return EditedLogic(said[1], sizes)
    path = file.parent / said[1]
    if not path.is_file():
        kind = "file" if said[1].endswith(".py") else "operator"
        hint = f"there is no {path}" if kind == "file" else nearest(said[1], operator_names())
        where = _place(text, file, said.start(1), said[1])
        raise UnknownSubjectError(f"no {kind} {said[1]!r}", where, hint=hint)
    return EditedLogic(path, sizes)


def subject_line(text: str, file: Path) -> Location:
    """Return the place of the line ``# logic:``, or the first line."""
    said = _SAID.search(text)
    return _place(text, file, said.start(), said[0]) if said else Location(str(file), 1, 1)


def _place(text: str, file: Path, start: int, words: str) -> Location:
    before = text[:start]
    column = start - before.rfind("\n")
    return Location(str(file), before.count("\n") + 1, column, length=len(words))


@dataclass(frozen=True)
class EditedProgram:
    """A mapping compiled with its logic."""

    explanation: Explanation

    @staticmethod
    def of(subject: EditedLogic, mapping: MappingFile) -> EditedProgram:
        """Compile as far as the tile program; raises SepTranError."""
        return EditedProgram(explain(subject.logic, mapping, shapes=subject.sizes or None))

    def tasks_at(self, file: str, first: int, last: int) -> Iterator[tuple[str, Location]]:
        """Yield each task of which lines `first` to `last` of a file decide something."""
        nodes = {node.path: node for node in self.explanation.task_tree.tasks()}
        for instance in self.explanation.mapping.instances:
            places = [instance.where, *(setting.where for _, _, setting in instance.rows())]
            lines = (p.line for p in places if p is not None and p.file == file)
            if any(first <= line <= last for line in lines) and instance.path in nodes:
                yield instance.path, nodes[instance.path].location

    def prediction(self) -> str:
        """Return what the model says of it, in a line; empty where it says nothing."""
        try:
            found = self.explanation.prediction
        except SepTranError:
            return ""
        limit = f", limited by {found.bound_by.name}" if found.bound_by is not None else ""
        return f"{self.explanation.name}: predicted {time_text(found.seconds)}{limit}"


def rule_lines(mapping: MappingFile, line: int) -> tuple[int, int]:
    """Return the first and last line of the rule or instance that a line, from 1, is in."""
    plans = [*(rule.plan for rule in mapping.rules), *mapping.instances.values()]
    starts = sorted({p.where.line for p in plans if p.where.file == mapping.file})
    before = [start for start in starts if start <= line]
    after = [start for start in starts if start > line]
    return (before[-1] if before else line, after[0] - 1 if after else line)
