"""Scans by a function of the logic: several tensors at once, as statements on parts of them.

What is recorded are tensor expressions on temporaries, so that reference, checks and every machine
need nothing else. Either each element is joined with the one 1, 2, 4, ... places before it (Hillis
and Steele, Data Parallel Algorithms, 1986), or one place follows the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from septran.dtypes import accumulator_dtype, is_float
from septran.ir import expressions as ex
from septran.ir.index import Index, IndexLike, maximum, minimum
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import ScanError, ShapeError, TunableError
from septran.task.frontend.language import open_loop, tunable
from septran.task.frontend.scan_trials import Trials, of_elements
from septran.task.trace.scans import scanned_axis, temporary
from septran.task.trace.symbols import BROADCAST, Expression, operand
from septran.task.trace.tensors import Tile

if TYPE_CHECKING:
    from septran.task.trace.tracing import Frame

Combine = Callable[[Any, Any], Any]
WAYS = ("doubled", "stepped")
"""What the tunable ``scan`` says; the second by default where elements lie beside each other."""


def joined_scan(
    frame: Frame, combine: Combine, given: Any, axis: Any, reverse: bool, exclusive: bool,
    identity: Any,
) -> Any:  # fmt: skip
    """Record a scan by `combine`, and return the temporaries that hold its results.

    Raises:
        ScanError: `combine` returns something else than it takes, or joins no groups; an exclusive
            scan has no identity to begin with, or one that changes something; another has one.
        ShapeError: what is scanned has no common extents.
    """
    frame.require_leaf("scans elements")
    several = isinstance(given, tuple | list)
    exprs = [operand(x) for x in (given if several else (given,))]
    like = _common(exprs)
    rank = len(like.shape)
    work = _Scan(
        frame, combine, several, like, scanned_axis(axis, rank), reverse,
        tuple(accumulator_dtype(e.dtype) for e in exprs),
    )  # fmt: skip
    if identity is not None and not exclusive:
        raise ScanError(
            "a scan that is not exclusive has an identity", Location.of_caller(),
            hint="its first result is the first element; exclusive=True begins with the identity",
        )  # fmt: skip
    first = work.identity(identity) if exclusive else None
    work.require_groups(exprs, first)
    found = work.run(exprs)
    if first is not None:
        found = work.later_by_one(found, first)
    tiles = tuple(Tile(frame, view, d) for view, d in zip(found, work.dtypes, strict=True))
    return tiles if several else tiles[0]


def _common(exprs: Sequence[ex.Expr]) -> ex.Load:
    """Return what has the extents that all have together; raises ShapeError."""
    if not exprs:
        raise ShapeError(
            "a scan of no tensor", Location.of_caller(),
            hint="task.scan(function, (x, y), axis=0)",
        )  # fmt: skip
    try:
        shape, valid = ex.broadcast(*exprs)
    except ex.ShapeMismatchError as error:
        raise ShapeError(f"{error} in a scan", Location.of_caller(), hint=BROADCAST) from None
    return ex.Load(View.whole("", shape, valid), "float32")


@dataclass(frozen=True)
class _Scan:
    frame: Frame
    combine: Combine
    several: bool
    """Whether `combine` takes tuples, and not one value."""
    like: ex.Load
    """What has the extents of all that is scanned."""
    axis: int
    reverse: bool
    dtypes: tuple[str, ...]
    """The types in which elements are joined, and in which the results are."""

    def run(self, exprs: Sequence[ex.Expr]) -> tuple[View, ...]:
        """Record the scan in the way that the mapping says."""
        across = self.axis < len(self.like.shape) - 1
        way = tunable("scan", WAYS[across])
        if way not in WAYS:
            raise TunableError(
                f"tunable scan is {way!r}, not {' or '.join(WAYS)}", Location.of_caller(),
                hint="`doubled` joins all elements at a time, `stepped` one place after the other",
            )  # fmt: skip
        few = self.like.shape[self.axis] < 2
        sources = tuple(self._begun(e, d, few) for e, d in zip(exprs, self.dtypes, strict=True))
        if few:
            return sources
        return self._stepped(sources) if way == "stepped" else self._doubled(sources)

    def _doubled(self, sources: tuple[View, ...]) -> tuple[View, ...]:
        """Join each element with that 1, 2, 4, ... places before; none is read once written."""
        steps = [1 << n for n in range((self.like.shape[self.axis] - 1).bit_length())]
        rooms = [self._rooms() for _ in steps[:2]]
        for step, room in zip(steps, itertools.cycle(rooms), strict=False):
            sides = [
                self._loads([self._apart(v, step, later=later) for v in sources])
                for later in (False, True)
            ]
            for goal, value in zip(room, self._joined(*sides), strict=True):
                self.frame.compute(self._apart(goal, step, later=True), value)
            self._copy_first(room, sources, step)
            sources = room
        return sources

    def _stepped(self, sources: tuple[View, ...]) -> tuple[View, ...]:
        """Join one place after the other, all that lies beside it at a time."""
        room = self._rooms()
        self._copy_first(room, sources, 1)
        count = _less(self.like.valid[self.axis], 1)
        with open_loop(self.frame, (count,), Location.of_caller(), parallel=False) as (turn,):
            before, here = (self._place(Index.of(turn) + n) for n in (0, 1))
            earlier, later = (
                self._loads([self.frame.simplified(v.without(self.axis, at)) for v in views])
                for views, at in ((room, before), (sources, here))
            )
            for goal, value in zip(room, self._joined(earlier, later), strict=True):
                self.frame.compute(self.frame.simplified(goal.without(self.axis, here)), value)
        return room

    def later_by_one(self, found: Sequence[View], first: Sequence[ex.Expr]) -> tuple[View, ...]:
        """Record the results one place further along the axis, which begins with `first`."""
        room = self._rooms()
        for goal, source, value, d in zip(room, found, first, self.dtypes, strict=True):
            if goal.shape[self.axis] > 1:
                earlier = self._apart(source, 1, later=False)
                self.frame.compute(self._apart(goal, 1, later=True), ex.Load(earlier, d))
            if goal.shape[self.axis]:
                self.frame.assign(Tile(self.frame, self._first(goal, 1), d), Expression(value))
        return room

    def identity(self, given: Any) -> tuple[ex.Expr, ...]:
        """Return what an exclusive scan begins with; raises ScanError."""
        numbers = tuple(given) if isinstance(given, tuple | list) else (given,)
        if given is None or len(numbers) != len(self.dtypes):
            found = "nothing" if given is None else _counted(len(numbers), "value")
            raise ScanError(
                f"an exclusive scan of {self._tensors} begins with {found}", Location.of_caller(),
                hint="identity=(1, 0): a number for each of them, which changes nothing",
            )  # fmt: skip
        values = tuple(map(_single, numbers))
        if not self.frame.tracer.check:
            return values  # the types are made up, too
        return tuple(_typed(e, d) for e, d in zip(values, self.dtypes, strict=True))

    @property
    def _tensors(self) -> str:
        return _counted(len(self.dtypes), "tensor")

    def require_groups(self, exprs: Sequence[ex.Expr], first: Sequence[ex.Expr] | None) -> None:
        """Refuse what joins no groups, and what begins an exclusive scan and changes something."""
        if not self.frame.tracer.check:
            return
        sides = [
            [ex.Load(View.whole(f"{n}@{side}", self.like.shape, self.like.valid), d)
             for n, d in enumerate(self.dtypes)] for side in ("earlier", "later")
        ]  # fmt: skip
        values = self._joined(*sides)
        if not all(map(of_elements, values)):
            return  # it reads what is not scanned, whose elements nobody knows here
        trials = Trials(values, self.dtypes, exprs)
        if differing := trials.groupings():
            raise ScanError(
                f"the function of a scan is not associative: {differing}", Location.of_caller(),
                hint="f(f(x, y), z) and f(x, f(y, z)) are the same for what a scan joins; walk "
                "what has one order by task.sequential_range, and scan flags as masks, x > 0",
            )  # fmt: skip
        numbers = [e.value for e in first or () if isinstance(e, ex.Constant)]
        if first and len(numbers) == len(first) and (changed := trials.changed(numbers)):
            text = ", ".join(f"{n:.6g}" for n in numbers)
            raise ScanError(
                f"the identity ({text}) of a scan changes something: {changed}",
                Location.of_caller(),
                hint="f(identity, x) is x: 0 for sums, 1 for products, -task.inf for the greatest",
            )

    def _joined(self, earlier: Sequence[ex.Load], later: Sequence[ex.Load]) -> list[ex.Expr]:
        """Return what `combine` makes of two parts, in the types of the results."""
        sides = [tuple(map(Expression, side)) for side in (earlier, later)]
        try:
            found = self.combine(*(side if self.several else side[0] for side in sides))
        except ShapeError as error:
            extent = earlier[0].shape[self.axis]
            raise ScanError(
                f"{error.message}, in a scan's function of {extent} elements along axis "
                f"{self.axis}", error.where,
                hint="it is called with parts of what is scanned: what else it reads has not that "
                "axis, or is scanned, too",
            ) from None  # fmt: skip
        listed = isinstance(found, tuple | list)
        values = tuple(found) if self.several and listed else (found,)
        if listed and not self.several:
            raise ScanError(
                "the function of a scan of one tensor that is in no tuple returns a "
                f"{type(found).__name__}", Location.of_caller(),
                hint="it takes two values, and returns one; of (x,) it takes and returns tuples",
            )  # fmt: skip
        if len(values) != len(self.dtypes):
            raise ScanError(
                f"the function of a scan of {self._tensors} returns "
                f"{_counted(len(values), 'value')}", Location.of_caller(),
                hint="it takes two tuples, and returns one as long",
            )  # fmt: skip
        pairs = zip(map(operand, values), self.dtypes, strict=True)
        return [self._fitted(value, dtype, earlier[0]) for value, dtype in pairs]

    def _fitted(self, value: ex.Expr, dtype: str, like: ex.Load) -> ex.Expr:
        if is_float(value.dtype) and not is_float(dtype):
            raise ScanError(
                f"the function of a scan makes {value.dtype} of {dtype}", Location.of_caller(),
                hint="scan x.astype(task.float32), or convert what it returns",
            )  # fmt: skip
        if value.shape and (value.shape, value.valid) != (like.shape, like.valid):
            raise ScanError(
                f"the function of a scan makes {value.shape} of {like.shape}",
                Location.of_caller(), hint="what it returns has the extents of what it takes",
            )  # fmt: skip
        return value if value.dtype == dtype else ex.Cast(value, dtype)

    def _begun(self, expr: ex.Expr, dtype: str, held: bool) -> View:
        """Return a view of what is scanned, which is computed first unless a tensor holds it."""
        like = (self.like.shape, self.like.valid, dtype)
        if (
            not held
            and isinstance(expr, ex.Load)
            and (expr.shape, expr.valid, expr.dtype) == like
            and expr.view.tensor not in self.frame.scans
            and not expr.view.padded
        ):
            self.frame.require_own(expr)
            return expr.view
        view = self._room(dtype)
        self.frame.assign(Tile(self.frame, view, dtype), Expression(expr))
        return view

    def _loads(self, views: Sequence[View]) -> list[ex.Load]:
        return [ex.Load(view, d) for view, d in zip(views, self.dtypes, strict=True)]

    def _rooms(self) -> tuple[View, ...]:
        return tuple(map(self._room, self.dtypes))

    def _room(self, dtype: str) -> View:
        return temporary(self.frame, "so_far", replace(self.like, dtype=dtype), scans=True)

    def _place(self, number: Index) -> Index:
        """Return where the scan's elements number `number` are: a reverse one begins at the end."""
        return self.like.valid[self.axis] - 1 - number if self.reverse else number

    def _apart(self, view: View, step: int, *, later: bool) -> View:
        """Return the elements that have one `step` places before them, or those."""
        start = step if later != self.reverse else 0
        exists = _less(view.valid[self.axis], step)
        return self._cut(view, start, view.shape[self.axis] - step, exists)

    def _copy_first(self, room: Sequence[View], sources: Sequence[View], count: int) -> None:
        """Record the elements that have none `count` places before them."""
        for goal, source, d in zip(room, sources, self.dtypes, strict=True):
            self.frame.compute(self._first(goal, count), ex.Load(self._first(source, count), d))

    def _first(self, view: View, count: int) -> View:
        exist = view.valid[self.axis]
        start = _less(exist, count) if self.reverse else Index()
        return self._cut(view, start, count, minimum(count, exist - start))

    def _cut(self, view: View, start: IndexLike, extent: int, exists: Index) -> View:
        """Return `extent` places of a view from `start` on, of which so many exist."""
        offsets = tuple(start if n == self.axis else 0 for n in range(view.rank))
        extents = tuple(extent if n == self.axis else e for n, e in enumerate(view.shape))
        valid = tuple(exists if n == self.axis else v for n, v in enumerate(view.valid))
        return self.frame.simplified(replace(view.block(offsets, extents), valid=valid))


def _less(exist: Index, count: int) -> Index:
    """Return how many are left of those that exist; none of fewer than `count`."""
    return maximum(0, exist - count)


def _counted(count: int, one: str, more: str = "") -> str:
    return f"one {one}" if count == 1 else f"{count} {more or one + 's'}"


def _single(value: Any) -> ex.Expr:
    """Return one number, scalar or element; raises ScanError for what is none."""
    try:
        expr = operand(value)
    except ShapeError:
        expr = None
    if expr is None or expr.shape:
        found = (
            f"a tensor of {_counted(len(expr.shape), 'axis', 'axes')}"
            if expr
            else f"a {type(value).__name__}"
        )
        raise ScanError(
            f"an exclusive scan begins with {found}", Location.of_caller(),
            hint="identity is a number, a scalar of the logic or one element, A[0, 0]; join what "
            "differs from row to row with the results",
        )  # fmt: skip
    return expr


def _typed(expr: ex.Expr, dtype: str) -> ex.Expr:
    """Return a value in the type of a result; raises ScanError where the type does not have it."""
    if isinstance(expr, ex.Constant):
        return ex.Constant(_exact(expr.value, dtype), dtype)
    if is_float(expr.dtype) and not is_float(dtype):
        raise ScanError(
            f"an exclusive scan of {dtype} begins with {expr.dtype}", Location.of_caller(),
            hint="scan x.astype(task.float32), or convert the identity",
        )  # fmt: skip
    return expr if expr.dtype == dtype else ex.Cast(expr, dtype)


def _exact(number: float | int, dtype: str) -> float | int:
    """Return a number as one of a type; raises ScanError for one that the type does not have."""
    limits = np.finfo(dtype) if is_float(dtype) else np.iinfo(dtype)
    low, high = (n.item() if isinstance(n, np.generic) else n for n in (limits.min, limits.max))
    if is_float(dtype):
        if not np.isfinite(number) or low <= number <= high:
            return float(number)
    elif low <= number <= high and number == int(number):
        return int(number)
    raise ScanError(
        f"an exclusive scan of {dtype} begins with {number}, which {dtype} does not have",
        Location.of_caller(),
        hint=f'{dtype} goes from {low} to {high}, and task.scan("min", x, axis, '
        "exclusive=True) begins with the limit of a type",
    )
