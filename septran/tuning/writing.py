"""The best candidate as a mapping file that a person can read, change and keep."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from septran.compiler import fitted
from septran.errors import SepTranError
from septran.format_units import time_text
from septran.machine.loader import mappings_root
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile

if TYPE_CHECKING:
    from septran.tuning.candidates import Searched
    from septran.tuning.tuning import Trial, Tuning


@dataclass(frozen=True)
class WrittenMapping:
    """The mapping as its author wrote it."""

    text: str
    """The text of the file; empty where there is none to change."""
    base: str
    """The shipped mapping that a new file can extend; empty where there is none."""
    folder: Path | None
    """The folder in which `extends` and `machine` are searched."""

    @property
    def unchanged(self) -> str:
        """The shortest text of the same mapping."""
        return f"extends: {self.base}\n" if self.base else self.text

    @staticmethod
    def of(mapping: MappingFile) -> WrittenMapping:
        """Return the source of a mapping."""
        path = Path(mapping.file)
        if not path.is_file():  # a text, which is kept for its errors
            return WrittenMapping("".join(linecache.getlines(mapping.file)), "", None)
        base = path.name if path.parent == mappings_root() else ""
        return WrittenMapping(_HEADER.sub("", path.read_text("utf-8")), base, path.parent)


MARK = "# Found by `septran tune`"
"""How a mapping that a search wrote begins."""
_HEADER = re.compile(rf"\A{MARK}.*\n(?:# .* combinations: .*\n)?(?:# The mapping as it .*\n)?")


def written(source: WrittenMapping, found: Tuning, searched: Searched) -> str:
    """Return the shortest form of mapping that gives exactly the best candidate's program."""
    return _header(found) + shortest(source, found.ordered[0], searched)


def shortest(source: WrittenMapping, trial: Trial, searched: Searched) -> str:
    """Return the shortest text that gives a candidate's program, else all that was decided."""
    wanted = searched.stages(trial.point)
    short = searched.choices.text(searched, trial)
    right = short and _program(short, source, searched) == str(wanted.tile_program)
    return short if right else wanted.mapping.to_yaml()


def _program(text: str, source: WrittenMapping, searched: Searched) -> str:
    try:
        mapping = load_mapping(text, folder=source.folder)
        request = replace(searched.request, mapping=mapping, tunables={})
        return str(fitted(request).tile_program)
    except SepTranError:
        return ""


def _header(found: Tuning) -> str:
    best = found.ordered[0]
    how = "measured" if found.measured else "by the model, not run"
    if best.cycles is not None:
        how = f"{best.cycles:,} simulated cycles"
    return (
        f"{MARK} for {found.name} on {found.machine}: "
        f"{time_text(best.cost or 0.0)} ({how}).\n"
        f"# {found.space}: {found.outcomes}.\n"
        + (f"# {found.gain[0].upper()}{found.gain[1:]}.\n" if found.gain else "")
    )
