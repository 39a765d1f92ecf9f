"""Reading of a checked mapping document as a `MappingFile`."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Table
from types import MappingProxyType
from typing import Any

from septran.errors import SepTranError, nearest
from septran.machine.model import Machine
from septran.machine.positions import TUNE, Node
from septran.mapping.conditions import Condition, condition
from septran.mapping.keys import KEYS, LISTS, SINGLE, TABLES
from septran.mapping.mapping import (
    Manner,
    MappingFile,
    Match,
    Preference,
    Rule,
    TaskMapping,
    TunableCase,
)
from septran.mapping.mistakes import (
    ConditionError,
    LateRuleError,
    MissingKeyError,
    UnknownInstanceError,
)
from septran.mapping.resolved import Setting
from septran.mapping.tune import Candidate, Dimension, read_tune


def across(document: Node) -> Iterator[SepTranError]:
    """Yield mistakes that only show when the whole mapping is seen."""
    instances = _section(document, "task_mappings")
    if not instances and not _elements(document, "rules"):
        message = "the mapping maps nothing: it has neither task_mappings nor rules"
        yield MissingKeyError(message, document.where)
    entry = document.get("entrypoint")
    if entry and entry.text not in instances:
        message = f"no instance {entry.text!r} in task_mappings"
        yield UnknownInstanceError(message, entry.where, hint=nearest(entry.text, instances))
    for name, instance in instances.items():
        if instance.get("task_name") is None:
            message = f"instance {name} needs 'task_name': the task or variant that it maps"
            yield MissingKeyError(message, document.items["task_mappings"].keys[name])
        for called in _section(instance, "calls").values():
            if called.text not in instances:
                message = f"no instance {called.text!r} in task_mappings"
                hint = nearest(called.text, instances)
                yield UnknownInstanceError(message, called.where, hint=hint)
    try:
        named = conditions(document)
    except ConditionError as error:
        yield error
        return
    for rule in _elements(document, "rules"):
        yield from _late(rule, named)
    yield from _constraints(document)


def conditions(document: Node) -> dict[str, Condition]:
    """The file's conditions by name; raises ConditionError where they name each other in turn."""
    given, found = _section(document, "conditions"), dict[str, Condition]()

    def read_one(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            message = f"the conditions {' and '.join(trail)} name each other"
            raise ConditionError(message, given[name].where)
        # Those that it names are read first, as a condition holds them.
        for other in sorted(condition(given[name]).names & given.keys() - found.keys()):
            read_one(other, (*trail, name))
        found[name] = condition(given[name], found)

    for name in given:
        if name not in found:
            read_one(name, ())
    return found


def _late(rule: Node, named: Table[str, Condition]) -> Iterator[SepTranError]:
    match = rule.get("match")
    if match is None or not _match(match, named).needs_body:
        return
    fact = next(k for k in ("primitive", "leaf", "holds", "reaches") if k in match.items)
    for key in ("variant", "tunables"):
        if key in rule.items:
            yield LateRuleError(
                f"a rule by {fact!r} cannot set {key!r}: it must be known before the task is "
                "traced, and what it computes is known after",
                rule.keys[key],
                hint="match by task, products, level, loops or dtype instead",
            )


def _constraints(document: Node) -> Iterator[SepTranError]:
    names = {d.name for d in dimensions(document)}
    for node in _elements(document, "constraints"):
        for name in sorted(condition(node).names - names):
            message = f"constraint names {name!r}, which is not !tune"
            yield ConditionError(message, node.where, hint=nearest(name, names))


def read(document: Node, machine: Machine, assumed: str, file: str) -> MappingFile:
    """Return the mapping that a checked document describes."""
    entry, named = document.get("entrypoint"), conditions(document)
    instances = _section(document, "task_mappings")
    return MappingFile(
        machine=machine,
        entrypoint=Setting(entry.text, "entrypoint", entry.where) if entry else None,
        instances=MappingProxyType(
            {
                name: _plan(f"instance {name}", name, document.items["task_mappings"], node, named)
                for name, node in instances.items()
            }
        ),
        rules=tuple(_rules(document, file, named)),
        tunables=_tunables(document, "tunables of the mapping", named),
        dimensions=dimensions(document),
        constraints=tuple(condition(n) for n in _elements(document, "constraints")),
        conditions=MappingProxyType(named),
        assumed=assumed,
        file=file,
        document=document,
    )


def _rules(document: Node, file: str, named: Table[str, Condition]) -> Iterator[Rule]:
    counts: dict[str, int] = {}
    for node in _elements(document, "rules"):
        home = node.where.file
        counts[home] = counts.get(home, 0) + 1
        other = "" if home == file else f" of {node.where.short_file.rpartition('/')[2]}"
        name = f"rule {counts[home]}{other}"
        match = node.get("match")
        plan = _settings(name, name, node, node.where, named)
        yield Rule(_match(match, named) if match else Match(), plan)


def _plan(
    reason: str, name: str, section: Node, node: Node, named: Table[str, Condition]
) -> TaskMapping:
    return _settings(reason, name, node, section.keys[name], named)


def _settings(
    reason: str, name: str, node: Node, where: Any, named: Table[str, Condition]
) -> TaskMapping:
    variant = node.get("task_name") or node.get("variant")
    manner = variant if variant is not None and variant.items else None
    given = {key: found for key in KEYS if (found := key.found(node)) is not None}
    return TaskMapping(
        name=name,
        where=where,
        variant=None if manner else _text(variant, reason),
        manner=Setting(_manner(manner), reason, manner.where) if manner else None,
        settings=MappingProxyType({k.path: _value(given[k], reason) for k in SINGLE if k in given}),
        tables=MappingProxyType({k.path: _entries(given[k], reason) for k in TABLES if k in given}),
        options=MappingProxyType({k.path: _lists(given[k], reason) for k in LISTS if k in given}),
        tunables=_tunables(node, reason, named),
        keys=MappingProxyType(
            {f"{table}.{k}": v for table, n in node.items.items() for k, v in n.keys.items()}
        ),
    )


def _text(node: Node | None, reason: str) -> Setting[str] | None:
    return None if node is None else Setting(_first(node).text, reason, node.where)


def _value(node: Node, reason: str) -> Setting[Any]:
    return Setting(_first(node).plain(), reason, node.where)


def _entries(node: Node, reason: str) -> Table[str, Setting[Any]]:
    """Return settings by tensor, role or launch; ``[NONE, L2]`` is L2 and optional."""
    found: dict[str, Setting[Any]] = {}
    for name, value in node.items.items():
        said = _first(value)
        chosen = _first(said.elements[-1]) if isinstance(said.value, tuple) else said
        found[name] = Setting(chosen.value, reason, value.where, optional=chosen is not said)
    return MappingProxyType(found)


def _lists(node: Node, reason: str) -> Table[str, tuple[Setting[str], ...]]:
    """Return lists by primitive or launch, under ``*`` if one list is for all."""
    if node.items and not node.tag:
        return MappingProxyType({k: _list(v, reason) for k, v in node.items.items()})
    return MappingProxyType({"*": _list(node, reason)})


def _list(node: Node, reason: str) -> tuple[Setting[str], ...]:
    return tuple(Setting(_first(e).text, reason, e.where) for e in _first(node).elements)


def _manner(node: Node) -> Manner:
    # An empty list asks for a product without loops, a missing key for nothing.
    order = _words(node, "order") if node.get("order") is not None else None
    words = (_words(node, key) for key in ("multiplies", "computed"))
    return Manner(order, _flag(node, "sums_apart"), *words)


def _tunables(node: Node, reason: str, named: Table[str, Condition]) -> Table[str, Preference]:
    section = node.get("tunables")
    return MappingProxyType(
        {
            name: Preference(
                tuple(_cases(value, named)), reason, section.keys[name] if section else value.where
            )
            for name, value in (section.items if section else {}).items()
        }
    )


def _cases(node: Node, named: Table[str, Condition]) -> Iterator[TunableCase]:
    plain = _first(node)
    for element in plain.elements if not plain.items else (plain,):
        when, multiple = element.get("when"), element.get("multiple")
        chosen = element.items["value"] if element.items else element
        value = _first(chosen).value
        holds = condition(when, named) if when else None
        step = int(_first(multiple).value) if multiple else 1  # type: ignore[arg-type]
        yield TunableCase(value, chosen.where, holds, step)  # type: ignore[arg-type]


def _match(node: Node, named: Table[str, Condition]) -> Match:
    within = node.get("within")
    leaf = node.get("leaf")
    loops = node.get("loops")
    when = node.get("when")
    holds = node.get("holds")
    flag = leaf.value if leaf and isinstance(leaf.value, bool) else None
    kinds = () if leaf is None or flag is not None else tuple(e.text for e in leaf.elements)
    return Match(
        task=_words(node, "task"),
        variant=_words(node, "variant"),
        within=() if within is not None and within.items else _words(node, "within"),
        below=_match(within, named) if within is not None and within.items else None,
        products=tuple(int(w) for w in _words(node, "products")),
        order=_words(node, "order") if node.get("order") is not None else None,
        between_products="".join(_words(node, "between_products")),
        masked=_flag(node, "masked"),
        carried=_flag(node, "carried"),
        reduces=_flag(node, "reduces"),
        scans=_flag(node, "scans"),
        scatters=_flag(node, "scatters"),
        turns=_flag(node, "turns"),
        shared_right=_flag(node, "shared_right"),
        window=_words(node, "window"),
        computed=_words(node, "computed"),
        transposed=_words(node, "transposed"),
        primitive=_words(node, "primitive"),
        level=tuple(0 if w == "entry" else int(w) for w in _words(node, "level")),
        parallel=None if loops is None else loops.text == "parallel",
        leaf=True if kinds else flag,
        leaf_kind=kinds,
        spreads=None if holds is None else holds.text == "parallel",
        reaches=_words(node, "reaches"),
        dtype=_words(node, "dtype"),
        any_dtype=_words(node, "any_dtype"),
        machine_feature=_words(node, "machine_feature"),
        converts=_flag(node, "converts"),
        when=condition(when, named) if when else None,
    )


def _flag(node: Node, key: str) -> bool | None:
    found = node.get(key)
    return None if found is None else bool(found.value)


def _words(node: Node, key: str) -> tuple[str, ...]:
    found = node.get(key)
    return tuple(e.text for e in found.elements) if found else ()


def _section(node: Node | None, key: str) -> Table[str, Node]:
    found = node.items.get(key) if node else None
    return found.items if found else {}


def _elements(node: Node, key: str) -> tuple[Node, ...]:
    found = node.items.get(key)
    return found.elements if found else ()


def _first(node: Node) -> Node:
    """Return the node itself, or for `!tune` its first candidate in its place."""
    if node.tag != TUNE:
        return node
    return _scalar(next(read_tune(node).candidates()), node)


def _scalar(value: Candidate, node: Node) -> Node:
    if isinstance(value, tuple):
        return Node(tuple(Node(v, node.where) for v in value), node.where)
    return Node(value, node.where)


def dimensions(document: Node) -> tuple[Dimension, ...]:
    """Return every `!tune` of a checked document, in its order."""
    found = list(_tuned(document, ()))
    names = [_short(path) for path, _ in found]
    return tuple(
        Dimension(
            name if names.count(name) == 1 else _long(path), path, read_tune(node), node.where
        )
        for name, (path, node) in zip(names, found, strict=True)
    )


def _tuned(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    if node.tag == TUNE:
        yield path, node
        return
    for key, value in node.items.items():
        yield from _tuned(value, (*path, key))
    if isinstance(node.value, tuple):
        for number, element in enumerate(node.value):
            yield from _tuned(element, (*path, str(number)))


def _short(path: tuple[str, ...]) -> str:
    words = [p for p in path if p.isidentifier()]
    return words[-1] if words else "value"


def _long(path: tuple[str, ...]) -> str:
    kept = [p for p in path if p not in ("task_mappings", "tunables")]
    return "_".join("".join(c if c.isalnum() else "_" for c in word) for word in kept)


def filled(node: Node, values: Table[tuple[str, ...], Candidate], at: tuple[str, ...] = ()) -> Node:
    """Return the document with some of its `!tune` replaced by values, by path."""
    if at in values:
        return _scalar(values[at], node)
    if node.tag:
        return node
    if isinstance(node.value, tuple):
        inner = tuple(filled(e, values, (*at, str(n))) for n, e in enumerate(node.value))
        return Node(inner, node.where)
    if node.items:
        entries = {k: filled(v, values, (*at, k)) for k, v in node.items.items()}
        return Node(MappingProxyType(entries), node.where, "", node.keys)
    return node
