"""Keys that change nothing for this logic and machine are said to, never silently ignored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from septran.errors import nearest
from septran.location import Location
from septran.machine.model import NONE, Machine
from septran.mapping.choose import Scope
from septran.mapping.keys import COPY, LAYOUTS, REGISTERS, SINGLE, WARPSPECIALIZE, Key
from septran.mapping.mapping import Mapping as LoadedMapping
from septran.mapping.mapping import Preference
from septran.mapping.resolved import Decision, Instance, Setting, Settings
from septran.task.tree import Allocate, Launch, Loop, TaskNode, TaskTree, statements


def settle(
    instance: Instance,
    task: TaskNode,
    caller: Instance | None,
    launch: Launch | None,
    machine: Machine,
) -> tuple[Instance, list[Decision]]:
    """The instance without the keys that have no effect, and a decision for each of them."""
    found: list[Decision] = []

    def drop(key: str, why: str, where: Location | None, hint: str | None = None) -> None:
        message = f"`{key}` has no effect: {why}"
        found.append(Decision("no-effect", instance.path, message, hint, where))

    settings = instance.settings
    for key in SINGLE:
        setting = settings.get(key)
        if setting.value == key.default:
            continue
        if why := _idle(key, task, machine, settings):
            drop(key.path, why, setting.where)
            reason = f"{setting.reason}, without effect"
            settings = settings.changed(key, Setting(key.default, reason, setting.where))
    registers = settings.table(REGISTERS)
    if registers and (why := _idle(REGISTERS, task, machine, settings)):
        drop(REGISTERS.path, why, next(iter(registers.values())).where)
        settings = settings.changed(REGISTERS, MappingProxyType({}))
    instance = replace(instance, settings=settings)
    return _settle_tensors(instance, task, caller, launch, machine, drop), found


def _idle(key: Key[Any], task: TaskNode, machine: Machine, settings: Settings) -> str | None:
    """Why a key that is given changes nothing for a task; None where it does."""
    loops = [s for s in statements(task.body) if isinstance(s, Loop)]
    if "clusters" in key.needs and "clusters" not in machine.vendor:
        return f"{machine.name} has no clusters"
    if key.used_by is not None and machine.backend not in key.used_by:
        return f"code for {machine.name} does not depend on it in this version"
    if "asynchronous" in key.needs and not any(e.asynchronous for e in machine.engines):
        return f"{machine.name} has no asynchronous engine"
    if "asynchronous" in key.needs and task.leaf and not loops:
        return f"{task.variant} is a leaf without loops"
    if "parallel loop" in key.needs and not any(loop.parallel for loop in loops):
        return f"{task.variant} has no parallel loop"
    if "roles" in key.needs and not settings.get(WARPSPECIALIZE).value:
        return "there are no roles without `warpspecialize`"
    return None


def _settle_tensors(
    instance: Instance,
    task: TaskNode,
    caller: Instance | None,
    launch: Launch | None,
    machine: Machine,
    drop: object,
) -> Instance:
    """`copy` and `layouts` need a buffer of the task's own."""
    assert callable(drop)
    edges = _edges(instance, task, caller, launch, machine)
    buffers = {n for n, (a, b) in edges.items() if a != b}
    buffers |= {s.name for s in statements(task.body) if isinstance(s, Allocate)}
    settings = instance.settings
    for key in (COPY, LAYOUTS):
        table = dict(settings.table(key))
        for name, setting in list(table.items()):
            why = None
            if name not in buffers:
                why = f"{name} is not copied for {task.variant}"
            elif key is COPY and name in edges:
                source, target = edges[name]
                names = [e.name for e in machine.engines_for(source, target)]
                if setting.value not in names:
                    moves = f"{setting.value} does not move from {source} to {target}"
                    why = f"{moves}; {', '.join(names) or 'no engine'} does"
            if why:
                drop(f"{key.path}: {{{name}: {setting.value}}}", why, setting.where)
                del table[name]
        settings = settings.changed(key, MappingProxyType(table))
    mems = dict(instance.mems)
    for name, setting in mems.items():
        if setting.optional and not machine.memory(setting.value).cached:
            why = f"{setting.value} is no cache, so what is to be there is copied"
            drop(f"mems: {{{name}: [{NONE}, {setting.value}]}}", why, setting.where)
            mems[name] = replace(setting, optional=False)
    return replace(instance, mems=MappingProxyType(mems), settings=settings)


def _edges(
    instance: Instance,
    task: TaskNode,
    caller: Instance | None,
    launch: Launch | None,
    machine: Machine,
) -> dict[str, tuple[str, str]]:
    """Where each parameter comes from and where it is held."""
    edges: dict[str, tuple[str, str]] = {}
    for position, param in enumerate(task.params):
        outer = machine.main_memory.name
        if caller is not None and launch is not None:
            outer = caller.placed[launch.arguments[position].tensor]
        edges[param.name] = (outer, instance.placed[param.name])
    return edges


def distinct(decisions: Iterable[Decision], instances: Iterable[Instance]) -> tuple[Decision, ...]:
    """Each decision once; a line of a rule has an effect if it has one for some task."""
    used = {
        setting.where for i in instances for key in SINGLE
        if (setting := i.settings.get(key)).value != key.default
    }  # fmt: skip
    found: dict[tuple[str, Location | None, str], Decision] = {}
    for decision in decisions:
        if decision.kind == "no-effect" and decision.where is not None:
            if decision.where in used:
                continue
            key = decision.message.partition(":")[0]
            found.setdefault(("no-effect", decision.where, key), decision)
        else:
            found.setdefault((decision.about, decision.where, decision.message), decision)
    return tuple(found.values())


MANY = 32
"""Launches from one line of a task: more make a remark."""


def unrolled(tree: TaskTree) -> Iterator[Decision]:
    """Launches that a loop of Python repeats: each becomes code of its own."""
    for task in tree.root.walk():
        counts = Counter((s.task.name, s.location) for s in task.launches())
        for (name, where), count in counts.items():
            if count > MANY:
                yield Decision(
                    "missed", task.path,
                    f"{task.variant} launches {name} {count} times from one line, so that code is "
                    f"made and compiled {count} times",
                    f"write `for k in task.sequential_range({count}):` where the launches differ "
                    "by their tiles only", where,
                )  # fmt: skip


def unused_tunables(
    task: TaskNode, scope: Scope, mapping: LoadedMapping, entry: bool, tree: TaskTree
) -> Iterator[Decision]:
    """Tunables that an instance or an explicit mapping sets and nothing uses."""
    below = {name for node in task.walk() for name, _ in node.tunables}
    if scope.instance is not None:
        yield from _unused(scope.instance.tunables, below, task.variant, task.path)
    if entry and not mapping.rules:  # rules are for other operators, too
        everywhere = {name for node in tree.tasks() for name, _ in node.tunables}
        yield from _unused(mapping.tunables, everywhere, tree.name, "tunables")


def _unused(table: object, used: Iterable[str], owner: str, about: str) -> Iterator[Decision]:
    assert isinstance(table, MappingProxyType)
    names = sorted(used)
    for key in table:
        preference: Preference = table[key]
        if "*" in key or key in names:
            continue
        uses = f"{owner} uses {', '.join(names)}" if names else f"{owner} uses no tunables"
        hint = nearest(key, names) if names else None
        message = f"tunable `{key}` has no effect: {uses}"
        close = hint if hint and hint.startswith("did you mean") else None
        yield Decision("no-effect", about, message, close, preference.where)
