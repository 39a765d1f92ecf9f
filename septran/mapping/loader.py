"""Loading of a mapping from a file, a text or a machine's name."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping as Table
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml

from septran.errors import Errors, SepTranError, nearest, raise_all
from septran.location import Location
from septran.machine.kinds import Report, check
from septran.machine.loader import load_machine, machine_names, mappings_root
from septran.machine.model import Machine
from septran.machine.positions import Node, is_file, name_text, parse, read_text
from septran.mapping.dispatch.reading import KEY as DISPATCH_KEY
from septran.mapping.dispatch.reading import read_dispatch
from septran.mapping.extends import file_beside, merged, parent_of, shortened
from septran.mapping.mapping import MappingFile
from septran.mapping.mistakes import (
    FAMILY,
    MappingSyntaxError,
    NoMappingError,
    OpenDispatchError,
    UnknownNameError,
)
from septran.mapping.reader import across, filled, read
from septran.mapping.schema import MAPPING
from septran.mapping.tune import Candidate, check_tune

DEFAULT_MACHINE = "cpu-x86"
_SUFFIX = ".mapping.yaml"
T = TypeVar("T")


def mapping_names() -> tuple[str, ...]:
    """Return the machines that a mapping of every operator comes with."""
    return tuple(sorted(p.name.removesuffix(_SUFFIX) for p in mappings_root().glob(f"*{_SUFFIX}")))


def load_mapping(
    mapping: str | Path | MappingFile | Machine,
    machine: str | Path | Machine | None = None,
    *,
    folder: Path | None = None,
    name: str | None = None,
) -> MappingFile:
    """Return a mapping by its file, its text, or the name of a machine that comes with one.

    `machine` overrides the file's own; a mapping that names none is for cpu-x86. `folder` is where
    a text's `extends` and `machine` are searched first, `name` the file name in its places. A
    dispatch file is a mapping of cases, one of which each call takes. Raises MappingError or
    MachineError, or Errors with all mistakes of the files.
    """
    if isinstance(mapping, MappingFile):
        return mapping if machine is None else _moved(mapping, load_machine(machine))
    if isinstance(mapping, Machine):
        return load_mapping(mapping.name, machine or mapping)
    if not isinstance(mapping, str | Path):
        hint = "pass a mapping file, its text, or the name of a machine that comes with one"
        raise NoMappingError(f"{mapping!r} is no mapping", hint=hint)
    source = _source(mapping, folder, name)
    document = _parsed(source.text, source.file)
    if DISPATCH_KEY in document.items:
        return _dispatch(document, source, machine)
    return _single(document, source, machine)


def _single(document: Node, source: _Source, machine: str | Path | Machine | None) -> MappingFile:
    """Return the one mapping that a document and those that it extends are."""
    chain = _chain(document, source)
    wanted, assumed = _machine(chain, machine)
    return _checked(tuple(_Same(link.node) for link in chain), _Same(wanted), assumed, source.file)


def _dispatch(document: Node, source: _Source, machine: str | Path | Machine | None) -> MappingFile:
    """Return the mapping of cases that a dispatch file is."""
    named = _machine_node(document)
    if machine is None and named is not None:
        machine = _named_machine(named, source.folder)
    own = Path(source.file).resolve() if source.folder is not None else None

    def load(said: Node) -> MappingFile:
        if said.items:
            return _single(said, source, machine)
        beside = _source(file_beside(said, source.folder, own), None, None)
        return _single(_parsed(beside.text, beside.file), beside, machine)

    return read_dispatch(document, load, source.file)


@dataclass(frozen=True, eq=False)
class _Same(Generic[T]):
    """A value that is compared by what it is, not by what is in it: parsed files are kept."""

    value: T

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@functools.lru_cache(maxsize=32)
def _checked(
    chain: tuple[_Same[Node], ...], machine: _Same[Machine], assumed: str, file: str
) -> MappingFile:
    """Return the mapping of a file and of those that it extends, once it has no mistake."""
    nodes = [link.value for link in chain]
    for node in nodes:
        if DISPATCH_KEY in node.items:
            where = node.keys[DISPATCH_KEY]
            hint = "name the mapping of one case"
            raise OpenDispatchError(
                "no mapping can be a dispatch file, nor extend one", where, hint=hint
            )
    errors: list[SepTranError] = []
    # Each file by itself, also in what another one replaces; what must fit together, merged.
    for node in nodes:
        report = _report(machine.value)
        check(MAPPING, node, report)
        errors += report.errors
    if not errors:
        errors = list(across(merged(nodes)))
    raise_all(sorted(errors, key=_place))
    return read(merged(nodes), machine.value, assumed, file)


def fill_in(mapping: MappingFile, point: Table[str, Candidate]) -> MappingFile:
    """Return `mapping` with a value for each dimension that `point` names; raises MappingError."""
    names = {d.name for d in mapping.dimensions}
    for name in point:
        if name not in names:
            raise UnknownNameError(f"nothing is !tune under {name!r}", hint=nearest(name, names))
    if mapping.document is None:
        return mapping
    paths = {d.path: point[d.name] for d in mapping.dimensions if d.name in point}
    return read(filled(mapping.document, paths), mapping.machine, mapping.assumed, mapping.file)


def changed(mapping: MappingFile, said: Table[str, Any]) -> MappingFile:
    """Return `mapping` with what `said` has laid over it; raises MappingError, or Errors."""
    mapping.require_one()
    for name in ("extends", "machine"):
        if name in said:
            hint = "septran.load_mapping(mapping, machine) takes it for another machine"
            raise UnknownNameError(f"a change has no {name!r}", hint=hint)
    text = _written(said)
    upper = _parsed(text, name_text(text, "change"))
    report = _report(mapping.machine)
    check(MAPPING, upper, report)
    raise_all(report.errors)
    document = upper if mapping.document is None else merged([upper, mapping.document])
    raise_all(list(across(document)))
    return read(document, mapping.machine, mapping.assumed, mapping.file)


def _written(said: Table[str, Any]) -> str:
    """Return the YAML of some keys of a mapping: a line for each value and each rule."""
    try:
        lines = [
            yaml.safe_dump({key: value}, default_flow_style=None, sort_keys=False, width=math.inf)
            for key, value in said.items()
        ]
    except yaml.YAMLError as error:
        hint = "numbers, words, lists and dicts are"
        raise MappingSyntaxError(f"a value that YAML has not: {error}", hint=hint) from None
    return "".join(lines) or "{}\n"


@dataclass(frozen=True)
class _Source:
    text: str
    file: str
    folder: Path | None
    """The folder where `extends` and `machine` are searched first; None for texts."""


@dataclass(frozen=True)
class _Link:
    node: Node
    folder: Path | None


def _source(mapping: str | Path, folder: Path | None, name: str | None) -> _Source:
    if isinstance(mapping, str) and _is_text(mapping):
        return _Source(mapping, name or name_text(mapping, "mapping"), folder)
    if isinstance(mapping, str) and not mapping.endswith((".yaml", ".yml")):
        if mapping and Path(mapping).is_dir() and mapping not in mapping_names():
            hint = "name a mapping file, or a machine that comes with one, such as cpu-x86"
            raise NoMappingError(f"{mapping!r} is a folder, not a mapping file", hint=hint)
        if mapping not in mapping_names():
            known = mapping_names()
            extra = (
                f"{mapping} is a machine, but no mapping of every operator comes with it"
                if mapping in machine_names()
                else nearest(mapping, known)
            )
            raise NoMappingError(f"no mapping {mapping!r}", hint=extra)
        mapping = mappings_root() / f"{mapping}{_SUFFIX}"
    path = Path(mapping)
    return _Source(read_text(path, MappingSyntaxError, NoMappingError), str(path), path.parent)


def _is_text(mapping: str) -> bool:
    """Return whether a string is a mapping itself, and not a file's or a machine's name."""
    return "\n" in mapping or ": " in mapping or mapping.startswith(("{", "'", '"'))


def _chain(document: Node, source: _Source) -> list[_Link]:
    """Return a document of a file and those that it extends, nearest first."""
    chain = [_Link(document, source.folder)]
    seen = [Path(source.file).resolve()] if source.folder is not None else []
    while True:
        link = chain[-1]
        path = parent_of(link.node, link.folder, seen)
        if path is None:
            return chain
        seen.append(path)
        text = read_text(path, MappingSyntaxError, NoMappingError)
        chain.append(_Link(_parsed(text, str(path)), path.parent))


@functools.lru_cache(maxsize=16)
def _parsed(text: str, file: str) -> Node:
    return parse(text, file, MappingSyntaxError)


def _machine(chain: list[_Link], machine: str | Path | Machine | None) -> tuple[Machine, str]:
    """Return the machine, and why it was taken if it is not the one that the files name."""
    named = [(n, link) for link in chain if (n := _machine_node(link.node)) is not None]
    if machine is not None:
        asked = load_machine(machine)
        differs = named and named[0][0].text != asked.name
        return (
            asked,
            f"the mapping is for {named[0][0].text}, and taken for {asked.name} as asked"
            if differs
            else "",
        )
    # The nearest file that names one decides.
    for node, link in named:
        return _named_machine(node, link.folder), ""
    reason = f"the mapping names no machine, so {DEFAULT_MACHINE} is taken"
    return load_machine(DEFAULT_MACHINE), reason


def _machine_node(document: Node) -> Node | None:
    node = document.get("machine")
    return node if node is not None and isinstance(node.value, str) and not node.tag else None


def _named_machine(node: Node, folder: Path | None) -> Machine:
    name = node.text
    if name in machine_names():
        return load_machine(name)
    beside = None if folder is None or not name.endswith(".yaml") else folder / name
    # Neither a path nor a link may lead out of the mapping's folder.
    if beside is not None and "/" not in name and is_file(beside) and not beside.is_symlink():
        return load_machine(beside)
    hint = nearest(name, machine_names())
    raise UnknownNameError(f"no machine {shortened(name)!r}", node.where, hint=hint)


def names_of(machine: Machine) -> dict[str, tuple[str, ...]]:
    """Return the names that a mapping may use of a machine, aliases too, by what they are of."""
    parts = {
        "processor": [p.name for p in machine.processors],
        "memory": [m.name for m in machine.memories],
        "engine": [e.name for e in machine.engines],
        "instruction": [i.name for i in machine.instructions],
    }
    return {
        what: (*own, *(a for a, target in machine.aliases.items() if target in own))
        for what, own in parts.items()
    }


def _report(machine: Machine) -> Report:
    return Report(FAMILY, names_of(machine), machine.name, machine.aliases, check_tune)


def _moved(mapping: MappingFile, machine: Machine) -> MappingFile:
    """Return the mapping for another machine, checked against its names."""
    if mapping.cases:
        cases = tuple(replace(c, mapping=_moved(c.mapping, machine)) for c in mapping.cases)
        return replace(mapping, machine=machine, cases=cases)
    if mapping.document is None or machine == mapping.machine:
        return mapping
    report = _report(machine)
    check(MAPPING, mapping.document, report)
    raise_all(report.errors)
    reason = f"the mapping is for {mapping.machine.name}, and taken for {machine.name} as asked"
    return read(mapping.document, machine, reason, mapping.file)


def _place(error: SepTranError) -> tuple[str, int, int]:
    where: Location | None = error.where
    if isinstance(error, Errors) or where is None:
        return ("", 0, 0)
    return (where.file, where.line, where.column or 0)
