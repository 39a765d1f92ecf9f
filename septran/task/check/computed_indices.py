"""Tensors of integers by which a tree chooses rows or counts iterations, and when they are written.

A kernel reads an element when it reads what the element chooses. So a tensor of indices, and one
that is indexed, is the caller's, or is complete before: the tasks that write it are launched, in
no loop, before the first that reads it through an index, and none writes it later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from septran.ir import expressions as ex
from septran.ir.atoms import Element, table_name
from septran.ir.index import Range, Var
from septran.ir.views import View
from septran.location import Location
from septran.task.check.privileges import certainly_written, is_whole
from septran.task.errors import IndirectIndexError
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

Homes = Mapping[str, str]
"""The entry's tensors, or temporaries by their names in the tree, by a task's own names."""
Complete = Callable[[str], bool]
"""Whether all of a tensor, by its name in the tree, is written."""

_BEFORE = (
    "what the kernel writes can be an index, or be indexed, once it is complete: launch what "
    "computes it, in no loop, before what reads it, and write it no more; or compute it in a "
    "kernel of its own and pass it to this one"
)


@dataclass(frozen=True)
class IndexUse:
    """A tensor that is read through an index, or holds indices or counts."""

    tensor: str
    """By its name in the tree."""
    what: str
    where: Location
    places: int | None = None
    """How many places its elements are one of; None of what is indexed."""


def check_indices(root: TaskNode, ranges: Mapping[Var, Range]) -> dict[str, int]:
    """The entry's parameters that hold a caller's indices, and of how many places at most.

    Raises IndirectIndexError where what is read through an index, or as one, is not complete then.
    """
    homes = {p.name: p.name for p in root.params}
    given = frozenset(p.name for p in root.params if not p.writes)
    uses = list(_uses_below(root, homes))
    if any(use.tensor not in given for use in uses):
        _Spine(ranges).walk(root, homes, frozenset(homes), given.__contains__)
    tables: dict[str, int] = {}
    for use in uses:
        if use.places is not None:
            # One tensor may index several others: the shortest one decides.
            tables[use.tensor] = min(tables.get(use.tensor, use.places), use.places)
    return {name: places for name, places in tables.items() if name in given}


def index_tensors(root: TaskNode) -> frozenset[str]:
    """The tensors that choose rows or count iterations, by their names in the tree."""
    uses = _uses_below(root, {p.name: p.name for p in root.params})
    return frozenset(use.tensor for use in uses if use.places is not None)


@dataclass
class _Spine:
    """A walk, in program order, through the launches that no loop repeats."""

    ranges: Mapping[Var, Range]
    used: dict[str, IndexUse] = field(default_factory=dict)
    """The first use of each tensor so far."""

    def walk(
        self, task: TaskNode, around: Homes, passed: frozenset[str], complete: Complete
    ) -> None:
        """Walk a task's own statements; `complete` says what is complete where it is launched.

        `passed` are those of its parameters that stand for all of a tensor.
        """
        homes = _homes(task, around)
        all_of = passed | (homes.keys() - around.keys())
        for number, statement in enumerate(task.body):
            before = self._complete(task, number, homes, all_of, complete)
            written = set(_written((statement,), homes))
            if isinstance(statement, Launch) and not statement.task.leaf:
                # A view that is passed is read wherever the task reads its parameter.
                self._use(_own_uses(task, statement, homes), written, before)
                inner = _passed_whole(task, statement, all_of)
                self.walk(statement.task, _passed(statement, homes), inner, before)
                continue
            self._use(_uses(task, (statement,), homes), written, before)
            for name in sorted(written & self.used.keys()):
                raise _refused(self.used[name], f"is written later, in {task.name}")

    def _complete(
        self, task: TaskNode, number: int, homes: Homes, all_of: frozenset[str], around: Complete
    ) -> Complete:
        """What is complete before a statement: before the task, or by those before it."""

        def known(tensor: str) -> bool:
            names = [own for own in sorted(all_of) if homes[own] == tensor]
            body = task.body[:number]
            return around(tensor) or any(
                certainly_written(own, task, body, self.ranges) for own in names
            )

        return known

    def _use(self, uses: Iterator[IndexUse], written: set[str], complete: Complete) -> None:
        """Note what a statement uses; `written` is what it, or a task that it launches, writes."""
        for use in uses:
            if use.tensor in written:
                raise _refused(use, "is written there, too")
            if not complete(use.tensor):
                raise _refused(use, "is not certainly written as a whole before")
            self.used.setdefault(use.tensor, use)


def _refused(use: IndexUse, why: str) -> IndirectIndexError:
    return IndirectIndexError(f"{use.tensor} {use.what}, and {why}", use.where, hint=_BEFORE)


def _homes(task: TaskNode, around: Homes) -> Homes:
    """`around` with the task's own temporaries."""
    own = (s.name for s in statements(task.body) if isinstance(s, Allocate))
    return {**around, **{name: table_name(task.path, name) for name in own}}


def _passed(launch: Launch, homes: Homes) -> Homes:
    """What the launched task's parameters are; views of its parts stand for the whole."""
    pairs = zip(launch.task.params, launch.arguments, strict=True)
    return {p.name: homes[v.tensor] for p, v in pairs}


def _passed_whole(task: TaskNode, launch: Launch, all_of: frozenset[str]) -> frozenset[str]:
    """The launched task's parameters that stand for all of a tensor, and not for a part of it."""
    pairs = zip(launch.task.params, launch.arguments, strict=True)
    return frozenset(p.name for p, v in pairs if v.tensor in all_of and is_whole(v, task))


def _uses_below(task: TaskNode, around: Homes) -> Iterator[IndexUse]:
    return _uses(task, task.body, _homes(task, around))


def _uses(task: TaskNode, body: tuple[Statement, ...], homes: Homes) -> Iterator[IndexUse]:
    """Yield what statements of a task, and those of tasks they launch, use through indices."""
    for statement in statements(body):
        yield from _own_uses(task, statement, homes)
        if isinstance(statement, Launch):
            yield from _uses_below(statement.task, _passed(statement, homes))


def _own_uses(task: TaskNode, statement: Statement, homes: Homes) -> Iterator[IndexUse]:
    """Yield what one statement uses through indices, without those in it or in what it launches."""
    if isinstance(statement, Loop):
        for element in (e for extent in statement.extents for e in extent.elements()):
            yield _indexing(element, f"counts iterations in {task.name}", statement.location)
    for view, writes in _views(statement):
        for element in view.elements():
            yield _indexing(element, f"holds indices in {task.name}", statement.location)
        # Parts that are joined to chosen rows are what `reduce_into` alone writes so.
        if view.chosen() and not writes:
            what = f"is used through an index in {task.name}"
            yield IndexUse(homes[view.tensor], what, statement.location)


def _indexing(element: Element, what: str, where: Location) -> IndexUse:
    return IndexUse(element.tensor, what, where, element.extent)


def _views(statement: Statement) -> Iterator[tuple[View, bool]]:
    """Yield every view that a statement uses, and whether a task launched on it writes it."""
    match statement:
        case Primitive(operands=views):
            yield from ((view, False) for view in views)
        case Assign():
            yield from ((view, False) for view in (statement.target, *ex.loads(statement.value)))
        case Launch():
            pairs = zip(statement.arguments, statement.task.params, strict=True)
            yield from ((view, param.writes) for view, param in pairs)


def _written_below(task: TaskNode, around: Homes) -> Iterator[str]:
    """Yield what a task and those that it launches write, their own temporaries, too."""
    return _written(task.body, _homes(task, around))


def _written(body: tuple[Statement, ...], homes: Homes) -> Iterator[str]:
    for statement in statements(body):
        match statement:
            case Allocate(fill=None):
                pass
            case Allocate(name=name):
                yield homes[name]
            case Primitive(operands=(target, *_)) | Assign(target=target):
                yield homes[target.tensor]
            case Launch():
                yield from _written_below(statement.task, _passed(statement, homes))
