"""Remarks on keys that change nothing for this logic and machine: none is ignored silently."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from septran.backends import backend_of
from septran.errors import nearest
from septran.ir.bounds import Ranges, greatest, loop_range
from septran.location import Location
from septran.machine.model import NONE, FormerKey, Machine
from septran.mapping.choose import Scope, pick
from septran.mapping.keys import (
    BINDING,
    COPY,
    KEYS,
    LAYOUTS,
    REGISTERS,
    SINGLE,
    WARPSPECIALIZE,
    Key,
)
from septran.mapping.mapping import MappingFile, Preference, TaskMapping
from septran.mapping.memories import outer_memories
from septran.mapping.resolved import Decision, Instance, Setting, Settings
from septran.mapping.rules import Facts
from septran.task.check.definedness import MOST
from septran.task.tree import (
    Allocate,
    Launch,
    Loop,
    Statement,
    TaskNode,
    TaskTree,
    TunableValue,
    statements,
)


def settle(
    instance: Instance,
    task: TaskNode,
    caller: Instance | None,
    launch: Launch | None,
    machine: Machine,
) -> tuple[Instance, list[Decision]]:
    """Return the instance without keys that have no effect, and a decision for each of those."""
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
    """Return why a key that is given changes nothing for a task; None where it does."""
    # The first reason counts, and what the machine lacks comes before what this task lacks.
    loops = [s for s in statements(task.body) if isinstance(s, Loop)]
    if "clusters" in key.needs and "clusters" not in machine.vendor:
        return f"{machine.name} has no clusters"
    if not key.common and key.path not in backend_of(machine.backend).keys:
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
    """Drop `copy` and `layouts` of tensors that have no buffer of the task's own."""
    assert callable(drop)
    outer = outer_memories(task, caller, launch, machine)
    # In the memory where its caller has it, a tensor is used in place: neither copied nor laid out.
    buffers = {n for n, place in instance.mems.items() if place.memory != outer.get(n)}
    settings = instance.settings
    for key in (COPY, LAYOUTS):
        table = dict(settings.table(key))
        for name, setting in list(table.items()):
            why = None
            if name not in buffers:
                why = f"{name} is not copied for {task.variant}"
            # Temporaries are not in `outer`: no engine brings them.
            elif key is COPY and name in outer:
                source, target = outer[name], instance.mems[name].memory
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


def renamed(mapping: MappingFile) -> Iterator[Decision]:
    """Yield keys that the mapping or the machine file calls by a former name, once each."""
    for former in mapping.machine.former_keys:
        yield Decision("decision", "machine", former.message, former.hint, former.where)
    document = mapping.document
    if document is None:
        return
    plans = [node for head in ("rules", "instances") if (node := document.get(head)) is not None]
    nodes = [n for plan in plans for n in (*plan.elements, *plan.items.values())]
    for key in (k for k in KEYS if k.formerly):
        where = [node.keys[key.formerly] for node in nodes if key.formerly in node.items]
        if where:
            former = FormerKey(key.formerly, key.path, where[0])
            yield Decision("decision", "mapping", former.message, former.hint, former.where)


def smaller(mapping: MappingFile) -> Iterator[Decision]:
    """Tunables that are smaller than the mapping says, as a memory would not hold all of it."""
    for fit in mapping.fits:
        message = (
            f"{fit.name} of {fit.task} is made smaller, {fit.value} for {fit.before}: {fit.why}"
        )
        yield Decision(
            "decision", fit.task, message, f"to say so in `rules`: {fit.line}", fit.where
        )


def idle_bindings(task: TaskNode, scope: Scope, uses: Collection[str]) -> Iterator[Decision]:
    """Yield bindings for primitives that a task does not use, or that an engine carries out."""
    for plan in scope.plans:
        for primitive, wanted in plan.lists(BINDING).items():
            if primitive == "*" and not uses:
                said, why = wanted[0].value, f"{task.variant} computes nothing itself"
            elif primitive not in {"*", *uses}:
                said = f"{{{primitive}: {wanted[0].value}}}"
                why = f"{task.variant} leaves no {primitive} to an instruction"
            else:
                continue
            message = f"`binding: {said}` has no effect: {why}"
            yield Decision("no-effect", task.path, message, None, wanted[0].where)


def distinct(
    decisions: Iterable[Decision],
    instances: Iterable[Instance],
    bound: Iterable[Location | None] = (),
) -> tuple[Decision, ...]:
    """Return each decision once; a line of a rule has an effect if it has one for some task.

    `bound` are the places of bindings that primitives were bound by.
    """
    used = {
        setting.where for i in instances for key in SINGLE
        if (setting := i.settings.get(key)).value != key.default
    }.union(bound)  # fmt: skip
    found: dict[tuple[str, Location | None, str], Decision] = {}
    for decision in decisions:
        if decision.kind == "no-effect" and decision.where is not None:
            if decision.where in used:
                continue
            # The text before the colon is the same for all tasks and tensors that one line is for.
            key = decision.message.partition(":")[0]
            found.setdefault(("no-effect", decision.where, key), decision)
        else:
            found.setdefault((decision.about, decision.where, decision.message), decision)
    return tuple(found.values())


MANY = 32
"""The number of launches from one line of a task from which on there is a remark."""


def unrolled(tree: TaskTree) -> Iterator[Decision]:
    """Yield launches that a Python loop repeats: each becomes code of its own."""
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


def never_run(tree: TaskTree) -> Iterator[Decision]:
    """Yield loops and bodies under conditions that run for no values, though there are elements."""
    if any(0 in param.shape for param in tree.root.params):
        return
    found: dict[Location, tuple[TaskNode, bool]] = {}
    for task, loop, runs in _loops(tree.root, tree.root.body, {}):
        # A task is launched by several, of which each may have it skip something.
        found[loop.location] = task, runs or found.get(loop.location, (task, False))[1]
    for where, (task, runs) in found.items():
        if not runs:
            yield Decision(
                "no-effect", task.path,
                f"what {task.variant} has under this line never runs for these sizes and flags",
                "an extent is how often a loop turns, without a start or a step; a condition is "
                "true above 0", where,
            )  # fmt: skip


def _loops(
    task: TaskNode, body: tuple[Statement, ...], ranges: Ranges
) -> Iterator[tuple[TaskNode, Loop, bool]]:
    """Yield the loops that are come to with their tasks, and whether they can turn."""
    for statement in body:
        if isinstance(statement, Launch):
            yield from _loops(statement.task, statement.task.body, ranges)
        elif isinstance(statement, Loop):
            runs = all(greatest(extent, ranges) > 0 for extent in statement.extents)
            yield task, statement, runs
            if runs:
                pairs = zip(statement.variables, statement.extents, strict=True)
                own = {variable: loop_range(extent, ranges) for variable, extent in pairs}
                yield from _loops(task, statement.body, {**ranges, **own})


def unfollowed(tree: TaskTree) -> Iterator[Decision]:
    """Yield temporaries written in part for which undefined reads were not ruled out."""
    for path, name in tree.unfollowed:
        places = (
            s.location for s in statements(tree.task(path).body)
            if isinstance(s, Allocate) and s.name == name
        )  # fmt: skip
        yield Decision(
            "unchecked", path,
            f"{name} is written in parts, and whether all that is read of it is written was not "
            f"followed to the end, as that takes more than {MOST:,} elements",
            "try smaller sizes, or begin with task.zeros", next(places, None),
        )  # fmt: skip


def unused_tunables(
    task: TaskNode, scope: Scope, mapping: MappingFile, entry: bool, tree: TaskTree
) -> Iterator[Decision]:
    """Yield tunables that an instance or an explicit mapping sets and nothing uses."""
    below = {name for node in task.walk() for name, _ in node.tunables}
    if scope.instance is not None:
        yield from _unused(scope.instance.tunables, below, task.variant, task.path)
    everywhere = {name for node in tree.tasks() for name, _ in node.tunables}
    if entry and not mapping.rules:  # rules are for other operators, too
        yield from _unused(mapping.tunables, everywhere, tree.name, "tunables")
    elif entry and mapping.extends:  # but what is laid over them is for this one
        own = {k: p for k, p in mapping.tunables.items() if p.where.file == mapping.file}
        yield from _unused(own, everywhere, tree.name, "tunables")


def unasked(tree: TaskTree, tunables: Iterable[str]) -> Iterator[Decision]:
    """Yield tunables of the caller that no task reads."""
    asked = {name for task in tree.tasks() for name, _ in task.tunables}
    for name in (n for n in tunables if n not in asked):
        message = f"tunable {name} has no effect: no task of {tree.name} asks for it"
        yield Decision("no-effect", name, message, nearest(name, asked))


@dataclass(frozen=True)
class Asked:
    """A tunable that a task reads, and the value that it takes."""

    facts: Facts
    scope: Scope
    name: str
    taken: Setting[TunableValue]

    @property
    def file(self) -> str:
        """The file of the line that gives it; empty where the call does."""
        return self.taken.where.file if self.taken.where else ""


def overridden_tunables(mapping: MappingFile, asked: Iterable[Asked]) -> Iterator[Decision]:
    """Yield tunables of a file that extends another one which never win.

    The extended file is for other logic, too: only the file's own lines are reported. Its own
    rules go before those that it extends, but rules of a launched task before those of its
    callers, and any rule before the table of the file.
    """
    if not mapping.extends:
        return
    found = tuple(asked)
    for rule in mapping.rules:
        if rule.plan.where.file == mapping.file:
            below = [a for a in found if _reaches(rule.plan, a.scope)]
            for lost, ask in _lost(rule.plan.tunables, below):
                if ask.file != mapping.file:  # of its own rules the first is meant to win
                    yield _overridden(lost, ask, rule.plan.name, mapping.file)
    own = {k: p for k, p in mapping.tunables.items() if p.where.file == mapping.file}
    for lost, ask in _lost(own, found):
        yield _overridden(lost, ask, "tunables", mapping.file)


def _reaches(plan: TaskMapping, scope: Scope | None) -> bool:
    """Return whether a plan is for a task, or for one of its callers."""
    while scope is not None:
        if any(p is plan for p in scope.plans):
            return True
        scope = scope.caller
    return False


@dataclass(frozen=True)
class _Loser:
    key: str
    value: TunableValue
    where: Location


def _lost(
    table: Mapping[str, Preference], asked: Iterable[Asked]
) -> Iterator[tuple[_Loser, Asked]]:
    """Yield entries that no task takes though one of their cases holds, with the task concerned."""
    for key, preference in table.items():
        asks = [a for a in asked if fnmatch.fnmatchcase(a.name, key)]
        cases = {case.where for case in preference.cases}
        if any(a.taken.where in cases for a in asks):
            continue
        for ask in asks:
            would = pick(preference, ask.facts, ask.name)
            if would is not None and ask.taken.where is not None:  # not given with the call
                yield _Loser(key, would.value, preference.where), ask
                break


def _overridden(lost: _Loser, ask: Asked, about: str, file: str) -> Decision:
    name, task = ask.name, ask.facts
    assert ask.taken.where is not None
    place = f"{ask.file.rpartition('/')[2]}:{ask.taken.where.line}"
    message = (
        f"tunable `{lost.key}` has no effect: {task.variant} takes {name} = {ask.taken.value} "
        f"from {place} ({ask.taken.reason})"
    )
    rule = f"- {{match: {{task: {task.task}}}, tunables: {{{name}: {lost.value}}}}}"
    hint = f"a rule of this file goes before it: {rule}" if ask.file != file else None
    return Decision("no-effect", about, message, hint, lost.where)


def _unused(
    table: Mapping[str, Preference], used: Iterable[str], owner: str, about: str
) -> Iterator[Decision]:
    names = sorted(used)
    for key, preference in table.items():
        if "*" in key or key in names:
            continue
        uses = f"{owner} uses {', '.join(names)}" if names else f"{owner} uses no tunables"
        hint = nearest(key, names) if names else None
        message = f"tunable `{key}` has no effect: {uses}"
        # Otherwise the hint lists all names, as the message does already.
        close = hint if hint and hint.startswith("did you mean") else None
        yield Decision("no-effect", about, message, close, preference.where)
