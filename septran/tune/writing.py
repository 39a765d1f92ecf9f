"""The best candidate as a mapping file that a person can read, change and keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from septran.compiler import produce_stages
from septran.errors import SepTranError
from septran.mapping.loader import load_mapping, mapping_names
from septran.mapping.mapping import Mapping as LoadedMapping
from septran.mapping.settling import settled
from septran.mapping.tune import Candidate, Point
from septran.targets.dsa.profile_text import time_text

if TYPE_CHECKING:
    from septran.runtime.stages import Stages
    from septran.tune.tuning import Tuning


class Searched(Protocol):
    """What is known of the search."""

    logic: Any
    settings: Mapping[str, Any]
    fixed: Mapping[str, Candidate]

    def stages(self, point: Point) -> Stages:
        """The stages of one candidate."""


@dataclass(frozen=True)
class Source:
    """The mapping as its writer gave it."""

    logic: str
    """The name of what is mapped."""
    text: str
    """Of the file; empty where there is none to change."""
    base: str
    """The shipped mapping that a new file can extend; empty where there is none."""
    folder: Path | None
    """Where `extends` and `machine` are looked for."""

    @staticmethod
    def of(logic: str, mapping: Any) -> Source:
        """From whatever names a mapping."""
        if isinstance(mapping, str) and "\n" not in mapping and mapping in mapping_names():
            return Source(logic, "", f"{mapping}.mapping.yaml", None)
        if isinstance(mapping, str) and "\n" in mapping:
            return Source(logic, mapping, "", None)
        path = Path(mapping.file if isinstance(mapping, LoadedMapping) else str(mapping or ""))
        if path.suffix in (".yaml", ".yml") and path.is_file():
            shipped = path.name.removesuffix(".mapping.yaml") in mapping_names()
            base = path.name if shipped else ""
            return Source(logic, path.read_text("utf-8"), base, path.parent)
        return Source(logic, "", "", None)


def written(source: Source, plan: LoadedMapping, found: Tuning, searched: Searched) -> str:
    """The shortest of the forms that gives the best candidate's very program."""
    best = found.ordered[0]
    wanted = searched.stages(best.point)
    forms = []
    own = {d.name: best.point[d.name] for d in plan.dimensions}
    others = {n: v for n, v in best.point.items() if n not in own} | dict(searched.fixed)
    if own and not others:
        forms.append(settled(source.text, plan, own))
    elif others and not own and source.base:
        forms.append(_extending(source.base, others))
    for form in forms:
        if form and _program(form, source, searched) == str(wanted.tile_program):
            return _header(source, found) + form
    return _header(source, found) + wanted.mapping.to_yaml()


def _extending(base: str, tunables: Mapping[str, Candidate]) -> str:
    values = ", ".join(f"{name}: {_yaml(value)}" for name, value in tunables.items())
    return f'extends: {base}\nrules:\n  - match: {{task: "*"}}\n    tunables: {{{values}}}\n'


def _yaml(value: Candidate) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _program(text: str, source: Source, searched: Searched) -> str:
    try:
        mapping = load_mapping(text, folder=source.folder)
        return str(produce_stages(searched.logic, mapping, **searched.settings).tile_program)
    except SepTranError:
        return ""


def _header(source: Source, found: Tuning) -> str:
    best = found.ordered[0]
    how = "measured" if found.measured else "by the model, not run"
    if best.cycles is not None:
        how = f"{best.cycles:,} simulated cycles"
    kinds = ", ".join(f"{n} {kind}" for kind, n in found.counts.items())
    return (
        f"# Found by `septran tune` for {source.logic} on {found.machine}: "
        f"{time_text(best.cost or 0.0)} ({how}).\n"
        f"# {found.size} combinations: {kinds}.\n"
        + (f"# {found.gain[0].upper()}{found.gain[1:]}.\n" if found.gain else "")
    )
