"""The best candidate as a mapping file that a person can read, change and keep."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from septran.compiler import fitted
from septran.errors import SepTranError
from septran.format_units import time_text
from septran.machine.loader import mappings_root
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile
from septran.mapping.tune import Candidate, Point, settled, value_text

if TYPE_CHECKING:
    from septran.request import CompileRequest
    from septran.runtime.stages import Stages
    from septran.tuning.tuning import Tuning


class Searched(Protocol):
    """The parts of a search that writing needs."""

    request: CompileRequest

    def stages(self, point: Point) -> Stages:
        """Return the stages of one candidate."""


@dataclass(frozen=True)
class WrittenMapping:
    """The mapping as its author wrote it."""

    text: str
    """The text of the file; empty where there is none to change."""
    base: str
    """The shipped mapping that a new file can extend; empty where there is none."""
    folder: Path | None
    """The folder in which `extends` and `machine` are searched."""

    @staticmethod
    def of(mapping: MappingFile) -> WrittenMapping:
        """Return the source of a mapping."""
        path = Path(mapping.file)
        if not path.is_file():  # a text, which is kept for its errors
            return WrittenMapping("".join(linecache.getlines(mapping.file)), "", None)
        base = path.name if path.parent == mappings_root() else ""
        return WrittenMapping(path.read_text("utf-8"), base, path.parent)


def written(source: WrittenMapping, found: Tuning, searched: Searched) -> str:
    """Return the shortest form of mapping that gives exactly the best candidate's program."""
    best = found.ordered[0]
    wanted = searched.stages(best.point)
    plan = searched.request.mapping
    own = {d.name: best.point[d.name] for d in plan.dimensions}
    others = {n: v for n, v in best.point.items() if n not in own} | dict(searched.request.tunables)
    short = ""
    if own and not others:
        short = settled(source.text, plan, own)
    elif others and not own and source.base:
        short = _extending(source.base, others)
    right = short and _program(short, source, searched) == str(wanted.tile_program)
    return _header(found) + (short if right else wanted.mapping.to_yaml())


def _extending(base: str, tunables: Mapping[str, Candidate]) -> str:
    values = ", ".join(f"{name}: {value_text(value)}" for name, value in tunables.items())
    return f'extends: {base}\nrules:\n  - match: {{task: "*"}}\n    tunables: {{{values}}}\n'


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
        f"# Found by `septran tune` for {found.name} on {found.machine}: "
        f"{time_text(best.cost or 0.0)} ({how}).\n"
        f"# {found.size} combinations: {found.outcomes}.\n"
        + (f"# {found.gain[0].upper()}{found.gain[1:]}.\n" if found.gain else "")
    )
