"""Names in an instance that its task must have: tensors, launched tasks, tunables."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from septran.errors import SepTranError, nearest
from septran.mapping.choose import Scope, tunable
from septran.mapping.keys import CALLS, GROUPS, KEYS, LEAF_TASK_BINDINGS, MEMS
from septran.mapping.mapping import MappingFile, TaskMapping
from septran.mapping.mistakes import NeverLaunchedError, TunableSettingError, UnknownTensorError
from septran.mapping.rules import BUILTIN, Facts
from septran.mapping.structure.structure import PARTS
from septran.task.tree import Allocate, Param, TaskNode, statements

_CLOSE = 0.8
"""The likeness from which an unused name counts as a misspelling of one in use."""


def tensors_of(task: TaskNode) -> dict[str, Param | Allocate]:
    """Return parameters and temporaries by name."""
    found: dict[str, Param | Allocate] = {p.name: p for p in task.params}
    for statement in statements(task.body):
        if isinstance(statement, Allocate):
            found[statement.name] = statement
    return found


def mistakes_in(
    plan: TaskMapping, task: TaskNode, tensors: Mapping[str, Any]
) -> Iterator[SepTranError]:
    """Yield tensors and launched tasks that an instance names and its task does not have."""
    for key in KEYS:
        if key.entries != "tensor":
            continue
        groups = GROUPS if key is MEMS else PARTS
        for name in plan.table(key):
            if name not in tensors and name not in groups:
                yield UnknownTensorError(
                    f"task {task.variant} has no tensor {name!r}",
                    plan.keys.get(f"{key.path}.{name}"),
                    hint=nearest(name, (*tensors, *groups)),
                )
    launched: set[str] = set()
    for launch in task.launches():
        callee = launch.task
        launched |= {callee.name, callee.variant, callee.path.rpartition("/")[2]}
    for key in (CALLS, LEAF_TASK_BINDINGS):
        for name in (*plan.table(key), *plan.lists(key)):
            if name not in launched and name not in BUILTIN:
                yield NeverLaunchedError(
                    f"{task.variant} never launches {name!r}",
                    plan.keys.get(f"{key.path}.{name}"),
                    hint=nearest(name, launched - set(BUILTIN)),
                )


def misspelt(
    task: TaskNode, scope: Scope, mapping: MappingFile, facts: Facts
) -> Iterator[SepTranError]:
    """Yield tunables without a value, if the instance has one under a name much like theirs."""
    if scope.instance is None:
        return
    used = {name for node in task.walk() for name, _ in node.tunables}
    idle = {n: p for n, p in scope.instance.tunables.items() if n not in used and "*" not in n}
    for name, _ in task.tunables:
        if tunable(mapping, scope, facts, name) is not None:
            continue
        for other, preference in idle.items():
            if _alike(name, other):
                yield TunableSettingError(
                    f"{task.variant} has no tunable {other!r}",
                    preference.where,
                    hint=f"did you mean {name!r}?",
                )


def _alike(a: str, b: str) -> bool:
    ends = (a.rpartition("_")[2], b.rpartition("_")[2])
    if ends[0] != ends[1] and len(ends[0]) == len(ends[1]) == 1:
        return False  # block_M and block_N are two names, not a slip
    return difflib.SequenceMatcher(None, a, b).ratio() >= _CLOSE
