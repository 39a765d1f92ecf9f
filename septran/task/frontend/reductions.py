"""Reductions into one tensor from all iterations of parallel loops, in an order that is fixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from septran.errors import nearest
from septran.ir.index import Index, Var, axis, is_axis
from septran.ir.scans import neutral, scan_dtype
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import (
    LaunchArgumentsError,
    ReadOnlyError,
    ShapeError,
    TunableError,
    UnknownPrimitiveError,
)
from septran.task.frontend.definition import define
from septran.task.frontend.functions import maximum, minimum
from septran.task.frontend.language import (
    copy,
    empty,
    fill,
    parallel_range,
    sequential_range,
    tunable,
)
from septran.task.trace.arguments import not_a_tensor
from septran.task.trace.tensors import Partition, Tile
from septran.task.trace.tracing import Frame, current, launch
from septran.task.tree import Allocate, Primitive

JOINS: Mapping[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y, "max": maximum, "min": minimum
}  # fmt: skip
"""The functions, each as what joins two parts."""
WAYS = ("ordered", "atomic")
"""What the tunable ``reduction`` says: in the order of iterations (the default), or in any."""
SIDE = 64
"""The side of a tile of results without a tunable ``block_reduce``."""


def reduce_into(target: Tile, part: Tile, function: str = "sum") -> None:
    """Join `part` to what `target` holds: ``target = target + part``, or maximum, or minimum.

    Iterations of parallel loops of this task may do so with the same elements: each has a place of
    its own for its part, and the parts are joined after the loops, in the order of iterations. So
    results are the same in every run and on every machine.

    Where the tunable ``reduction`` is ``atomic``, parts are joined as iterations come to it, in
    whatever order, by a machine's instruction for the primitive ``accumulate``.

    `target` may be a row that an element of a tensor of integers chooses: ``C[index[t]]``.

    Raises:
        UnknownPrimitiveError: another function than ``sum``, ``max`` and ``min``.
        TunableError: ``reduction`` is neither ``ordered`` nor ``atomic``.
        ReadOnlyError: several rows are chosen by an index at one time.
        ShapeError: the two differ in shape, or nobody knows how many iterations there are.
    """
    frame = current()
    frame.require_composite("reduces tensors")
    for tile in (target, part):
        if not isinstance(tile, Tile):
            raise LaunchArgumentsError(
                f"{tile!r} is not a tensor of this task",
                Location.of_caller(),
                hint=not_a_tensor(tile),
            )
        frame.require_live(tile)
    if function not in JOINS:
        raise UnknownPrimitiveError(
            f"nothing is reduced by {function!r} into a tensor", Location.of_caller(),
            hint=nearest(str(function), JOINS),
        )  # fmt: skip
    if (target.view.shape, target.view.valid) != (part.view.shape, part.view.valid):
        raise ShapeError(
            f"reduce_into: {target.name} is {target.shape}, and {part.name} is {part.shape}",
            Location.of_caller(), hint="take the extents of the part from the target's shape",
        )  # fmt: skip
    _require_one_row(target)
    if not _over(frame, target.view):
        _joined(frame, target, part, function)
        return
    if _is_atomic():
        _joined(frame, target, part, function, at_once=True)
        return
    slot = _slot(frame, target, part, function)
    place = Tile(frame, slot.place(target.view), slot.dtype)
    # The first part overwrites a place that was not filled; others are joined to what is there.
    if slot.covered:
        _joined(frame, place, part, function)
    else:
        copy(place, part)
    slot.covered = True


def _joined(
    frame: Frame, target: Tile, part: Tile, function: str, *, at_once: bool = False
) -> None:
    """Launch the leaf that joins a part to what is there, which an index may choose."""
    frame.joining = True
    try:
        launch(_join_at_once if at_once else _join, target, part, function=function)
    finally:
        frame.joining = False


def _is_atomic() -> bool:
    """Return whether the mapping wants parts to be joined in whatever order they come."""
    way = tunable("reduction", WAYS[0])
    if way not in WAYS:
        raise TunableError(
            f"tunable reduction is {way!r}, not {' or '.join(WAYS)}",
            Location.of_caller(),
            hint="`ordered` gives the same bits each time, `atomic` adds parts as they come",
        )
    return bool(way == "atomic")


def _require_one_row(target: Tile) -> None:
    """Refuse rows chosen one by one: two may be the same, and of two parts one would be lost."""
    chosen = [at for element in target.view.elements() for at in element.at]
    if any(is_axis(v) for at in chosen for v in at.variables()):
        raise ReadOnlyError(
            f"several rows of {target.name} are chosen by an index at one time, and two may be one",
            Location.of_caller(),
            hint="join a row a time: for t in task.sequential_range(...): "
            "task.reduce_into(C[index[t]], part[t])",
        )


def _over(frame: Frame, target: View) -> list[tuple[Var, Index]]:
    """Return the open parallel loops of the task whose iterations have the same target."""
    # An element of a tensor of indices keeps no iterations apart: two may choose one row.
    atoms = [Index((term,)) for entry in target.index for term in entry.terms]
    used = {v for atom in atoms if not tuple(atom.elements()) for v in atom.variables()}
    loops = [(v, size) for v, size, parallel in frame.nest if parallel]
    return [(v, size) for v, size in loops if v not in used and size != Index.of(1)]


@dataclass
class _Slots:
    """Places for the parts of all iterations: a tensor as the target for each of them."""

    frame: Frame
    target: Tile
    """All of the tensor that is reduced into."""
    name: str
    dtype: str
    function: str
    over: list[tuple[Var, int]]
    """The loops whose iterations have places of their own, with their extents."""
    where: Location
    covered: bool = False
    """Whether each place holds something already where a part is joined to it."""
    filled: bool = False
    """Whether places begin with what changes nothing: not every part covers its own."""

    @property
    def count(self) -> int:
        """How many places there are."""
        return math.prod(size for _, size in self.over)

    @property
    def whole(self) -> View:
        """All places, one after the other."""
        goal = self.target.view
        return View.whole(self.name, (self.count, *goal.shape), (Index.of(self.count), *goal.valid))

    def place(self, target: View) -> View:
        """Return the part of an iteration's own place that corresponds to a view of the target."""
        number: Index = Index()
        for variable, size in self.over:
            number = number * size + variable
        return replace(target, tensor=self.name, index=(number, *target.index))

    def begin(self) -> None:
        """Record the places, before the loops."""
        whole = self.whole
        self.frame.body.append(
            Allocate(self.name, whole.shape, whole.valid, self.dtype, None, self.where)
        )
        if self.filled:
            fill(Tile(self.frame, whole, self.dtype), neutral(self.function, self.dtype))

    def end(self) -> None:
        """Record how the places are joined to the target, after the loops: tile by tile."""
        parts = Tile(self.frame, self.whole, self.dtype)
        side, rank = tunable("block_reduce", SIDE), self.target.ndim
        # A tile of a vector has as many elements as one of a matrix.
        last = (side * side,) if rank == 1 else (side, side)
        tile = (*(1,) * (rank - len(last)), *last)
        goals = Partition(self.target, tile)
        pieces = Partition(parts, (self.count, *tile))
        for at in parallel_range(goals.shape):
            launch(_join_parts, goals[at], pieces[(0, *at)], function=self.function)


def _slot(frame: Frame, target: Tile, part: Tile, function: str) -> _Slots:
    """Return the places for parts of `target`; new ones where the loops have none yet."""
    over = _over(frame, target.view)
    key = (target.name, function, tuple(v for v, _ in over))
    found = frame.slots.get(key)
    if found is None:
        sizes = [(v, _constant(frame, size, target)) for v, size in over]
        home = frame.homes[target.name]
        whole = Tile(
            frame, View.whole(target.name, home.view.shape, home.view.valid), target.own_dtype
        )
        name = frame.fresh(f"{target.name}_parts")
        dtype = scan_dtype(function, part.own_dtype)
        found = _Slots(frame, whole, name, dtype, function, sizes, Location.of_caller())
        found.filled = not _covers(frame, target.view, whole.view)
        found.covered = found.filled
        # They live around the loops, whatever is open where the first part is joined.
        opened = len(frame.tracer.open) - len(frame.nest) + frame.outermost
        frame.begin(name, found.whole, opened)
        frame.slots[key] = found
        frame.around.append((found.begin, found.end))
    return found


def _constant(frame: Frame, size: Index, target: Tile) -> int:
    reach = frame.tracer.range_of(size)
    if not size.is_constant:
        raise ShapeError(
            f"reduce_into: the number of parts of {target.name} depends on the iteration",
            Location.of_caller(),
            hint=f"loop over a number that is known, at most {reach[1] + 1}, and give the parts "
            "that are not there what changes nothing (task.fill)",
        )
    return size.constant


def _covers(frame: Frame, view: View, whole: View) -> bool:
    """Return whether the iterations of the parallel loops write all of the target, each once.

    Then no place has to be filled: its parts are all of it.
    """
    # A sequential loop's body is traced once for all iterations: no part in it is the first one.
    if any(not parallel for _, _, parallel in frame.nest[frame.outermost :]):
        return False
    sizes = {v: size for v, size, _ in frame.nest}
    used: list[Var] = []
    for number, entry in enumerate(view.index if view.rank == whole.rank else (Index(),)):
        loops = [v for v in entry.variables() if not is_axis(v)]
        used += loops
        reach, tiles = Index.of(axis(number)), Index.of(1)
        if loops:
            reach, tiles = reach + Index.of(loops[0]) * view.shape[number], sizes[loops[0]]
        all_of_it = tiles.is_constant and tiles.constant * view.shape[number] >= whole.shape[number]
        if entry != reach or not all_of_it:
            return False
    return len(set(used)) == len(used)


# Their tensors' names are such as no author takes: buffers are called after them, and one that is
# taken gets a number.
@define(leaf=True)  # type: ignore[untyped-decorator]
def _join(joined, joining, *, function: str):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """One part more."""
    joined[...] = JOINS[function](joined, joining)


@define(leaf=True)  # type: ignore[untyped-decorator]
def _join_at_once(joined, joining, *, function: str):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """One part more, each element at once."""
    frame, views = current(), (joined.view, joining.view)
    attributes = (("function", function),)
    frame.body.append(Primitive("accumulate", views, attributes, Location.of_caller()))


@define(leaf=True)
def _begin(joined, result):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """What is there before."""
    joined[...] = result


@define(leaf=True)
def _end(result, joined):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Rounded once."""
    result[...] = joined.astype(result.dtype)


@define
def _join_parts(result, parts, *, function: str):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """A tile of the result and of all parts, in order."""
    joined = empty(result.shape, parts.dtype, name="joined")
    launch(_begin, joined, result)
    for p in sequential_range(parts.shape[0]):
        launch(_join, joined, parts[p], function=function)
    launch(_end, result, joined)
