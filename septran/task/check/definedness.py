"""Check for reads of undefined elements, in temporaries that are written only in part.

Most temporaries are known to be overwritten as a whole before they are read (`privileges`). For
the others the logic is run without its numbers, with a mark for each element: all iterations of
the loops that touch such a temporary, the first and the last one of those around them. Only reads
that certainly happen are refused; elements that `task.where` does not choose are not read. Where
more than `MOST` elements would have to be followed, the tree names the temporaries that were not
followed to the end, and a remark reports them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from septran.ir import expressions as ex
from septran.ir.bounds import loop_range
from septran.ir.gather import coordinates, read, write
from septran.ir.index import Range, Var
from septran.ir.primitives import PRIMITIVES
from septran.ir.views import View
from septran.location import Location
from septran.task.check.privileges import overwritten_first
from septran.task.errors import UnwrittenElementError
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Primitive,
    Statement,
    TaskNode,
    statements,
)

Array = np.ndarray[Any, Any]
MOST = 1 << 26
"""The number of elements that are followed, over all statements; a statement counts as 64 more."""
Suspects = frozenset[tuple[str, str]]
"""Temporaries, by the path of their task and their name."""


@dataclass(frozen=True, eq=False)
class UnwrittenElements:
    """The elements of one temporary that nobody has written yet."""

    name: str
    location: Location
    missing: Array

    @staticmethod
    def of(statement: Allocate) -> UnwrittenElements:
        """Return the marks of a new temporary: no element is written."""
        return UnwrittenElements(statement.name, statement.location, np.ones(statement.shape, bool))


@dataclass(frozen=True)
class FollowedView:
    """A tensor of a task, as a view of a temporary that is followed."""

    marks: UnwrittenElements
    view: View

    def part(self, view: View) -> FollowedView:
        """Return a view of this part."""
        return FollowedView(self.marks, self.view.compose(view))

    def missing(self, values: Mapping[Var, int]) -> Array | None:
        """Return the marks of the part's elements; None where all are written."""
        found = read(self.marks.missing, self.view, values)
        return found if found.any() else None

    def set(self, values: Mapping[Var, int], missing: Array | None = None) -> None:
        """Mark the part as written, except for elements that are `missing` in the value."""
        marks = np.zeros((), bool) if missing is None else missing
        write(self.marks.missing, self.view, values, marks)

    def refuse(self, values: Mapping[Var, int], missing: Array, where: Location) -> None:
        """Raise UnwrittenElementError for the first element that is missing."""
        places = np.broadcast_arrays(*coordinates(self.view, values), np.zeros(missing.shape))
        first = tuple(np.argwhere(missing)[0])
        element = ", ".join(str(int(place[first])) for place in places[:-1])
        raise UnwrittenElementError(
            f"{self.marks.name}[{element}] is read, and nobody has written it",
            where,
            hint="write all that is read, or begin with task.zeros or task.full",
            notes=[(f"{self.marks.name} begins here, undefined", self.marks.location)],
        )


def missing_of(
    expr: ex.Expr,
    marks: Callable[[View], Array | None],
    chosen: Callable[[ex.Expr], Array | None],
) -> Array | None:
    """Return the elements of a value that nobody has written; None where there are none.

    `marks` returns the unwritten elements of a view, `chosen` those where a condition holds: None
    where that is not known, and then an element is missing only if it is in both branches.
    """

    def of(node: ex.Expr) -> Array | None:
        return missing_of(node, marks, chosen)

    match expr:
        case ex.Load():
            return marks(expr.view)
        case ex.Unary() | ex.Cast():
            return of(expr.operand)
        case ex.Expand():
            inner = of(expr.operand)
            return None if inner is None else np.expand_dims(inner, expr.axes)
        case ex.Binary():
            return joined(of(expr.left), of(expr.right))
        case ex.Select():
            yes, no = of(expr.yes), of(expr.no)
            return joined(of(expr.condition), _selected(expr, yes, no, chosen))
        case ex.Reduce():
            # One missing element along the axis is enough to make the result missing.
            inner = of(expr.operand)
            return None if inner is None else _some(inner.max(axis=expr.axis))
    return None


def joined(one: Array | None, other: Array | None) -> Array | None:
    """Return the elements that are missing in either of two operands."""
    if one is None or other is None:
        return other if one is None else one
    # The maximum, as the marks of the interpreter of tile programs are numbers of reads.
    return np.maximum(one, other)


def _selected(
    expr: ex.Select,
    yes: Array | None,
    no: Array | None,
    chosen: Callable[[ex.Expr], Array | None],
) -> Array | None:
    if yes is None and no is None:
        return None
    condition = chosen(expr.condition)
    none = np.zeros((), (no if yes is None else yes).dtype)  # type: ignore[union-attr]
    a, b = none if yes is None else yes, none if no is None else no
    return _some(np.minimum(a, b) if condition is None else np.where(condition, a, b))


def _some(missing: Array) -> Array | None:
    return missing if missing.any() else None


def suspects(root: TaskNode, ranges: Mapping[Var, Range]) -> Suspects:
    """Return temporaries that begin undefined and may be read before they are overwritten."""
    return frozenset(
        (task.path, s.name)
        for task in root.walk()
        for s in statements(task.body)
        if isinstance(s, Allocate) and s.fill is None and not overwritten_first(s, task, ranges)
    )


def ranges_of(root: TaskNode) -> dict[Var, Range]:
    """Return the ranges of all loop indices of a tree."""
    found: dict[Var, Range] = {}
    for task in root.walk():
        for loop in statements(task.body):
            if isinstance(loop, Loop):
                for variable, extent in zip(loop.variables, loop.extents, strict=True):
                    found[variable] = loop_range(extent, found)
    return found


def check_defined(root: TaskNode, ranges: Mapping[Var, Range]) -> tuple[tuple[str, str], ...]:
    """Refuse reads of elements that nobody has written; raises UnwrittenElementError.

    Returns the temporaries for which that is not known, as there were too many elements to follow.
    """
    found = suspects(root, ranges)
    if found:
        run = _Run(found, frozenset(path for path, _ in found), MOST)
        try:
            run.body(root, root.body, {})
        except _TooMany:
            return tuple(sorted(found))
    return ()


class _TooMany(Exception):
    """There are more elements to follow than `MOST`."""


@dataclass
class _Run:
    suspects: Suspects
    paths: frozenset[str]
    left: int
    """The number of elements that may still be followed."""
    values: dict[Var, int] = field(default_factory=dict)

    def body(
        self, task: TaskNode, body: tuple[Statement, ...], env: dict[str, FollowedView]
    ) -> None:
        for statement in body:
            match statement:
                case Loop():
                    self.loop(task, statement, env)
                case Allocate() if (task.path, statement.name) in self.suspects:
                    self.spend(math.prod(statement.shape))  # before there are marks of it
                    whole = View.whole(statement.name, statement.shape, statement.valid)
                    env[statement.name] = FollowedView(UnwrittenElements.of(statement), whole)
                case Launch():
                    self.launch(statement, env)
                case Primitive():
                    self.primitive(statement, env)
                case Assign():
                    self.assign(statement, env)

    def spend(self, elements: int) -> None:
        # The 64 stand for a statement's own overhead, so that many small ones count, too.
        self.left -= 64 + elements
        if self.left < 0:
            raise _TooMany

    def loop(self, task: TaskNode, loop: Loop, env: dict[str, FollowedView]) -> None:
        follows = any(name in env for name in _named(loop.body))
        if not follows and not self.holds(task, loop.body):
            return
        # What a tensor says may be as many as there can be; the reference run knows how many.
        sizes = [range(e.at_most().evaluate(self.values)) for e in loop.extents]
        # A temporary that begins inside is a new one in each iteration, so the first and the last
        # iteration stand for the others.
        turns = itertools.product(*(size if follows else _ends(size) for size in sizes))
        for turn in turns:
            self.values.update(zip(loop.variables, turn, strict=True))
            self.spend(0)
            self.body(task, loop.body, env)

    def holds(self, task: TaskNode, body: tuple[Statement, ...]) -> bool:
        """Return whether a followed temporary begins in a body, or in a task that it launches."""
        return any(
            (isinstance(s, Allocate) and (task.path, s.name) in self.suspects)
            or (isinstance(s, Launch) and self.below(s.task))
            for s in statements(body)
        )

    def below(self, task: TaskNode) -> bool:
        start = f"{task.path}/"
        return any(path == task.path or path.startswith(start) for path in self.paths)

    def launch(self, launch: Launch, env: dict[str, FollowedView]) -> None:
        pairs = zip(launch.task.params, launch.arguments, strict=True)
        inner = {p.name: env[v.tensor].part(v) for p, v in pairs if v.tensor in env}
        if inner or self.below(launch.task):
            self.body(launch.task, launch.task.body, inner)

    def part(self, view: View, env: dict[str, FollowedView]) -> FollowedView | None:
        held = env.get(view.tensor)
        if held is None:
            return None
        found = held.part(view)
        self.spend(found.marks.missing.size)
        return found

    def primitive(self, statement: Primitive, env: dict[str, FollowedView]) -> None:
        target, *rest = (self.part(view, env) for view in statement.operands)
        if PRIMITIVES[statement.name].accumulates:
            rest.insert(0, target)
        for part in rest:
            missing = part.missing(self.values) if part else None
            if part and missing is not None:
                part.refuse(self.values, missing, statement.location)
        if target:
            target.set(self.values)

    def assign(self, statement: Assign, env: dict[str, FollowedView]) -> None:
        for view in _surely_read(statement.value):
            part = self.part(view, env)
            missing = part.missing(self.values) if part else None
            if part and missing is not None:
                part.refuse(self.values, missing, statement.location)
        target = self.part(statement.target, env)
        if target:
            target.set(self.values)


def _surely_read(expr: ex.Expr) -> Iterator[View]:
    """Yield the views that are read whatever conditions hold."""
    if isinstance(expr, ex.Load):
        yield expr.view
    children = (expr.condition,) if isinstance(expr, ex.Select) else ex.children(expr)
    for child in children:
        yield from _surely_read(child)


def _named(body: tuple[Statement, ...]) -> Iterator[str]:
    """Yield the tensors that the statements of a body touch."""
    for statement in statements(body):
        match statement:
            case Primitive(operands=views) | Launch(arguments=views):
                yield from (view.tensor for view in views)
            case Assign():
                yield statement.target.tensor
                yield from (view.tensor for view in ex.loads(statement.value))


def _ends(size: range) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*size[:1], *size[-1:])))
