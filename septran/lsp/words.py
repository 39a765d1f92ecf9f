"""What may be written at a place of a mapping or machine file, and what its keys mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from septran.dtypes import ALL
from septran.errors import SepTranError
from septran.lsp.cursor import ITEM, Cursor
from septran.machine.kinds import Choice, Either, Field, Flag, Kind, ListOf, Named, Record, TableOf
from septran.machine.loader import load_machine, machine_names
from septran.machine.model import Machine
from septran.machine.schema import MACHINE
from septran.mapping.loader import mapping_names, names_of
from septran.mapping.schema import MAPPING

ROOTS: Mapping[str, Kind] = {"mapping": MAPPING, "machine": MACHINE}
"""What a file of a kind holds."""


@dataclass(frozen=True)
class Completion:
    """A word that may be written."""

    text: str
    about: str
    key: bool = False
    """Whether it is a key, which a value follows."""


def words_at(kind: str, cursor: Cursor, machine: Machine | None) -> tuple[Completion, ...]:
    """Return the keys, names and words that may stand at a place of a file of a kind."""
    names = names_of(machine) if machine is not None else {}
    if not cursor.key and cursor.path[-1:] in (("machine",), ("extends",)):
        given = machine_names() if kind == "machine" or cursor.path[-1] == "machine" else ()
        return tuple(Completion(n, "comes with SepTran") for n in given or mapping_names())
    found: dict[str, Completion] = {}
    for at, about in _kinds(ROOTS[kind], cursor.path):
        words = _keys(at, names) if cursor.key else _values(at, about, names)
        for word in words:
            found.setdefault(word.text, word)
    return tuple(found.values())


def about_key(kind: str, path: tuple[str, ...]) -> str:
    """Return what a key means; empty where it is none of SepTran's."""
    *before, key = path
    for at, _ in _kinds(ROOTS[kind], tuple(before)):
        if isinstance(at, Record) and key in at.fields:
            field = at.fields[key]
            return f"{field.doc}; {field.kind.expected}"
    return ""


def machine_of(text: str) -> Machine | None:
    """Return the machine that a mapping says it is for, however much else is wrong in it."""
    for row in text.splitlines():
        key, _, value = row.partition(":")
        name = value.partition("#")[0].strip().removesuffix(".mapping.yaml")
        if key in ("machine", "extends") and name in machine_names():
            try:
                return load_machine(name)
            except SepTranError:
                return None
    return None


def _kinds(kind: Kind, path: tuple[str, ...], about: str = "") -> Iterator[tuple[Kind, str]]:
    """Yield the kinds of value that may stand at a path below one, with what is said of them."""
    if isinstance(kind, Either):
        for one in kind.kinds:
            yield from _kinds(one, path, about)
        return
    if not path:
        yield kind, about
        return
    step, rest = path[0], path[1:]
    if isinstance(kind, ListOf) and step == ITEM:
        yield from _kinds(kind.kind, rest, about)
    elif isinstance(kind, Record) and step in kind.fields:
        field: Field = kind.fields[step]
        yield from _kinds(field.kind, rest, field.doc)
    elif isinstance(kind, TableOf):
        yield from _kinds(kind.known.get(step, kind.value), rest, about)


def _keys(kind: Kind, names: Mapping[str, Iterable[str]]) -> Iterator[Completion]:
    if isinstance(kind, Record):
        for name, field in kind.fields.items():
            yield Completion(name, field.doc, key=True)
    elif isinstance(kind, TableOf):
        for name, value in kind.known.items():
            yield Completion(name, value.expected, key=True)
        if isinstance(kind.key, Named):
            for name in names.get(kind.key.what, ()):
                yield Completion(name, f"a {kind.key.what}", key=True)


def _values(kind: Kind, about: str, names: Mapping[str, Iterable[str]]) -> Iterator[Completion]:
    if isinstance(kind, Choice):
        known = "an element type" if set(kind.words) <= set(ALL) else about
        yield from (Completion(word, known) for word in kind.words)
    elif isinstance(kind, Flag):
        yield from (Completion(word, about) for word in ("true", "false"))
    elif isinstance(kind, Named):
        own = [name for name in names.get(kind.what, ()) if "*" not in name]
        yield from (Completion(word, f"a {kind.what}") for word in (*own, *kind.extra))
    elif isinstance(kind, ListOf):  # a list may be begun, and its elements are meant
        for one, said in _kinds(kind.kind, (), about):
            yield from _values(one, said, names)
