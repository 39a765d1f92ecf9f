"""A mapping that is being written: its mistakes at their lines, and what may be turned in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran.errors import Errors, SepTranError
from septran.location import Location
from septran.machine.loader import mappings_root
from septran.machine.positions import read_text
from septran.mapping.keys import PIPELINE
from septran.mapping.loader import load_mapping
from septran.mapping.mapping import MappingFile
from septran.mapping.mistakes import MappingSyntaxError, NoMappingError
from septran.mapping.resolved import ResolvedMapping
from septran.mapping.tune import Candidate, Dimension, Point, value_text
from septran.views.explanation import Explanation

Explain = Callable[[MappingFile], Explanation]


@dataclass(frozen=True)
class Mistake:
    """A mistake in a text, with its place and a hint."""

    message: str
    code: str
    hint: str
    line: int
    """In the text; 0 where it is about no line of it."""
    column: int
    length: int
    place: str
    """``file:line:column`` of a place that is not in the text."""


@dataclass(frozen=True)
class Knob:
    """A value of the mapping that one may turn."""

    name: str
    about: str
    """The tasks that it is for."""
    value: Candidate
    values: tuple[Candidate, ...]
    """What it may be, in order."""
    line: int
    column: int
    length: int
    tuned: bool
    """Whether it is `!tune`: its value is chosen beside the text."""


@dataclass(frozen=True)
class EditedText:
    """A text, and what became of it."""

    text: str
    mistakes: tuple[Mistake, ...] = ()
    explanation: Explanation | None = None
    mapping: MappingFile | None = None
    knobs: tuple[Knob, ...] = ()


def mapping_source(mapping: str | Path) -> tuple[str, Path | None, str]:
    """The text of a mapping, its folder and a name for it; raises MappingError."""
    if isinstance(mapping, str) and ("\n" in mapping or ": " in mapping):
        return mapping, None, "mapping"
    if not isinstance(mapping, str | Path):
        hint = "pass its file, its text, or the name of a machine"
        raise NoMappingError(f"{mapping!r} is no mapping that can be edited", hint=hint)
    path = Path(mapping)
    if path.suffix not in (".yaml", ".yml"):
        shipped = mappings_root() / f"{mapping}.mapping.yaml"
        load_mapping(str(mapping))  # says which there are
        path = shipped
    text = read_text(path, MappingSyntaxError, NoMappingError)
    return text, path.parent, path.name


def draft(text: str, folder: Path | None, explain: Explain, point: Point) -> EditedText:
    """Load and compile a text as far as the tile program; mistakes are part of the answer."""
    mapping: MappingFile | None = None
    try:
        mapping = load_mapping(text if "\n" in text else f"{text}\n", folder=folder)
        values = {d.name: point.get(d.name, next(d.tune.candidates())) for d in mapping.dimensions}
        known = {d.name: d for d in mapping.dimensions}
        filled = mapping.with_values(values) if values else mapping
        explanation = explain(filled)
    except SepTranError as error:
        file = mapping.file if mapping is not None else ""
        return EditedText(text, tuple(mistakes(error, file)), mapping=mapping)
    found = (*_searched(known, values), *_knobs(explanation.mapping, mapping))
    return EditedText(text, (), explanation, mapping, tuple(found))


def mistakes(error: SepTranError, file: str = "") -> Iterator[Mistake]:
    """Each mistake of an error, in order."""
    if isinstance(error, Errors):
        for one in error.errors:
            yield from mistakes(one, file)
        return
    where = error.where
    own = where is not None and (where.file == file or where.file.startswith("<mapping "))
    line, column = (where.line, where.column or 1) if where is not None and own else (0, 0)
    yield Mistake(
        error.message, error.code, error.hint or "", line, column,
        where.length if where is not None else 0, "" if own or where is None else str(where),
    )  # fmt: skip


def _searched(known: Mapping[str, Dimension], values: Point) -> Iterator[Knob]:
    for name, dimension in known.items():
        where = dimension.where
        candidates = tuple(dimension.tune.candidates()) if dimension.size <= 1000 else ()
        yield Knob(
            name, " / ".join(dimension.path[:-1]), values[name], candidates,
            where.line, where.column or 1, length=0, tuned=True,
        )  # fmt: skip


def _knobs(resolved: ResolvedMapping, mapping: MappingFile) -> Iterator[Knob]:
    """Tunables and pipelines that the text itself sets, each place once."""
    tuned = {(d.where.line, d.where.column) for d in mapping.dimensions}
    found: dict[tuple[int, int], tuple[str, Any, Location, list[str]]] = {}
    for instance in resolved.instances:
        settings = [*instance.tunables.items(), (PIPELINE.path, instance.settings.get(PIPELINE))]
        for name, setting in settings:
            where = setting.where
            if where is None or where.file != mapping.file or where.column is None:
                continue
            place = (where.line, where.column)
            if place not in tuned:
                entry = found.setdefault(place, (name, setting.value, where, []))
                entry[3].append(instance.task)
    for place in sorted(found):
        name, value, where, tasks = found[place]
        about = ", ".join(dict.fromkeys(tasks))
        yield Knob(name, about, value, _near(name, value), *place, where.length, tuned=False)


def _near(name: str, value: Any) -> tuple[Candidate, ...]:
    """Values that may be tried in place of one."""
    if isinstance(value, bool):
        return (False, True)
    if not isinstance(value, int) or value < 1:
        return (value,)
    if name == "pipeline":
        return tuple(range(1, max(8, value) + 1))
    # At least the powers of two up to 1,024, and two steps beyond a greater value.
    powers = {1 << n for n in range(max(11, value.bit_length() + 2))}
    return tuple(sorted(powers | {value}))


def with_knob(text: str, knob: Knob, value: Candidate) -> str:
    """The text with another value at a knob's place; all else, comments too, stays."""
    lines = text.splitlines(keepends=True)
    line = lines[knob.line - 1]
    start = knob.column - 1
    match = re.compile(r"[^\s,\]}#]+").match(line, start)
    if match is None:
        return text
    lines[knob.line - 1] = f"{line[:start]}{value_text(value)}{line[match.end() :]}"
    return "".join(lines)
