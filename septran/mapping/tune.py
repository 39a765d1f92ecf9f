"""`!tune`: a value for a search to find, the space that all span, and a text with values chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import yaml

from septran.location import Location
from septran.machine.kinds import (
    Choice,
    Either,
    Field,
    Flag,
    Kind,
    ListOf,
    Number,
    Record,
    Report,
    Schema,
    Text,
    Whole,
    check,
)
from septran.machine.positions import Node
from septran.mapping.conditions import Condition, Value
from septran.mapping.mistakes import TuneError

if TYPE_CHECKING:
    from septran.mapping.mapping import MappingFile

TYPES = ("choice", "range", "permutation")
MOST_VALUES = 1 << 20
Candidate = Union[Value, tuple[Value, ...]]
Point = Mapping[str, Candidate]
"""The values chosen for each `!tune`, by the dimensions' names."""

_ANY: Kind = Either((Whole(least=-(1 << 62), most=1 << 62), Flag(), Number(positive=False), Text()))
RECORD = Record(
    {
        "type": Field(Choice(TYPES), "how the values are given", required=True),
        "values": Field(ListOf(_ANY, least=1), "the values (choice), or what is put in order"),
        "low": Field(Whole(least=-(1 << 31)), "the least value of a range"),
        "high": Field(Whole(least=-(1 << 31)), "the greatest value of a range"),
        "step": Field(Whole(), "from one value of a range to the next; 1 where missing"),
    },
    "!tune",
)


@dataclass(frozen=True)
class Tune:
    """The values that one place of a mapping may take."""

    type: str
    values: tuple[Value, ...] = ()
    """The values of a choice, or those that a permutation orders."""
    low: int = 0
    high: int = 0
    step: int = 1

    @property
    def size(self) -> int:
        """The number of candidates."""
        if self.type == "range":
            return (self.high - self.low) // self.step + 1
        return math.factorial(len(self.values)) if self.type == "permutation" else len(self.values)

    def candidates(self) -> Iterator[Candidate]:
        """Yield every candidate, in order."""
        if self.type == "range":
            yield from range(self.low, self.high + 1, self.step)
        elif self.type == "permutation":
            yield from itertools.permutations(self.values)
        else:
            yield from self.values


@dataclass(frozen=True)
class Dimension:
    """One place of a mapping that is searched."""

    name: str
    """The name in constraints and in the tuner: its key, with its path where keys repeat."""
    path: tuple[str, ...]
    """The keys (and numbers) that lead to it in the file."""
    tune: Tune
    where: Location

    @property
    def size(self) -> int:
        """The number of candidates."""
        return self.tune.size


@dataclass(frozen=True)
class Space:
    """All combinations of the dimensions that meet the constraints."""

    dimensions: tuple[Dimension, ...] = ()
    constraints: tuple[Condition, ...] = ()

    @property
    def size(self) -> int:
        """The number of combinations before the constraints; 1 without dimensions."""
        return math.prod(d.size for d in self.dimensions)

    def allows(self, point: Mapping[str, Candidate]) -> bool:
        """Return whether a combination meets every constraint; raises ConditionError."""
        # An order of values is no number or word that a constraint could compare.
        known = {k: v for k, v in point.items() if not isinstance(v, tuple)}
        return all(c.holds(known) for c in self.constraints)

    def points(self) -> Iterator[dict[str, Candidate]]:
        """Yield the combinations that meet the constraints, in order."""
        names = [d.name for d in self.dimensions]
        for values in itertools.product(*(list(d.tune.candidates()) for d in self.dimensions)):
            point = dict(zip(names, values, strict=True))
            if self.allows(point):
                yield point

    def __str__(self) -> str:
        lines = [f"{self.size} combinations of {len(self.dimensions)} dimensions"]
        lines += [f"  {d.name}: {d.size} ({_values(d.tune)})" for d in self.dimensions]
        return "\n".join([*lines, *(f"  where {c.text}" for c in self.constraints)])


def check_tune(kind: Kind, node: Node, report: Report) -> None:
    """Check a `!tune` and each of its values against the kind of the value it replaces."""
    # Without its tag, which would send `check` back to here.
    plain = Node(node.value, node.where, "", node.keys)
    before = len(report.errors)
    check(RECORD, plain, report)
    if len(report.errors) > before:
        return
    try:
        tune = read_tune(plain)
    except TuneError as error:
        report.errors.append(error)
        return
    values = node.get("values")
    if tune.type == "range":
        for end in ("low", "high"):
            check(kind, node.items[end], report)
    elif tune.type == "permutation" and values:
        check(kind, values, report)
    elif values:
        for value in values.elements:
            check(kind, value, report)


def read_tune(node: Node) -> Tune:
    """Return the search that a node describes; raises TuneError."""
    kind = node.items["type"].text
    needed = ("low", "high") if kind == "range" else ("values",)
    for key in needed:
        if node.get(key) is None:
            raise TuneError(f"!tune of type {kind} needs {key!r}", node.where)
    for key in node.items:
        if key not in (*needed, "type", *(("step",) if kind == "range" else ())):
            raise TuneError(f"!tune of type {kind} has no {key!r}", node.keys[key])
    if kind != "range":
        return _listed(kind, node)
    low, high = int(node.items["low"].text), int(node.items["high"].text)
    step_node = node.get("step")
    step = int(step_node.text) if step_node else 1
    if high < low:
        raise TuneError(f"high {high} is less than low {low}", node.items["high"].where)
    if (high - low) // step >= MOST_VALUES:
        raise TuneError(f"a range of more than {MOST_VALUES} values", node.where)
    return Tune(kind, low=low, high=high, step=step)


def _listed(kind: str, node: Node) -> Tune:
    elements = node.items["values"].elements
    values: tuple[Value, ...] = tuple(e.value for e in elements)  # type: ignore[misc]
    # With their types: to Python, 1 and True and 1.0 are equal.
    seen: list[tuple[type, Value]] = []
    for element, value in zip(elements, values, strict=True):
        if (type(value), value) in seen:
            raise TuneError(f"{element.text} is listed twice", element.where)
        seen.append((type(value), value))
    # 8! is 40,320 already.
    if kind == "permutation" and len(values) > 8:
        raise TuneError(f"{len(values)}! orders are too many to search", node.where)
    return Tune(kind, values)


def tune_schema() -> Schema:
    """Return the schema of `!tune` as editors see it: the table without the tag."""
    return RECORD.schema()


def _values(tune: Tune) -> str:
    if tune.type == "range":
        return f"{tune.low}..{tune.high} step {tune.step}"
    return ", ".join(map(str, tune.values))


def settled(text: str, mapping: MappingFile, point: Point) -> str:
    """Return the text with chosen values, or the first candidates, in the place of each `!tune`."""
    document = yaml.compose(text, yaml.SafeLoader)
    edits: list[tuple[int, int, str]] = []
    for dimension in mapping.dimensions:
        node = _at(document, dimension.path)
        if node is not None and node.tag == "!tune":
            value = point.get(dimension.name, next(dimension.tune.candidates()))
            edits.append((node.start_mark.index, _end(node), value_text(value)))
    # From the end on, so that an edit moves no place that is still to be edited.
    for start, end, value in sorted(edits, reverse=True):
        text = text[:start] + value + text[end:]
    return text


def value_text(value: Candidate) -> str:
    """Return a value as YAML writes it in a line."""
    written = yaml.safe_dump(
        list(value) if isinstance(value, tuple) else value, default_flow_style=True
    )
    # YAML ends a document that is a bare scalar with dots.
    return str(written).removesuffix("...\n").strip()


def _at(node: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pairs: Mapping[str, Any] = {key.value: value for key, value in node.value}
            node = pairs.get(part)
        elif isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
        else:
            return None
    return node


def _end(node: Any) -> int:
    """Return where a node ends, without the white space and comments after a block."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    index: int = node.end_mark.index
    return index
