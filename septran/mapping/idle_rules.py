"""Rules without effect for a logic: no task matches, or none has what they name.

A machine's mapping is for any logic, so most of its rules are idle for one of them. A file that
extends it is written for the logic at hand: names in its own rules that the logic does not have
are most likely misspelt, and are reported.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from septran.errors import nearest
from septran.location import Location
from septran.machine.model import Machine
from septran.machine.positions import Node
from septran.mapping.choose import Scope
from septran.mapping.keys import GROUPS, KEYS, MEMS
from septran.mapping.mapping import MappingFile, Match, Rule
from septran.mapping.names import tensors_of
from septran.mapping.resolved import Decision
from septran.mapping.rules import Facts, callers_of, matches
from septran.mapping.structure.structure import PARTS
from septran.task.tree import TaskNode


@dataclass(frozen=True)
class Visited:
    """A task of the logic, with the facts that rules see and the plans that are for it."""

    task: TaskNode
    facts: Facts
    scope: Scope

    def follows(self, rule: Rule) -> bool:
        """Return whether the rule is for it."""
        return any(plan is rule.plan for plan in self.scope.plans)


def idle_rules(
    mapping: MappingFile, machine: Machine, logic: str, tasks: Sequence[Visited]
) -> Iterator[Decision]:
    """Yield the parts of a file's own rules without effect, if the file extends another one."""
    if not mapping.extends or mapping.document is None:
        return
    rules = mapping.document.items.get("rules")
    for rule, node in zip(mapping.rules, rules.elements if rules else (), strict=True):
        if rule.plan.where.file != mapping.file:
            continue
        own = [task for task in tasks if task.follows(rule)]
        if own:
            yield from _unasked(rule, own, tasks)
            yield from _tensors(rule, own)
        else:
            yield from _without_a_task(rule, node, machine, logic, tasks)


def _without_a_task(
    rule: Rule, node: Node, machine: Machine, logic: str, tasks: Sequence[Visited]
) -> Iterator[Decision]:
    """Yield a rule that matches no task, nor would in a call with other sizes or types.

    Nor with other variants, which sizes and types may choose.
    """
    lasting = replace(rule.match, when=None, dtype=(), machine_feature=(), variant=())
    if any(matches(lasting, task.facts, machine) for task in tasks):
        return
    why, hint = f"it is for no task of {logic}", _too_much(lasting, machine, tasks)
    where = rule.plan.where
    for key, known in _names(tasks).items():
        patterns = getattr(rule.match, key)
        if patterns and not any(fnmatch.filter(known, pattern) for pattern in patterns):
            listed = " or ".join(map(repr, patterns))
            launches = " and launches another one" if key == "within" else ""
            why = f"no task of {logic} is called {listed}{launches}"
            hint = nearest(patterns[0], known)
            where = _place(node, key, where)
            break
    message = f"{rule.plan.name} has no effect: {why}"
    yield Decision("no-effect", rule.plan.name, message, hint, where)


def _names(tasks: Iterable[Visited]) -> dict[str, set[str]]:
    """Return the names that each key of a match by name can hold."""
    facts = [task.facts for task in tasks]
    return {
        "task": {f.task for f in facts},
        "within": {name for f in facts for name in callers_of(f.path)},
    }


def _place(node: Node, key: str, otherwise: Location) -> Location:
    """Return the place of `key` in the match of a rule."""
    match = node.get("match")
    said = match.get(key) if match else None
    return said.where if said else otherwise


def _too_much(match: Match, machine: Machine, tasks: Iterable[Visited]) -> str | None:
    """Return a hint at the one key of a match without which a task would follow the rule."""
    facts = [task.facts for task in tasks]
    for key in sorted(fields(Match), key=lambda key: key.name in ("task", "within")):
        open_field: dict[str, Any] = {key.name: key.default}
        without = replace(match, **open_field)
        found = next((f for f in facts if matches(without, f, machine)), None)
        if without != match and found is not None:
            said = _WORDS.get(key.name, key.name)
            return f"without `{said}` it would be for {found.variant or found.task}"
    return None


_WORDS = {"parallel": "loops", "leaf_kind": "leaf", "spreads": "holds", "below": "within"}
"""The keys of a match that a mapping file calls otherwise than `Match` does."""


def _unasked(rule: Rule, own: Sequence[Visited], tasks: Iterable[Visited]) -> Iterator[Decision]:
    """Yield tunables of a rule that neither its tasks nor those that they launch read."""
    asked = sorted({name for v in own for t in v.task.walk() for name, _ in t.tunables})
    owner = own[0].task.variant
    for key, preference in rule.plan.tunables.items():
        if fnmatch.filter(asked, key):
            continue
        elsewhere = [
            v.task.variant for v in tasks if fnmatch.filter((n for n, _ in v.task.tunables), key)
        ]
        why = f"{owner} uses {', '.join(asked)}" if asked else f"{owner} uses no tunables"
        hint = nearest(key, asked) if asked else None
        if elsewhere:
            hint = f"{elsewhere[0]} asks for it: match that task, or one that launches it"
        message = f"tunable `{key}` has no effect: {why}"
        yield Decision("no-effect", rule.plan.name, message, hint, preference.where)


def _tensors(rule: Rule, own: Iterable[Visited]) -> Iterator[Decision]:
    """Yield tensors that a rule names and none of its tasks has."""
    tensors = sorted({name for visited in own for name in tensors_of(visited.task)})
    for key in (key for key in KEYS if key.entries == "tensor"):
        # Only `mems` has groups such as `writes`.
        known = {*tensors, *(GROUPS if key is MEMS else PARTS)}
        for name in (n for n in rule.plan.table(key) if n not in known):
            path = f"{key.path}.{name}"
            message = f"`{path}` has no effect: no task of {rule.plan.name} has that tensor"
            where, hint = rule.plan.keys.get(path), nearest(name, tensors)
            yield Decision("no-effect", rule.plan.name, message, hint, where)
