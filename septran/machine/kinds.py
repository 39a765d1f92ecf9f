"""Kinds of values in a YAML file: how each is checked, and its JSON Schema.

A `Record` of kinds is the single description of a file: `check` finds every mistake of a
node with its place, and `schema` gives the same rules to editors. Nothing is converted
here: readers take values from nodes that were checked.
"""

# ruff: noqa: D102 -- the methods of every kind are those of `Kind`, described there

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from septran.errors import SepTranError, nearest
from septran.location import Location
from septran.machine.positions import TUNE, Node

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
Schema = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """The error classes of one kind of file."""

    unknown_key: type[SepTranError]
    missing_key: type[SepTranError]
    wrong_value: type[SepTranError]
    unknown_name: type[SepTranError]


@dataclass
class Report:
    """The facts known while a file is checked, and the mistakes found so far."""

    family: Family
    names: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """The names that exist, by kind of thing: ``memory``, ``processor``, ...

    There is no entry where that is not known, so that one mistake does not become many.
    """
    owner: str = ""
    """The owner of the names: ``cpu-x86``."""
    aliases: Collection[str] = ()
    """Those of the names that are other words for some of them."""
    tune: Callable[[Kind, Node, Report], None] | None = None
    """A function that checks a ``!tune`` value against the kind that it replaces; None: refused."""
    errors: list[SepTranError] = field(default_factory=list)

    def wrong(self, message: str, where: Location, hint: str | None = None) -> None:
        """Report a value of the wrong kind."""
        self.errors.append(self.family.wrong_value(message, where, hint=hint))

    def unknown(self, what: str, name: str, where: Location, extra: tuple[str, ...] = ()) -> None:
        """Report a name that does not exist; `extra` are words allowed besides."""
        known = [n for n in (*self.names[what], *extra) if "*" not in n]
        own = ", ".join(n for n in known if n not in self.aliases)
        others = ", ".join(n for n in known if n in self.aliases)
        also = f", also called {others}" if others else ""
        listed = f"; {self.owner} has {own}{also}" if self.owner and known else ""
        message = f"unknown {what} {name!r}{listed}"
        self.errors.append(self.family.unknown_name(message, where, hint=nearest(name, known)))


class Kind(Protocol):
    """A kind of value."""

    @property
    def expected(self) -> str:
        """The kind in words, for messages."""

    def accepts(self, node: Node) -> bool:
        """Return whether a node is of the right type, whatever its content."""

    def check(self, node: Node, report: Report) -> None:
        """Add every mistake in the node to the report."""

    def schema(self) -> Schema:
        """Return the JSON Schema of the kind."""


def check(kind: Kind, node: Node, report: Report) -> None:
    """Check a value, or the alternatives where it is ``!tune``."""
    if node.tag == TUNE:
        if report.tune is None:
            report.wrong("!tune is for mappings", node.where, "write a value")
        else:
            report.tune(kind, node, report)
    elif not kind.accepts(node):
        report.wrong(f"expected {kind.expected}, not {found(node)}", node.where, advice(node))
    else:
        kind.check(node, report)


@dataclass(frozen=True)
class Text:
    """A word or sentence that matches a pattern."""

    pattern: str = r"[^\x00-\x1f\x7f]{0,400}"
    what: str = "a text"

    @property
    def expected(self) -> str:
        return self.what

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, str)

    def check(self, node: Node, report: Report) -> None:
        if not re.fullmatch(self.pattern, node.text):
            report.wrong(f"{quoted(node.text)} is not {self.what}", node.where)

    def schema(self) -> Schema:
        # JSON Schema looks for a pattern anywhere in the text, where `check` matches all of it.
        return {"type": "string", "pattern": f"^({self.pattern})$"}


NAME = Text(IDENTIFIER, "a name (letters, digits and _, at most 64)")
FREE = Text()


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.words)}"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, str)

    def check(self, node: Node, report: Report) -> None:
        if node.text not in self.words:
            message = f"{quoted(node.text)} is not {self.expected}"
            report.wrong(message, node.where, nearest(node.text, self.words))

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Flag:
    """The kind of true and false."""

    expected: str = "true or false"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, bool)

    def check(self, node: Node, report: Report) -> None:
        del node, report

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole:
    """An integer within bounds."""

    least: int = 1
    most: int = 1 << 31

    @property
    def expected(self) -> str:
        return f"an integer of at least {self.least}"

    def accepts(self, node: Node) -> bool:
        # Python counts True among the integers.
        return isinstance(node.value, int) and not isinstance(node.value, bool)

    def check(self, node: Node, report: Report) -> None:
        value = node.value
        if not isinstance(value, int) or not self.least <= value <= self.most:
            bounds = f"at least {self.least} and at most {self.most}"
            report.wrong(f"{node.text} is not {bounds}", node.where)

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number:
    """A number above zero, or any number."""

    positive: bool = True

    @property
    def expected(self) -> str:
        return "a positive number" if self.positive else "a number"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)

    def check(self, node: Node, report: Report) -> None:
        if self.positive and not (isinstance(node.value, int | float) and node.value > 0):
            report.wrong(f"{node.text} is not positive", node.where)

    def schema(self) -> Schema:
        return {"type": "number", **({"exclusiveMinimum": 0} if self.positive else {})}


@dataclass(frozen=True)
class Named:
    """The name of something that exists: a memory, a processor, an instruction, ..."""

    what: str
    extra: tuple[str, ...] = ()
    """Words that are allowed besides."""

    @property
    def expected(self) -> str:
        return f"the name of a {self.what}"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, str)

    def check(self, node: Node, report: Report) -> None:
        name = node.text
        if name in self.extra:
            return
        # Where no names are known, a name can only be checked for its form.
        if self.what not in report.names:
            NAME.check(node, report)
        elif not any(_same(name, known) for known in report.names[self.what]):
            report.unknown(self.what, name, node.where, self.extra)

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^({IDENTIFIER})$"}


@dataclass(frozen=True)
class ListOf:
    """A list."""

    kind: Kind
    least: int = 0
    most: int = 256

    @property
    def expected(self) -> str:
        return f"a list, each {self.kind.expected}"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, tuple)

    def check(self, node: Node, report: Report) -> None:
        if not self.least <= len(node.elements) <= self.most:
            report.wrong(
                f"a list of {len(node.elements)}, not of {self.least} to {self.most}", node.where
            )
        for element in node.elements:
            check(self.kind, element, report)

    def schema(self) -> Schema:
        bounds = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.kind.schema(), **bounds, "maxItems": self.most}


@dataclass(frozen=True)
class TableOf:
    """A table with keys of one kind and values of one kind."""

    key: Text | Named
    value: Kind
    least: int = 0
    known: Mapping[str, Kind] = field(default_factory=dict)
    """The keys whose values have a kind of their own."""

    @property
    def expected(self) -> str:
        return "a table (key: value)"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, Mapping)

    def check(self, node: Node, report: Report) -> None:
        if len(node.items) < self.least:
            report.wrong("at least one entry is needed here", node.where)
        for key, value in node.items.items():
            self.key.check(Node(key, node.keys[key]), report)
            check(self.known.get(key, self.value), value, report)

    def schema(self) -> Schema:
        pattern = self.key.schema()["pattern"]
        return {
            "type": "object",
            "patternProperties": {pattern: self.value.schema()},
            **(
                {"properties": {k: v.schema() for k, v in self.known.items()}} if self.known else {}
            ),
            "additionalProperties": False,
            **({"minProperties": self.least} if self.least else {}),
        }


@dataclass(frozen=True)
class Field:
    """A key of a record."""

    kind: Kind
    doc: str
    required: bool = False


@dataclass(frozen=True)
class Record:
    """A table with known keys, each with its own kind."""

    fields: Mapping[str, Field]
    what: str = "a table"
    require: str = ""
    """Words for the message about a missing key."""

    @property
    def expected(self) -> str:
        return f"{self.what} ({', '.join(list(self.fields)[:4])}, ...)"

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, Mapping)

    def check(self, node: Node, report: Report) -> None:
        meant: set[str] = set()
        for key, value in node.items.items():
            if key not in self.fields:
                # A required key that is misspelt is reported once, not also as missing.
                meant.add(self._unknown(key, node, report))
            elif value.value is None and value.tag == "":
                wanted = self.fields[key].kind.expected
                report.wrong(f"{key!r} has no value; expected {wanted}", node.keys[key])
            else:
                check(self.fields[key].kind, value, report)
        for key, wanted_field in self.fields.items():
            if wanted_field.required and key not in node.items and key not in meant:
                message = f"{self.what} needs {key!r}: {wanted_field.doc}"
                report.errors.append(report.family.missing_key(message, node.where))

    def _unknown(self, key: str, node: Node, report: Report) -> str:
        """Report an unknown key, and return the known one that was probably meant."""
        hint = nearest(key, self.fields)
        message = f"unknown key {key!r} in {self.what}"
        report.errors.append(report.family.unknown_key(message, node.keys[key], hint=hint))
        # The hint, where there is one, has the nearest key in quotes.
        return hint.partition("'")[2].rpartition("'")[0]

    def schema(self) -> Schema:
        properties = {
            key: {"description": f.doc, **f.kind.schema()} for key, f in self.fields.items()
        }
        required = [key for key, f in self.fields.items() if f.required]
        return {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            **({"required": required} if required else {}),
        }


@dataclass(frozen=True)
class Either:
    """One of several kinds, distinguished by type."""

    kinds: tuple[Kind, ...]

    @property
    def expected(self) -> str:
        return ", or ".join(dict.fromkeys(kind.expected for kind in self.kinds))

    def accepts(self, node: Node) -> bool:
        return any(kind.accepts(node) for kind in self.kinds)

    def check(self, node: Node, report: Report) -> None:
        attempts: list[list[SepTranError]] = []
        for kind in self.kinds:
            if kind.accepts(node):
                attempt = replace(report, errors=[])
                check(kind, node, attempt)
                attempts.append(attempt.errors)
        # The attempt with the fewest mistakes is most likely the kind that was meant.
        report.errors += sorted(attempts, key=len)[0]

    def schema(self) -> Schema:
        return {"anyOf": [kind.schema() for kind in self.kinds]}


def many(kind: Kind) -> Either:
    """Return the kind of one value, or a list of them."""
    return Either((kind, ListOf(kind, least=1)))


def _same(name: str, known: str) -> bool:
    return fnmatch.fnmatchcase(name, known) if "*" in known else name == known


def found(node: Node) -> str:
    """Return what a node holds, in the words of a message."""
    if isinstance(node.value, Mapping):
        return "a table"
    if isinstance(node.value, tuple):
        return "a list"
    if node.value is None:
        return "nothing"
    kind = {bool: "the flag", int: "the number", float: "the number", str: "the word"}
    return f"{kind[type(node.value)]} {quoted(node.text)}"


def advice(node: Node) -> str | None:
    """Return a hint about a word that YAML versions disagree on, else None."""
    if node.value in ("yes", "no", "on", "off", "Yes", "No", "On", "Off"):
        return "write true or false"
    return None


def quoted(text: str) -> str:
    """Return a part of a file in quotes, shortened where it is long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
