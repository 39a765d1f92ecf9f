"""The privileges of each parameter of a task, read, write or both, found bottom-up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from septran.ir import expressions as ex
from septran.ir.bounds import greatest, least
from septran.ir.gather import write
from septran.ir.index import Index, Range, Var, axis, is_axis, minimum
from septran.ir.primitives import PRIMITIVES, joined_by
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import NothingWrittenError, ReadOnlyError
from septran.task.frontend.definition import TensorType
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Param,
    Primitive,
    Statement,
    TaskNode,
    statements,
)


@dataclass(frozen=True)
class ViewUse:
    """One use of a view by a statement."""

    view: View
    reads: bool
    """Whether the statement depends on the elements' content before it."""
    writes: bool
    accumulates: bool = False
    joins: str = ""
    """The function that joins what is there and a part, for which iterations need no order."""


def accesses(statement: Statement) -> Iterator[ViewUse]:
    """Yield the uses of views by one statement, reads before writes; none for loops."""
    match statement:
        case Primitive():
            contract = PRIMITIVES[statement.name]
            for view in statement.operands[1:]:
                yield ViewUse(view, reads=True, writes=False)
            adds, joins = contract.accumulates, joined_by(statement.name, statement.attributes)
            yield ViewUse(
                statement.operands[0], reads=adds, writes=True, accumulates=adds and not joins,
                joins=joins,
            )  # fmt: skip
        case Assign():
            for view in ex.loads(statement.value):
                yield ViewUse(view, reads=True, writes=False)
            yield ViewUse(statement.target, reads=False, writes=True)
        case Launch():
            pairs = list(zip(statement.task.params, statement.arguments, strict=True))
            for param, view in pairs:
                if param.reads and not param.writes:
                    yield ViewUse(view, reads=True, writes=False)
            for param, view in pairs:
                if param.writes:
                    yield ViewUse(
                        view, reads=param.reads, writes=True, accumulates=param.accumulates,
                        joins=param.joins,
                    )  # fmt: skip


def with_privileges(task: TaskNode, ranges: Mapping[Var, Range]) -> TaskNode:
    """Return `task` with what its body does with each of its parameters filled in.

    `ranges` are those of all loop indices, with which views were simplified.
    """
    return replace(task, params=tuple(_found(p, task, ranges) for p in task.params))


WRITES = (
    "a leaf writes by Y[:] = ... (Y = ... only names another value) or by a primitive,"
    " a composite by launching tasks that do"
)
"""The hint of errors about a task that writes nothing."""


def check_declared(task: TaskNode, declared: Mapping[str, TensorType], launch: Location) -> None:
    """Compare privileges with those that the author declared; raises ReadOnlyError.

    A leaf that writes nothing has no effect; this raises NothingWrittenError with the launch.
    """
    if task.leaf and not any(param.writes for param in task.params):
        launched = () if launch == task.location else (("launched here", launch),)
        message = f"leaf task {task.name} writes none of its tensors, so it has no result"
        raise NothingWrittenError(message, task.location, hint=WRITES, notes=launched)
    for param in task.params:
        wanted = declared.get(param.name, TensorType()).privilege
        if wanted == "In" and param.writes:
            raise ReadOnlyError(
                f"{param.name} of {task.name} is In, but is written",
                task.location,
                hint="write into a tensor of its own (task.empty), or take In from its annotation",
            )
        if wanted == "Out" and param.reads:
            raise ReadOnlyError(
                f"{param.name} of {task.name} is Out, but is read before it is all overwritten",
                task.location,
                hint="declare it InOut, or fill it first",
            )


def _found(param: Param, task: TaskNode, ranges: Mapping[Var, Range]) -> Param:
    own = [a for s in statements(task.body) for a in accesses(s) if a.view.tensor == param.name]
    whole = View.whole(param.name, param.shape, param.valid)
    reads, written = _scan(task.body, param.name, [], _Whole(whole, ranges))
    writes = any(a.writes for a in own)
    return replace(
        param,
        # A parameter that keeps some of its old content counts as read: the caller's must be
        # there.
        reads=reads or not writes or not _covered(written, whole),
        writes=writes,
        accumulates=any(a.accumulates for a in own),
        joins=own[0].joins if writes and len({a.joins for a in own}) == 1 else "",
    )


def overwritten_first(temporary: Allocate, task: TaskNode, ranges: Mapping[Var, Range]) -> bool:
    """Return whether every element of a temporary is certainly written before it is read."""
    whole = View.whole(temporary.name, temporary.shape, temporary.valid)
    return not _scan(task.body, temporary.name, [], _Whole(whole, ranges))[0]


def certainly_written(
    name: str, task: TaskNode, body: tuple[Statement, ...], ranges: Mapping[Var, Range]
) -> bool:
    """Return whether a body of `task` writes every element of a parameter or temporary of it.

    What it reads of it before counts as not written.
    """
    held = _held(name, task)
    if isinstance(held, Allocate) and held in body and held.fill is not None:
        return True
    whole = View.whole(name, held.shape, held.valid)
    reads, written = _scan(body, name, [], _Whole(whole, ranges))
    return not reads and _covered(written, whole)


def is_whole(view: View, task: TaskNode) -> bool:
    """Return whether a view, with its axes in any order, is all of a tensor of `task`."""
    held = _held(view.tensor, task)
    return _is_all(view, View.whole(view.tensor, held.shape, held.valid))


def _held(name: str, task: TaskNode) -> Param | Allocate:
    """Return the parameter or temporary of that name."""
    own = (s for s in statements(task.body) if isinstance(s, Allocate))
    tensors: list[Param | Allocate] = [*task.params, *own]
    return {x.name: x for x in tensors}[name]


@dataclass(frozen=True)
class _Whole:
    """The whole of a parameter as a view, with the ranges of loop indices."""

    view: View
    ranges: Mapping[Var, Range]


def _scan(
    body: tuple[Statement, ...], name: str, written: list[View], whole: _Whole,
    around: tuple[Loop, ...] = (),
) -> tuple[bool, list[View]]:  # fmt: skip
    """Return whether old content is read, and the views certainly overwritten by the end."""
    written = list(written)
    for statement in body:
        if isinstance(statement, Loop):
            if any(greatest(extent, whole.ranges) <= 0 for extent in statement.extents):
                continue
            if _scan(statement.body, name, written, whole, (*around, statement))[0]:
                return True, written
            written += _overwritten((statement,), name, whole)
            continue
        for access in _of(name, statement):
            known = not access.reads or _within(access.view, written, whole)
            if not known and not _earlier(access.view, whole, around):
                return True, written
            if access.writes:
                written.append(access.view)
    return False, written


def _overwritten(body: tuple[Statement, ...], name: str, whole: _Whole) -> list[View]:
    """Return the views of a tensor that a body certainly writes."""
    found: list[View] = []
    for statement in body:
        if isinstance(statement, Loop):
            # After a loop only what all its iterations cover together counts as overwritten.
            inside = dict.fromkeys(_overwritten(statement.body, name, whole))
            found += [u for v in inside if (u := _union(v, statement, whole)) is not None]
        else:
            found += [access.view for access in _of(name, statement) if access.writes]
    return found


def _of(name: str, statement: Statement) -> list[ViewUse]:
    """Return the uses of one tensor by a statement that is no loop."""
    if isinstance(statement, Allocate):
        return []
    return [access for access in accesses(statement) if access.view.tensor == name]


def _earlier(view: View, whole: _Whole, around: tuple[Loop, ...]) -> bool:
    """Return whether an iteration before this one, of a loop around, has written all of `view`.

    So it is with the blocks of a solution by which later ones are found.
    """
    extents = {v: e for loop in around for v, e in zip(loop.variables, loop.extents, strict=True)}
    ranges = dict(whole.ranges)
    for extent in extents.values():
        match extent.terms:
            case ((Var() as variable, 1),):  # the loop turns, so that its extent is 1 or more
                low, high = ranges.get(variable, (0, 0))
                ranges[variable] = (max(low, 1 - extent.constant), high)
    inside = replace(whole, ranges=ranges)
    return any(
        _is_earlier(other, view, loop.variables[0], inside, extents)
        for loop in around
        if not loop.parallel and len(loop.variables) == 1
        for other in _overwritten(loop.body, view.tensor, whole)
    )


def _is_earlier(
    written: View, view: View, variable: Var, whole: _Whole, extents: Mapping[Var, Index]
) -> bool:
    """Return whether `view` is what is `written` with a lesser index of a loop."""
    if len(written.index) != len(view.index):
        return False
    for own, other in zip(written.index, view.index, strict=True):
        step, apart = own.coefficient(variable), other - own
        if not step or any(factor % step for _, factor in apart.terms) or apart.constant % step:
            continue
        # A whole number of steps, divided term by term.
        terms = tuple((atom, factor // step) for atom, factor in apart.terms)
        later = Index(terms, apart.constant // step)
        index = Index.of(variable) + later
        before = greatest(later, whole.ranges, extents) < 0
        if before and least(index, whole.ranges, extents) >= 0:
            found = written.substitute({variable: index})
            # As the trace has simplified what it knows to exist of `view`.
            valid = tuple(v.simplify(whole.ranges) for v in found.valid)
            return replace(found, valid=valid) == view
    return False


def _within(view: View, written: list[View], whole: _Whole) -> bool:
    """Return whether one of the written views contains all of `view`."""
    return any(w == view or _is_all(w, whole.view) for w in written)


def _is_all(view: View, whole: View) -> bool:
    """Return whether a view, with its axes in any order, is the whole tensor."""
    axes: list[int] = []
    rest: list[int] = []
    for n, entry in enumerate(view.index):
        own = next((m for m in range(view.rank) if entry == Index.of(axis(m))), None)
        if own is None:
            # Index 0 is all of an axis of extent 1.
            if entry != Index() or whole.shape[n] != 1:
                rest.append(n)
            continue
        if not _long_enough(view.shape[own], whole.shape[n]) or view.valid[own] != whole.valid[n]:
            return False
        axes.append(own)
    if len(set(axes)) != len(axes):
        return False
    others = [view.valid[m] for m in range(view.rank) if m not in axes]
    if not rest:  # axes of extent 1, unless there is nothing at all
        return all(v.is_constant and v.constant > 0 for v in others)
    return _merged(view, whole, rest, axes)


def _merged(view: View, whole: View, rest: list[int], used: list[int]) -> bool:
    """Return whether the other axes of a view, merged or split ones, cover `rest` of the tensor."""
    own = [m for m in range(view.rank) if m not in used]
    renamed = {axis(m): axis(n) for n, m in enumerate(own)}
    index = tuple(view.index[n].substitute(renamed) for n in rest)
    known = {axis(n) for n in range(len(own))}
    sizes = tuple(view.shape[m] for m in own)
    part = View("", index, sizes, tuple(view.valid[m] for m in own))
    shape = tuple(whole.shape[n] for n in rest)
    fixed = all(_known(entry, known) for entry in index) and _SPANS not in sizes
    ragged = part.ragged or any(whole.valid[n] != Index.of(whole.shape[n]) for n in rest)
    if not fixed or ragged or math.prod(shape) > _COUNTED or math.prod(sizes) > _COUNTED:
        return False
    done = np.zeros(shape, dtype=bool)
    write(done, part, {}, np.ones((), dtype=bool))
    return bool(done.all())


def _known(entry: Index, axes: set[Var]) -> bool:
    """Return whether an index is of axes alone, not of loops or of elements that a call tells."""
    return entry.variables() <= axes and next(entry.elements(), None) is None


_COUNTED = 1 << 16
"""The number of elements up to which they are enumerated to see whether all are written."""


def _covered(written: list[View], whole: View) -> bool:
    """Return whether no element of the tensor keeps its old content."""
    if 0 in whole.shape or any(_is_all(w, whole) for w in written):
        return True
    for n in reversed(range(whole.rank)):
        across = [_without(v, n, whole) for v in written]
        # Only what spans a ragged axis counts; an axis that all span need not be enumerated.
        if whole.valid[n] != Index.of(whole.shape[n]) or None not in across:
            written = [rest for rest in across if rest is not None]
            whole = replace(whole, **_dropped(whole, n, n))
    # Not known counts as not covered: the parameter is then read, which is safe for the caller.
    if math.prod(whole.shape) > _COUNTED:
        return False
    done = np.zeros(whole.shape, dtype=bool)
    for view in written:
        entries = (*view.index, *view.valid)
        fixed = all(_known(e, set(filter(is_axis, e.variables()))) for e in entries)
        if fixed and _SPANS not in view.shape:
            write(done, view, {}, np.ones((), dtype=bool))
    return bool(done.all())


def _without(view: View, number: int, whole: View) -> View | None:
    """Return a view without an axis that it covers completely; None if it does not cover it."""
    entry = view.index[number]
    own = next((m for m in range(view.rank) if entry == Index.of(axis(m))), None)
    if own is None or view.valid[own] != whole.valid[number]:
        return None
    others = [e for n, e in enumerate(view.index) if n != number]
    if not _long_enough(view.shape[own], whole.shape[number]):
        return None
    if any(axis(own) in e.variables() for e in others):
        return None
    return replace(view, **_dropped(view, number, own))


def _dropped(view: View, number: int, own: int) -> dict[str, Any]:
    """Return a view's fields without one axis of its tensor and the view's own axis along it."""
    later = {axis(m): axis(m - 1) for m in range(own + 1, view.rank)}
    return {
        "index": tuple(e.substitute(later) for n, e in enumerate(view.index) if n != number),
        "shape": tuple(e for m, e in enumerate(view.shape) if m != own),
        "valid": tuple(e for m, e in enumerate(view.valid) if m != own),
    }


def _long_enough(length: int, extent: int) -> bool:
    """Return whether a view may cover an axis; a tile of full size may reach beyond its end."""
    return length == _SPANS or length >= extent


_SPANS = -1
"""Marks, as an extent, an axis of a written view that covers the tensor's whole axis."""


def _union(view: View, loop: Loop, whole: _Whole) -> View | None:
    """Return what a view covers over all iterations; None where that is not certain."""
    for variable, extent in zip(loop.variables, loop.extents, strict=True):
        where = [n for n, e in enumerate(view.index) if variable in e.variables()]
        if not where:
            # Each iteration writes the same elements; where the loop may turn never, none for
            # certain.
            if not (extent.is_constant and extent.constant > 0):
                return None
            continue
        # An index along two axes walks a diagonal, which covers neither of them.
        if len(where) > 1:
            return None
        if view.index[where[0]].coefficient(variable) < 0:
            # Counted from the last one, the iterations cover the same together.
            view = view.substitute({variable: extent - 1 - Index.of(variable)})
        grown = _grown(view, where[0], variable, extent, whole)
        if grown is None:
            return None
        view = grown
    return view


def _grown(view: View, at: int, variable: Var, extent: Index, room: _Whole) -> View | None:
    """Return the view widened to the whole tensor axis `at`, if its tiles cover that axis."""
    whole = room.view
    entry = view.index[at]
    step = entry.coefficient(variable)
    rest = entry - Index.of(variable) * step
    own = next((n for n in range(view.rank) if rest == Index.of(axis(n))), None)
    single = rest == Index() and step == 1
    if own is None and not single:
        return None
    size = 1 if own is None else view.shape[own]
    limit = whole.valid[at]
    enough = extent.is_constant and extent.constant * step >= whole.shape[at]
    # Tiles without gaps have steps of their size, and enough of them reach the end.
    if size != step or not (enough or extent == (limit + (step - 1)) // step):
        return None
    if own is not None and not _reaches(view.valid[own], variable, step, limit, room.ranges):
        return None
    index = list(view.index)
    shape, valid = list(view.shape), list(view.valid)
    if own is None:  # an axis that was dropped by indexing comes back as the last one
        own = view.rank
        shape.append(_SPANS)
        valid.append(limit)
    shape[own], valid[own] = _SPANS, limit
    index[at] = Index.of(axis(own))
    return replace(view, index=tuple(index), shape=tuple(shape), valid=tuple(valid))


def _reaches(
    valid: Index, variable: Var, step: int, limit: Index, ranges: Mapping[Var, Range]
) -> bool:
    """Whether a tile is clipped by the end of the tensor only, not by that of a part of it."""
    clipped = minimum(step, limit - Index.of(variable) * step)
    return valid in (Index.of(step), clipped, clipped.simplify(ranges))
