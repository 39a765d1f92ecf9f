"""The data flow of a task and those below it, in program order, on the task's own tensors.

Views of launched tasks' parameters are written as views of the task's own tensors. A temporary of
a launched task is named by that task's path and its name, so that it is unique.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Union

from septran.ir import expressions as ex
from septran.ir.index import Index, Var, is_axis
from septran.ir.views import View
from septran.task.tree import Allocate, Assign, Launch, Loop, Primitive, Statement, TaskNode

Loops = tuple[tuple[Var, bool], ...]
"""The loops around a statement, outermost first, and whether each is parallel."""
_INSIDE = ":"
"""The separator of a launched task's path and its temporary's name; no name contains it."""


@dataclass(frozen=True)
class Multiply:
    """The product ``result += left @ right`` on tiles."""

    result: View
    left: View
    right: View
    loops: Loops


@dataclass(frozen=True)
class ComputedView:
    """A view that is written from others."""

    target: View
    sources: tuple[View, ...]
    loops: Loops
    aligned: tuple[View, ...] = ()
    """The sources whose elements become the target's element by element."""
    copies: bool = False
    """Whether it is the one source, perhaps in another type."""
    reduces: bool = False
    """Whether it reduces along an axis."""
    scans: bool = False
    """Whether each element is what a scan makes of those before it."""
    scatters: bool = False
    """Whether an element of a tensor of integers chooses where it is written, row by row."""
    turns: bool = False
    """Whether vectors of it lie across those of a source: see `_across`."""
    positions: bool = False
    """Whether it reads positions of elements, as a mask by index does."""


Event = Union[Multiply, ComputedView]


@dataclass(frozen=True)
class Flow:
    """The events of a task in program order."""

    events: tuple[Event, ...]
    allocated: Mapping[str, Loops]
    """The loops in which each temporary lives."""
    dtypes: Mapping[str, str]
    """The element type of each tensor."""


@dataclass
class _Walk:
    events: list[Event] = field(default_factory=list)
    allocated: dict[str, Loops] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    scanned: set[str] = field(default_factory=set)
    """The temporaries that scans by functions of the logic join elements in."""

    def body(
        self, body: tuple[Statement, ...], names: Mapping[str, View], inside: str, loops: Loops
    ) -> None:
        def own(view: View) -> View:
            held = names.get(view.tensor)
            return held.compose(view) if held else replace(view, tensor=inside + view.tensor)

        for statement in body:
            match statement:
                case Allocate():
                    self._begin(inside + statement.name, statement, loops)
                case Loop():
                    around = tuple((v, statement.parallel) for v in statement.variables)
                    self.body(statement.body, names, inside, (*loops, *around))
                case Launch(task, arguments):
                    pairs = zip(task.params, arguments, strict=True)
                    passed = {param.name: own(view) for param, view in pairs}
                    self.body(task.body, passed, task.path + _INSIDE, loops)
                case Primitive("gemm", (result, left, right)):
                    self.events.append(Multiply(own(result), own(left), own(right), loops))
                case Primitive("copy" | "cast", (target, source)):
                    goal, given = own(target), own(source)
                    turns = _across(goal, given)
                    view = ComputedView(goal, (given,), loops, (given,), copies=True, turns=turns)
                    self.events.append(view)
                case Primitive("scan", (target, source)):
                    # Nothing is aligned: an element of a scan is made from all those before it.
                    view = ComputedView(own(target), (own(source),), loops, scans=True)
                    self.events.append(view)
                case Primitive("sort" | "argsort", (target, source)):
                    # An element is any one of its row.
                    self.events.append(ComputedView(own(target), (own(source),), loops))
                case Primitive("solve_triangular", (target, factor, source)):
                    # Nor here: each row is made from all those before it.
                    view = ComputedView(own(target), (own(factor), own(source)), loops)
                    self.events.append(view)
                case Assign(target, value):
                    sources = tuple(map(own, ex.loads(value)))
                    aligned = tuple(map(own, _aligned(value, target.rank)))
                    view = _computation(own(target), sources, aligned, value, loops)
                    self.events.append(self._scan_of(view, inside + target.tensor))

    def _scan_of(self, view: ComputedView, name: str) -> ComputedView:
        """The same as a part of a scan where it is written to what a scan joins elements in."""
        scan = ComputedView(view.target, view.sources, view.loops, scans=True)
        return scan if name in self.scanned else view

    def _begin(self, name: str, allocated: Allocate, loops: Loops) -> None:
        self.allocated[name] = loops
        self.dtypes[name] = allocated.dtype
        if allocated.scans:
            self.scanned.add(name)


def flow_of(task: TaskNode) -> Flow:
    """Return the data flow of a task, with the tasks below it."""
    walk = _Walk(dtypes={p.name: p.dtype for p in task.params})
    plain = {p.name: View.whole(p.name, p.shape, p.valid) for p in task.params}
    walk.body(task.body, plain, "", ())
    return Flow(tuple(walk.events), walk.allocated, walk.dtypes)


def is_own(tensor: str) -> bool:
    """Return whether a name is of the task's own tensor, not of one below it."""
    return _INSIDE not in tensor


def loop_variables(view: View) -> frozenset[Var]:
    """Return the loop indices that select the part of a tensor that a view is."""
    found = frozenset(v for entry in view.index for v in entry.variables())
    return frozenset(v for v in found if not is_axis(v))


def _computation(
    target: View, sources: tuple[View, ...], aligned: tuple[View, ...], value: ex.Expr, loops: Loops
) -> ComputedView:
    nodes = tuple(ex.walk(value))
    return ComputedView(
        target, sources, loops, aligned,
        copies=len(sources) == 1 and all(isinstance(n, ex.Load | ex.Cast) for n in nodes),
        reduces=any(isinstance(n, ex.Reduce) for n in nodes),
        scatters=target.scattered(),
        turns=any(_across(target, view) for view in aligned),
        positions=any(isinstance(n, ex.Position) for n in nodes),
    )  # fmt: skip


def _across(target: View, source: View) -> bool:
    """Whether neighbours along the target's last axis are no neighbours in the source."""
    written, read = (view.index[-1] if view.index else Index() for view in (target, source))
    own = {v for v in written.variables() if is_axis(v)}
    return bool(own) and own.isdisjoint(read.variables()) and any(map(is_axis, read.variables()))


def _aligned(value: ex.Expr, rank: int) -> Iterator[View]:
    """Yield the views of which an element makes the same element of the value."""
    match value:
        case ex.Load(view):
            # Of another rank it is broadcast, and one element of it goes into many.
            if view.rank == rank:
                yield view
        # Axes end or begin here, so that no element keeps its place.
        case ex.Reduce() | ex.Expand():
            return
        case _:
            for child in ex.children(value):
                yield from _aligned(child, rank)
