"""Keys that change nothing for this logic and machine are said to, never silently ignored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType

from septran.errors import nearest
from septran.location import Location
from septran.machine.model import NONE, Machine
from septran.mapping.choose import Scope
from septran.mapping.mapping import Mapping, Preference
from septran.mapping.resolved import Decision, Instance, Setting
from septran.task.tree import Allocate, Launch, Loop, TaskNode, TaskTree, statements

USED_BY_TARGET: dict[str, tuple[str, ...]] = {
    "cpu": (),
    "dsa": ("persistent",),
    "cuda": ("persistent", "raster", "cluster", "overlap", "turns"),
    "rocm": (),
}
"""Which keys of a schedule a target makes use of."""
OF_PARALLEL_LOOPS = ("order", "persistent", "raster", "cluster")
"""Keys of a schedule that say how parallel iterations go over processors."""


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

    asynchronous = any(e.asynchronous for e in machine.engines)
    for key, plain in (("pipeline", 1), ("warpspecialize", False)):
        setting: Setting[object] = getattr(instance, key)
        why = _idle(task, machine, asynchronous)
        if setting.value != plain and why:
            drop(key, why, setting.where)
            kept = Setting(plain, f"{setting.reason}, without effect", setting.where)
            instance = replace(instance, **{key: kept})  # type: ignore[arg-type]
    if not instance.warpspecialize.value and (
        instance.consumers.where is not None or instance.registers
    ):
        drop("roles", "there are no roles without `warpspecialize`", instance.consumers.where)
        instance = replace(
            instance, consumers=Setting(1, "default"), registers=MappingProxyType({})
        )
    used = tuple(k for k in USED_BY_TARGET.get(machine.backend, ()) if _able(k, machine))
    spreads = any(isinstance(s, Loop) and s.parallel for s in statements(task.body))
    for key, scheduled in instance.schedule.items():
        if key not in used:
            drop(key, _unscheduled(key, machine), scheduled.where)
        elif key in OF_PARALLEL_LOOPS and not spreads:
            drop(key, f"{task.variant} has no parallel loop", scheduled.where)
    used = used if spreads else tuple(k for k in used if k not in OF_PARALLEL_LOOPS)
    instance = replace(
        instance,
        schedule=MappingProxyType({k: s for k, s in instance.schedule.items() if k in used}),
    )
    return _settle_tensors(instance, task, caller, launch, machine, drop), found


def _idle(task: TaskNode, machine: Machine, asynchronous: bool) -> str | None:
    if not asynchronous:
        return f"{machine.name} has no asynchronous engine"
    if not any(isinstance(s, Loop) for s in statements(task.body)) and task.leaf:
        return f"{task.variant} is a leaf without loops"
    return None


def _able(key: str, machine: Machine) -> bool:
    return key != "cluster" or "clusters" in machine.vendor


def _unscheduled(key: str, machine: Machine) -> str:
    if not _able(key, machine):
        return f"{machine.name} has no clusters"
    return f"code for {machine.name} does not depend on it in this version"


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
    for key in ("copy", "layouts"):
        table = dict(getattr(instance, key))
        for name, setting in list(table.items()):
            why = None
            if name not in buffers:
                why = f"{name} is not copied for {task.variant}"
            elif key == "copy" and name in edges:
                source, target = edges[name]
                names = [e.name for e in machine.engines_for(source, target)]
                if setting.value not in names:
                    moves = f"{setting.value} does not move from {source} to {target}"
                    why = f"{moves}; {', '.join(names) or 'no engine'} does"
            if why:
                drop(f"{key}: {{{name}: {setting.value}}}", why, setting.where)
                del table[name]
        instance = replace(instance, **{key: MappingProxyType(table)})  # type: ignore[arg-type]
    mems = dict(instance.mems)
    for name, setting in mems.items():
        if setting.optional and not machine.memory(setting.value).cached:
            why = f"{setting.value} is no cache, so what is to be there is copied"
            drop(f"mems: {{{name}: [{NONE}, {setting.value}]}}", why, setting.where)
            mems[name] = replace(setting, optional=False)
    return replace(instance, mems=MappingProxyType(mems))


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
        setting.where
        for i in instances
        for setting, plain in ((i.pipeline, 1), (i.warpspecialize, False))
        if setting.value != plain
    } | {setting.where for i in instances for setting in i.schedule.values()}
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
    task: TaskNode, scope: Scope, mapping: Mapping, entry: bool, tree: TaskTree
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
