"""Splitting of a leaf into a composite of leaves that each use one unit.

All uses of a tensor in a leaf are in one memory. Where units take it from different ones, as a
matrix unit its two operands or its sums, no memory is right for the whole leaf; launched one by
one its statements have copies in between, as if the author had written a leaf for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from septran.ir import expressions as ex
from septran.ir.index import Range, Var
from septran.ir.views import View
from septran.mapping.rules import BUILTIN
from septran.task.check.privileges import with_privileges
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Param,
    Primitive,
    Statement,
    TaskNode,
)

ELEMENTWISE = "map"
"""The name of parts that have tensor expressions alone."""


def split(task: TaskNode, ranges: Mapping[Var, Range]) -> TaskNode | None:
    """Return the leaf as a composite; None where it is one use of a primitive on distinct tensors.

    `ranges` are those of all loop indices of the tree.
    """
    body = tuple(_Split(task, ranges).statements())
    parts = [s.task.body for s in body if isinstance(s, Launch)]
    return None if parts == [task.body] else replace(task, leaf=False, body=body)


def with_launches(task: TaskNode, changed: Mapping[str, TaskNode]) -> TaskNode:
    """Return `task` with launches of other tasks at the paths of `changed`."""
    return replace(task, body=tuple(_relaunched(s, changed) for s in task.body))


def _relaunched(statement: Statement, changed: Mapping[str, TaskNode]) -> Statement:
    match statement:
        case Launch():
            return replace(statement, task=changed.get(statement.task.path, statement.task))
        case Loop():
            return replace(statement, body=tuple(_relaunched(s, changed) for s in statement.body))
    return statement


@dataclass
class _Split:
    """The parts of one leaf, with the names that they have so far."""

    task: TaskNode
    ranges: Mapping[Var, Range]
    taken: dict[str, int] = field(default_factory=dict)

    def statements(self) -> Iterator[Statement]:
        """Yield a launch for each primitive, and for tensor expressions that follow one another."""
        for kind, group in groupby(self.task.body, type):
            if kind is Assign:
                yield self.part(ELEMENTWISE, tuple(group))
                continue
            for statement in group:
                yield self.alone(statement) if isinstance(statement, Primitive) else statement

    def alone(self, use: Primitive) -> Launch:
        """Return a part of one primitive, with a parameter for each operand that it reads."""
        # The parameters of a leaf are distinct tensors: an operand that occurs twice gets a second
        # name.
        again: dict[str, str] = {}
        operands = list(use.operands)
        for number, view in enumerate(use.operands):
            if number > 1 and view.tensor in {o.tensor for o in operands[1:number]}:
                own = _unused(view.tensor, self.tensors)
                again[own], operands[number] = view.tensor, replace(view, tensor=own)
        name = "copy" if use.name == "cast" else use.name
        return self.part(name, (replace(use, operands=tuple(operands)),), again)

    def part(
        self, kind: str, body: tuple[Statement, ...], again: Mapping[str, str] | None = None
    ) -> Launch:
        """Return the launch of a leaf of these statements; `again` are second names of tensors."""
        names = dict.fromkeys(view.tensor for s in body for view in _views(s))
        own = {name: self.tensors[(again or {}).get(name, name)] for name in names}
        params = tuple(replace(tensor, name=name) for name, tensor in own.items())
        name = kind if kind in BUILTIN else f"{self.task.name}_{kind}"
        count = self.taken[name] = self.taken.get(name, 0) + 1
        path = f"{self.task.path}/{name}" + (f"#{count}" if count > 1 else "")
        location = body[0].location
        node = TaskNode(
            name=name,
            variant=name,
            path=path,
            leaf=True,
            params=params,
            body=body,
            tunables=(),
            parallel=False,
            level=self.task.level + 1,
            location=location,
            builtin=kind in BUILTIN,
        )
        arguments = tuple(View.whole(t.name, t.shape, t.valid) for t in own.values())
        # What a part reads and writes is found anew: it is less than what the leaf does.
        return Launch(with_privileges(node, self.ranges), arguments, location)

    @property
    def tensors(self) -> dict[str, Param]:
        """The leaf's parameters, and its temporaries as parameters of the parts."""
        found = {p.name: p for p in self.task.params}
        for s in self.task.body:
            if isinstance(s, Allocate):
                found[s.name] = Param(
                    s.name, s.shape, s.valid, s.dtype, reads=False, writes=False,
                    location=s.location,
                )  # fmt: skip
        return found


def _views(statement: Statement) -> Iterator[View]:
    """Yield all views in a statement, including those used only for their position."""
    match statement:
        case Primitive():
            yield from statement.operands
        case Assign():
            yield statement.target
            for node in ex.walk(statement.value):
                if isinstance(node, ex.Load | ex.Position):
                    yield node.view


def _unused(name: str, taken: Mapping[str, object]) -> str:
    return next(n for k in range(2, len(taken) + 3) if (n := f"{name}_{k}") not in taken)
