"""Statements on fragments: element by element, with vectors of 16 bytes from and to memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from septran.dtypes import compute_dtype
from septran.ir import expressions as ex
from septran.ir.index import Index, Var
from septran.ir.views import View
from septran.targets.cuda.addresses import Access
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.fragment.conversions import stage
from septran.targets.cuda.fragment.fragments import Digit, Fragment
from septran.targets.cuda.fragment.pairs import BYTES, Elements, Pairs, pair_digit, side_by_side
from septran.targets.cuda.fragment.registers import (
    RegisterLoop,
    exists,
    lane_digit,
    primary,
    reachable,
    register_digits,
)
from septran.targets.cuda.fragment.statements import Places, inner, reads
from septran.targets.lower.expressions import Evaluation, axes_of
from septran.targets.lower.indices import divisor
from septran.targets.lower.statements import Statement
from septran.targets.lower.values import element_of
from septran.targets.lower.writer import Expr, both

Reader = Callable[[ex.Load, Places], Expr]
"""The element of a view that a statement's element needs, in the view's own dtype."""


@dataclass
class ElementEvaluation(Evaluation[Places]):
    """The value of expressions at one element."""

    context: Context
    at: tuple[Index, ...]
    """The element: a coordinate for each of the statement's axes."""
    read: Reader

    def load(self, expr: ex.Load, place: Places) -> Expr:
        """Return what was read, widened."""
        value = self.read(expr, place)
        return self.context.arithmetic.convert(value, compute_dtype(element_of(value)))

    def number(self, index: Index, place: Places) -> Expr:
        """As indices are."""
        return self.context.lower(index)

    def compare(self, function: str, left: Index, right: Index, place: Places) -> Expr:
        """Each side as what unrolled loops make constant, and the rest."""
        return self.context.arithmetic.combine(function, *self.context.indices.sides(left, right))

    def operand(self, parent: ex.Expr, child: ex.Expr, place: Places) -> Places:
        """The statement's axes that an operand's go along."""
        return inner(parent, child, place)

    def coordinate(self, place: Places) -> Index:
        """Return the element's coordinate along the statement's axis."""
        return Index() if place[0] is None else self.at[place[0]]

    def named(self, expr: ex.Expr, value: Expr) -> Expr:
        """Return what is read or computed is a variable."""
        computed = isinstance(expr, ex.Unary | ex.Binary | ex.Select | ex.Load)
        return self.context.writer.bind("v", value) if computed else value


Key = tuple[View, Places]


@dataclass
class Sources:
    """The operands of a statement at the current iteration of its loops."""

    context: Context
    walk: RegisterLoop
    staged: Mapping[str, Storage]
    """Fragments that were put into shared memory for it."""
    arrays: dict[Key, tuple[Any, bool]] = field(default_factory=dict)
    """What was loaded from memory for one pass over the lanes; whether one value for all."""
    lane: Digit | None = None
    """The digit that the innermost loop goes over, where it goes over vectors."""

    def read(self, load: ex.Load, places: Places) -> Expr:
        """The element of a view that the statement's current element needs."""
        view, writer = load.view, self.context.writer
        storage = self.context.storages[view.tensor]
        if (view, places) in self.arrays:
            array, single = self.arrays[view, places]
            at = Index() if single or self.lane is None else self.walk.steps[self.lane]
            return writer.load(array, self.context.lower(at))
        if storage.memory == "REGISTER" and view.tensor not in self.staged:
            register = self.walk.register(storage, view, places)
            return writer.load(storage.flat, self.context.lower(register))
        raise AssertionError(f"{view} was not loaded before")

    def access(self, view: View) -> Access | None:
        """The place in memory of a view; None where it is in this thread's registers."""
        if view.tensor in self.staged:
            return Access(self.context, self.staged[view.tensor], view)
        storage = self.context.storages[view.tensor]
        return None if storage.memory == "REGISTER" else Access(self.context, storage, view)

    def fetch(self, statement: Statement) -> None:
        """Load what the lanes of the innermost loop need from memory."""
        self.arrays.clear()
        for load, places in dict.fromkeys(reads(statement)):
            access = self.access(load.view)
            if access is not None and (load.view, places) not in self.arrays:
                self.arrays[load.view, places] = self._fetched(access, places)

    def _fetched(self, access: Access, places: Places) -> tuple[Any, bool]:
        writer, dtype = self.context.writer, access.storage.dtype
        last = self.walk.fragment.rank - 1
        along = self.lane is not None and last in places
        count = self.lane.extent if self.lane is not None and along else 1
        array = writer.allocate("x", count, dtype)
        for start, width, at in pieces(self.walk, access, places, self.lane if along else None):
            # Lanes beyond the edge are computed as well: with zeros, and nobody stores the results.
            inside = access.exists(at)
            if inside is not None:
                for n in range(width):
                    writer.store(array, start + n, self.context.arithmetic.constant(0, dtype))
            with writer.when(inside):
                value = writer.load(access.storage.flat, access.lower(at, width), width)
                writer.store(array, start, value, width)
        return array, not along


def pieces(
    walk: RegisterLoop, access: Access, places: Places, lane: Digit | None
) -> list[tuple[int, int, tuple[Index, ...]]]:
    """The lanes of the innermost loop as vectors: first lane, width, place of the first."""

    def at(step: Index) -> tuple[Index, ...]:
        if lane is not None:
            walk.steps[lane] = step
        return tuple(Index() if p is None else walk.coordinate(p) for p in places)

    if lane is None:
        return [(0, 1, at(Index()))]
    before = walk.steps.get(lane)
    indices = walk.context.indices
    # A symbol in the place of the lane: what holds of it holds of every vector.
    variable = Var("@lane")
    indices.bind(variable, None, 0, lane.extent - 1)
    general = at(Index.of(variable))
    width = access.width(general, variable, lane.extent)
    while width > 1 and not _together(access, general, variable, width):
        width //= 2
    found = [(n, width, at(Index.of(n))) for n in range(0, lane.extent, width)]
    if before is None:
        del walk.steps[lane]
    else:
        walk.steps[lane] = before
    return found


def _together(access: Access, at: tuple[Index, ...], lane: Var, width: int) -> bool:
    """Whether of each vector either all elements exist or none."""
    for coordinate, valid in zip(at, access.region.valid, strict=True):
        if lane in coordinate.variables():
            start = coordinate.substitute({lane: 0})
            if divisor(start) % width or divisor(valid) % width:
                return False
    return True


def emit_statement(
    context: Context, statement: Statement, fragment: Fragment, keep: bool = False
) -> None:
    """``target[...] = value`` for each element of a fragment.

    `keep` says that what is in the scratch memory already is to stay there.
    """
    target = context.storages[statement.target.tensor]
    staged = stage_unreachable(context, statement, fragment, keep)
    walk = RegisterLoop(context, fragment)
    sources = Sources(context, walk, staged)
    lane = lane_digit(fragment)
    sources.lane = lane
    in_memory = target.memory != "REGISTER"
    pairs = _pairs(context, statement, walk, target, lane)
    together = lane if pairs is None else pairs.digit
    outer = [d for d in register_digits(fragment) if d != together]
    # Threads that hold copies each update their own register; memory is written by one.
    with context.writer.when(primary(context, fragment) if in_memory else None), walk.over(outer):
        # All loads of a vector before its lanes are computed: one access each.
        if lane == together:
            sources.fetch(statement)
        # Results are collected first, so that they can be stored as vectors.
        out = context.writer.allocate("y", lane.extent if lane else 1, target.dtype) \
            if in_memory else None  # fmt: skip
        if pairs is not None:
            place = _place(walk, statement, target, lane)
            elements = _elements(context, statement, sources, walk)
            pairs.emit(elements, target.flat if out is None else out, place)
        else:
            _emit_lanes(context, statement, sources, walk, out)
        if out is not None:
            _put(context, statement, target, walk, lane, out)


def _emit_lanes(
    context: Context, statement: Statement, sources: Sources, walk: RegisterLoop, out: Any
) -> None:
    """The elements of the innermost loop one by one, into `out` if there is one, or registers."""
    lane, target = sources.lane, context.storages[statement.target.tensor]
    with walk.over([lane] if lane else []):
        value = _stored(context, statement, sources, walk)
        if out is None:
            _keep(context, statement, target, walk, value)
            return
        step = walk.steps[lane] if lane else Index()
        context.writer.store(out, context.lower(step), value)


def _pairs(
    context: Context,
    statement: Statement,
    walk: RegisterLoop,
    target: Storage,
    lane: Digit | None,
) -> Pairs | None:
    """How elements are computed two at a time; None where they are not."""
    in_memory = target.memory != "REGISTER"
    if _is_copy(context, statement) or statement.joins or (in_memory and lane is None):
        return None
    pairs = Pairs.of(context, statement, pair_digit(walk.fragment, lane))
    # Where elements beyond the edge must stay as they are, each has a condition of its own.
    uniform = in_memory or target.name in context.state.uniform
    if pairs is None or not (uniform or not _ragged(statement, target, walk.fragment)):
        return None
    place = _place(walk, statement, target, lane)
    return pairs if side_by_side(walk, pairs.digit, place) else None


def _place(
    walk: RegisterLoop, statement: Statement, target: Storage, lane: Digit | None
) -> Callable[[], Index]:
    """Where the element of the current iteration is stored: its register, or its lane."""
    if target.memory != "REGISTER":
        assert lane is not None
        return lambda: walk.steps[lane]
    places = tuple(range(len(statement.shape)))
    return lambda: walk.register(target, statement.target, places)


def _elements(
    context: Context, statement: Statement, sources: Sources, walk: RegisterLoop
) -> Elements:
    """How the elements of a statement are computed."""
    dtype = context.storages[statement.target.tensor].dtype

    def fetch() -> None:
        if sources.lane is None:  # or all lanes have been fetched
            sources.fetch(statement)

    def value() -> Expr:
        return context.arithmetic.single(evaluate(context, statement, sources, walk), dtype)

    return Elements(walk, fetch, sources.read, value)


def _is_copy(context: Context, statement: Statement) -> bool:
    """Whether each element is another one as it is, in the same type."""
    storages, value = context.storages, statement.value
    target = storages[statement.target.tensor].dtype
    return isinstance(value, ex.Load) and storages[value.view.tensor].dtype == target


def _stored(context: Context, statement: Statement, sources: Sources, walk: RegisterLoop) -> Expr:
    """What a statement stores at the element where the loops are: the value, in its type.

    Elements of 16 bits go through float32 where they are copied, too, for NVIDIA: ptxas then holds
    fewer registers: 80 for 98 in a softmax of 16,384 columns, which is 12 % faster on an H100.
    Clang keeps what rounding does to NaN: 5 instructions for each bfloat16.
    """
    target = context.storages[statement.target.tensor].dtype
    as_it_is = target in BYTES or context.writer.dialect.copies_as_they_are
    if isinstance(statement.value, ex.Load) and _is_copy(context, statement) and as_it_is:
        return sources.read(statement.value, axes_of(statement.value, statement.shape))
    return context.arithmetic.convert(evaluate(context, statement, sources, walk), target)


def evaluate(context: Context, statement: Statement, sources: Sources, walk: RegisterLoop) -> Expr:
    """The value of a statement at the element where the loops are."""
    evaluation = ElementEvaluation(context, walk.coordinates, sources.read)
    return evaluation.value(statement.value, axes_of(statement.value, statement.shape))


def stage_unreachable(
    context: Context, statement: Statement, fragment: Fragment, keep: bool = False
) -> dict[str, Storage]:
    """Put those operands into shared memory that lie in other threads than they are needed in."""
    needed: dict[str, Storage] = {}
    for load, places in reads(statement):
        storage = context.storages[load.view.tensor]
        # The lane, the warp or the axis differs: registers of other threads cannot be read.
        if storage.memory == "REGISTER" and not reachable(fragment, storage, load.view, places):
            needed[storage.name] = storage
    return stage(context, needed.values(), keep) if needed else {}


def _keep(
    context: Context, statement: Statement, target: Storage, walk: RegisterLoop, value: Expr
) -> None:
    """Store into the thread's own register, unless that would spoil elements that exist."""
    inside = None
    # Where every node touches the same extents nobody reads what lies beyond: no condition.
    if target.name not in context.state.uniform:
        at = walk.coordinates
        inside = exists(context, at, statement.valid, _ragged(statement, target, walk.fragment))
    places = tuple(range(len(statement.shape)))
    number = context.lower(walk.register(target, statement.target, places))
    with context.writer.when(inside):
        context.writer.store(target.flat, number, value)


def _ragged(statement: Statement, target: Storage, fragment: Fragment) -> list[int]:
    """Axes of a statement along which its target may have more elements than it writes."""
    parts = statement.shape != target.shape
    return [
        n
        for n, (valid, extent) in enumerate(zip(statement.valid, statement.shape, strict=True))
        if valid != Index.of(extent) or (parts and fragment.extents[n] != extent)
    ]


def _put(
    context: Context,
    statement: Statement,
    target: Storage,
    walk: RegisterLoop,
    lane: Digit | None,
    out: Any,
) -> None:
    """Store what the lanes computed into memory, where it exists."""
    access = Access(context, target, statement.target)
    places = tuple(range(len(statement.shape)))
    for start, width, at in pieces(walk, access, places, lane):
        inside = both(
            *(context.indices.below(c, v) for c, v in zip(at, statement.valid, strict=True))
        )
        with context.writer.when(inside):
            if statement.joins:
                first = context.writer.bind("at", access.lower(at))
                for n in range(width):
                    value = context.writer.load(out, start + n)
                    context.writer.join_at_once(statement.joins, target.flat, first + n, value)
                continue
            value = context.writer.load(out, start, width)
            context.writer.store(target.flat, access.lower(at, width), value, width)
