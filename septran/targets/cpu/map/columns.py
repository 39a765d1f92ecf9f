"""The inside of a row: scalars, loops over vectors that neighbours share, reductions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.dtypes import compute_dtype, itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index, axis, ceil_div
from septran.targets.cpu import simd
from septran.targets.cpu.addresses import Access
from septran.targets.cpu.context import Context
from septran.targets.cpu.map.elements import stored, write
from septran.targets.cpu.map.statements import Columns
from septran.targets.cpu.map.values import VectorEvaluation
from septran.targets.cpu.simd import CACHE_LINE, L1, constant
from septran.targets.lower.statements import Point, Statement, identity, operand_point, regions_of
from septran.targets.lower.values import broadcast, cast, element_of, lanes_of
from septran.targets.lower.writer import Expr
from septran.tile.nodes import Region


class Accumulator:
    """A vector that is reduced into, held on the stack (LLVM makes registers of it)."""

    def __init__(self, context: Context, function: str, dtype: str, lanes: int) -> None:
        self.context, self.function, self.dtype, self.lanes = context, function, dtype, lanes
        writer = context.writer
        self.buffer = writer.allocate("acc", lanes, dtype)
        self.least = identity(function, dtype)
        start = constant(self.least, dtype, lanes)
        simd.store(writer, self.buffer, writer.index(0), start, lanes)

    def add(self, value: Expr, count: Expr | None = None) -> None:
        """Reduce a vector into the first lanes; only its first `count` elements if given.

        A longer vector than the accumulator is reduced by halves first.
        """
        writer, lanes = self.context.writer, lanes_of(value)
        if count is not None:
            mask = simd.first_lanes(count, lanes)
            # Lanes that do not exist take what changes no reduction.
            value = simd.select(mask, value, constant(self.least, self.dtype, lanes))
        value = self._halved(value, self.lanes)
        lanes = lanes_of(value)
        old = writer.load(self.buffer, 0, lanes)
        joined = self.context.arithmetic.join(self.function, old, value)
        writer.store(self.buffer, 0, joined, lanes)

    def vector(self) -> Expr:
        """Each lane's own reduction."""
        return simd.load(self.buffer, self.context.writer.index(0), self.lanes)

    def result(self) -> Expr:
        """All lanes reduced to one."""
        value = simd.load(self.buffer, self.context.writer.index(0), self.lanes)
        return self.context.writer.bind("r", self._halved(value, 1))

    def _halved(self, value: Expr, most: int) -> Expr:
        """The vector reduced to at most so many lanes."""
        writer, lanes = self.context.writer, lanes_of(value)
        # By halves: LLVM's own reduction adds floats lane after lane where it may not reorder them.
        while lanes > most:
            half = writer.allocate("half", lanes, self.dtype)
            simd.store(writer, half, writer.index(0), value, lanes)
            lanes //= 2
            low = writer.bind("l", simd.load(half, writer.index(0), lanes))
            high = writer.bind("h", simd.load(half, writer.index(lanes), lanes))
            value = self.context.arithmetic.join(self.function, low, high)
        return value


Accesses = Mapping[Region, Access]
COSTLY = {"exp", "exp2", "tanh", "sigmoid", "erf", "log", "log2", "sin", "cos", "power"}
"""Functions whose loops wait for the processor more than for memory."""
AT_ONCE = 4
"""Registers of one vector that a loop works on."""
COMPUTING = 22
"""Registers that keep a function of `AT_ONCE` registers out of memory: three numbers for each, and
about ten constants."""
PAGE = 4096
IN_TURNS = 4
"""Pages of a row from memory that a loop works on in turns. A processor's own prefetch follows one
stream a page and begins anew at each: with four of them some are always on their way. On a Cascade
Lake norms gain 5 to 10 %, sums a tenth; two pages give half of it, eight less than one."""


def emit_row(
    context: Context,
    loops: Sequence[Sequence[Statement]],
    at: tuple[Index, ...],
    accesses: Accesses,
    passed: Collection[str],
) -> None:
    """Do what `row_loops` found in order; the buffers in `passed` are never stored."""
    wide = [run for run in loops if not alone_in_row(run[0], len(at))]
    prefetching, prefetches = _prefetching_loop(wide), _row_prefetch(context, wide, at, accesses)
    for run in loops:
        if alone_in_row(run[0], len(at)):
            emit_alone(context, run[0], at, accesses)
            continue
        own = prefetches if run is prefetching else RowPrefetch()
        lanes = row_lanes(context, run, accesses)
        if len(wide) == 1 and _sums(run):
            lanes = replace(lanes, page=page_of(context, run, at, accesses))
        emit_loop(RowLoop(context, run, at, accesses, own, passed), lanes)


def emit_alone(
    context: Context, statement: Statement, at: tuple[Index, ...], accesses: Accesses
) -> None:
    """Do a statement that shares no loop: one number, or a reduction along another axis."""
    if _vertical(statement):
        _Vertical(context, statement, at, accesses).emit()
        return
    value = VectorEvaluation(context, accesses).value(statement.value, statement.point(at, Index()))
    write(context, accesses[statement.target], at, value)


def _prefetching_loop(loops: Sequence[Sequence[Statement]]) -> Sequence[Statement] | None:
    """The one of a row's loops that prefetches the next row.

    One that computes for long hides it; else the last: results go to memory beside it. A row's
    only loop brings its own columns.
    """
    costly = [run for run in loops[1:] if any(is_costly(s) for s in run)]
    return next(iter([*costly, *loops[-1:]]), None)


def _sums(run: Sequence[Statement]) -> bool:
    """Whether it only reduces: a result beside that is one more stream, and computed for longer."""
    return all(statement.function for statement in run)


def is_costly(statement: Statement) -> bool:
    """Whether it computes for long."""
    return any(
        isinstance(node, ex.Unary | ex.Binary) and node.function in COSTLY
        for node in ex.walk(statement.value)
    )


def row_loops(run: Sequence[Statement], depth: int) -> list[list[Statement]]:
    """Inner statements in order, those that depend only on their own column together."""
    rest, loops = list(run), []
    while rest:
        count = 1 if alone_in_row(rest[0], depth) else _shared(rest, depth)
        loops.append(rest[:count])
        rest = rest[count:]
    return loops


def passing(loops: Sequence[Sequence[Statement]], depth: int, names: Collection[str]) -> set[str]:
    """Return those of `names` whose elements go from statement to statement of one loop."""
    found = set()
    for name in names:
        users = [run for run in loops if any(r.buffer == name for s in run for r in regions_of(s))]
        if len(users) != 1 or alone_in_row(users[0][0], depth):
            continue
        first = next(s for s in users[0] if any(r.buffer == name for r in regions_of(s)))
        # A reduction is complete only behind its loop, and what is read first comes from before it.
        read = any(r.buffer == name for r in regions_of(first)[1:])
        if first.target.buffer == name and first.function is None and not read:
            found.add(name)
    return found


def alone_in_row(statement: Statement, depth: int) -> bool:
    """Whether it shares no loop over columns."""
    return _scalar(statement, depth) or _vertical(statement)


def _vertical(statement: Statement) -> bool:
    return statement.function is not None and not statement.horizontal


@dataclass(frozen=True)
class RowPrefetch:
    """The prefetches of a loop: data that it reads soon and that comes from far away."""

    accesses: tuple[Access, ...] = ()
    rows: int = 0
    """How many rows below the loop's own elements it lies."""
    bytes: int = 0
    """How far behind them it lies; the next row is mostly what follows a row's end."""
    level: int = 2
    """The cache to which it is brought: 3 is L1, 2 is L2."""


def _row_prefetch(
    context: Context, wide: Sequence[Sequence[Statement]], at: tuple[Index, ...], accesses: Accesses
) -> RowPrefetch:
    """For one of a row's loops, `wide`: see `_prefetching_loop`.

    What the first loop has to bring, a later one finds near: it can ask for the next row's.
    Where there is no later one, the loop asks for its own columns some lines before it is there:
    the processor's own prefetch begins anew at each page and stays behind.
    """
    if len(wide) == 1:
        return _own_columns(context, wide[0], at, accesses)
    if not wide or not at:
        return RowPrefetch()
    far = far_columns(context, wide[0], at, accesses)
    moving = tuple(access for access in far if access.stride(len(at) - 1))
    return RowPrefetch(moving, rows=1)


def _own_columns(
    context: Context, run: Sequence[Statement], at: tuple[Index, ...], accesses: Accesses
) -> RowPrefetch:
    """What a row's only loop asks for of its own columns."""
    streams, beyond = context.streams, None
    if _sums(run):
        to_l1 = streams.level == L1
        if context.unit.follows and to_l1 and not page_of(context, run, at, accesses):
            return RowPrefetch()
        beyond = None if streams.sums_ask_nearer else context.cache_bytes()
    distance = streams.ahead_bytes
    far = far_columns(context, run, at, accesses, beyond)
    placed = tuple(access for access in far if _goes_on(context, run, at, access, distance))
    return RowPrefetch(placed, bytes=distance, level=streams.level)


def _goes_on(
    context: Context,
    run: Sequence[Statement],
    at: tuple[Index, ...],
    access: Access,
    distance: int,
) -> bool:
    """Whether what lies so many bytes ahead is read soon: of this row, or of the next one.

    Behind the end of a row that integers choose is another one than the next, and behind some
    columns of a row are those of another core.
    """
    columns = context.indices.bounds(columns_of(run[0]))[1]
    whole = bool(at) and access.stride(len(at) - 1) == columns
    long = columns * itemsize(access.storage.held) > distance
    return (whole or long) and not any(access.offset.elements())


def far_columns(
    context: Context,
    run: Sequence[Statement],
    at: tuple[Index, ...],
    accesses: Accesses,
    beyond: float | None = None,
) -> tuple[Access, ...]:
    """Return the accesses of a loop, column by column, to more than a core's cache holds.

    Or to more than so many bytes.
    """
    limit = beyond or context.cache_bytes(context.machine.processors[-1].name)
    found: dict[Region, Access] = {}
    for statement in run:
        for view in ex.loads(statement.value):
            assert isinstance(view, Region)
            access = accesses[view]
            size = math.prod(access.storage.shape) * itemsize(access.storage.held)
            inner = view.rank == len(at) + 1 and access.stride(len(at)) == 1
            if inner and not access.storage.owned and size > limit:
                found[view] = access
    return tuple(found.values())


def _scalar(statement: Statement, depth: int) -> bool:
    return statement.function is None and statement.rest(depth) == 0


def _shared(rest: Sequence[Statement], depth: int) -> int:
    """Return how many statements from the first on can share one loop over vectors."""
    count, columns = 1, Columns(depth)
    columns.take(rest[0])
    while count < len(rest):
        following = rest[count]
        if alone_in_row(following, depth) or columns_of(following) != columns_of(rest[0]):
            break
        if not columns.take(following):
            break
        count += 1
    return count


def columns_of(statement: Statement) -> Index:
    """Return how many columns it goes along."""
    return (statement.value if statement.function else statement.target).valid[-1]


@dataclass(frozen=True)
class RowLanes:
    """The lanes of a loop over columns."""

    register: int
    """Of one register, for the longest elements that are computed."""
    wide: int
    """Of the vectors worked on at once."""
    summed: int
    """Of the accumulators."""
    page: int = 0
    """Columns of a page, where `IN_TURNS` pages are worked on in turns."""


def row_lanes(context: Context, run: Sequence[Statement], accesses: Accesses) -> RowLanes:
    """The lanes of a loop that does these statements.

    Vectors of several registers keep the processor busy, and sums of as many wait less for each
    other. Beside a long computation they do not wait, but would take the registers that it needs:
    where there are too few, the registers of a vector are joined before they are summed (softmax
    with AVX2: a tenth faster on Zen 3).
    """
    widest = 1
    for statement in run:
        written = compute_dtype(accesses[statement.target].storage.dtype)
        written = sum_dtype(statement) if statement.horizontal else written  # one a row
        widest = max(widest, itemsize(written))
        for node in ex.walk(statement.value):
            if isinstance(node, ex.Load) and isinstance(node.view, Region):
                widest = max(widest, itemsize(compute_dtype(accesses[node.view].storage.dtype)))
            elif isinstance(node, ex.Unary | ex.Select | ex.Cast):
                widest = max(widest, itemsize(compute_dtype(node.dtype)))
    lanes = context.unit.bytes // widest
    # All statements of a loop have equally many lanes, so the longest of their elements decides.
    sums = sum(statement.horizontal for statement in run)
    crowded = sums * AT_ONCE + COMPUTING > context.unit.registers
    folded = crowded and any(map(is_costly, run))
    return RowLanes(lanes, lanes * AT_ONCE, lanes if folded else lanes * AT_ONCE)


def page_of(
    context: Context, run: Sequence[Statement], at: tuple[Index, ...], accesses: Accesses
) -> int:
    """The columns of a page, where a loop's columns are from memory and fill pages in turns.

    Lines from the last cache are nearer than the pages that are begun ahead: softmax loses a tenth.
    """
    if not context.streams.in_turns:
        return 0
    far = far_columns(context, run, at, accesses, beyond=context.cache_bytes())
    sizes = [itemsize(access.storage.held) for access in far]
    least, most = context.indices.bounds(columns_of(run[0]))
    if not sizes or least != most:
        return 0
    page = PAGE // min(sizes)
    return page if most >= IN_TURNS * page else 0


@dataclass
class RowLoop:
    """Elementwise statements and reductions along the same columns, in one loop."""

    context: Context
    run: Sequence[Statement]
    at: tuple[Index, ...]
    accesses: Accesses
    prefetches: RowPrefetch
    """What the loop prefetches meanwhile."""
    passed: Collection[str]
    """Buffers of which each vector is used at once, and never again."""
    evaluation: VectorEvaluation = field(init=False)
    sums: list[Accumulator | None] = field(init=False)

    def begin(self, lanes: RowLanes) -> None:
        """What is done once, before the loop."""
        self.evaluation = VectorEvaluation(self.context, self.accesses)
        for statement in self.run:
            point = self._point(statement, Index(), lanes.register, None)
            self.evaluation.hoist(statement.value, point)
        self.sums = [self._accumulator(s, lanes.summed) for s in self.run]

    def end(self) -> None:
        """Write what was summed."""
        for statement, total in zip(self.run, self.sums, strict=True):
            if total is not None:
                write(self.context, self.accesses[statement.target], self.at, total.result())

    def prefetch(self, start: Index, lanes: int, prefetches: RowPrefetch) -> None:
        """Ask for every line of what is ahead of these columns."""
        at = self.at
        if prefetches.rows:
            at = (*at[:-1], at[-1] + prefetches.rows)
        for access in prefetches.accesses:
            size = itemsize(access.storage.held)
            for further in range(0, lanes, CACHE_LINE // size):
                spot = (*at, start + further + prefetches.bytes // size)
                offset = self.context.lower(access.at(spot))
                simd.prefetch(self.context.writer, access.storage.flat, offset, prefetches.level)

    def _accumulator(self, statement: Statement, lanes: int) -> Accumulator | None:
        if statement.function is None:
            return None
        return Accumulator(self.context, statement.function, sum_dtype(statement), lanes)

    def _point(self, statement: Statement, start: Index, lanes: int, count: Index | None) -> Point:
        """The value's point for a vector that starts at a column."""
        along = len(self.at)
        point = Point((*self.at, start), along, lanes, count)
        if statement.function is not None:
            return point
        return operand_point(point, statement.value, statement.target.shape)

    def vector(self, start: Index, lanes: int, count: Index | None) -> None:
        """Do the columns from `start` on; only the first `count` of the lanes if given."""
        context = self.context
        evaluation = self.evaluation.inside()
        left = None if count is None else context.lower(count)
        for statement, total in zip(self.run, self.sums, strict=True):
            value = evaluation.value(statement.value, self._point(statement, start, lanes, count))
            if total is not None:
                total.add(broadcast(cast(value, total.dtype), lanes), left)
                continue
            target = self.accesses[statement.target]
            value = broadcast(value, lanes)
            if statement.target.buffer in self.passed:
                evaluation.keep(statement.target.buffer, stored(context, value, target.storage))
                continue
            # LLVM would make a masked store of the choice: see `simd.settled`.
            if _keeps_some(statement) and element_of(value) == target.storage.held:
                value = simd.settled(value)
            spot = (*self.at, start)
            written = None if _alone(target) else left
            write(context, target, spot, value, len(self.at), written)


def emit_loops(context: Context, loops: Sequence[RowLoop], lanes: RowLanes) -> None:
    """Loops along equally many columns as one: whole vectors, then what is left under a mask.

    Of each vector's columns the first loop does its part first; `end` of each is left to do.
    """
    narrow, wide = lanes.register, lanes.wide
    for one in loops:
        one.begin(lanes)
    # All loops have the same columns: `row_loops` and `stages_of` see to it.
    extent = context.variable("columns", columns_of(loops[0].run[0]))
    done = _emit_in_turns(context, loops, lanes, extent) if lanes.page else 0
    whole = context.variable("vectors", extent // wide)
    left = context.indices.simplify(whole - done // wide)
    if context.indices.bounds(left)[1] > 0:
        with context.loop("v", left) as v:
            for one in loops:
                one.prefetch(v * wide + done, wide, one.prefetches)
            for one in loops:
                one.vector(v * wide + done, wide, None)
    rest = context.indices.simplify(extent - whole * wide)
    if context.indices.bounds(rest)[1] > 0:
        with context.loop("v", ceil_div(rest, narrow)) as v:
            start = whole * wide + v * narrow
            exact = context.divides(narrow, extent)
            count = None if exact else context.variable("count", extent - start)
            for one in loops:
                one.vector(start, narrow, count)


def _emit_in_turns(
    context: Context, loops: Sequence[RowLoop], lanes: RowLanes, columns: Index
) -> int:
    """Vectors of several pages in turns; return how many columns that makes.

    Of the next pages only the first lines are asked for, evenly: the processor's own prefetch,
    which has more of them on their way than a core may ask for, follows from there.
    """
    page, steps = lanes.page, lanes.page // lanes.wide
    groups, begun = columns.constant // (page * IN_TURNS), steps // IN_TURNS
    with context.loop("pages", groups) as group, context.loop("v", steps) as v:
        first = group * (IN_TURNS * page)
        for one in loops:
            asked = replace(one.prefetches, rows=0, bytes=IN_TURNS * PAGE, level=2)
            line = v // begun * page + v % begun * (page // (PAGE // CACHE_LINE))
            one.prefetch(first + line, 1, asked)
        with context.loop("page", IN_TURNS) as turn:
            for one in loops:
                one.vector(first + turn * page + v * lanes.wide, lanes.wide, None)
    return groups * IN_TURNS * page


def emit_loop(one: RowLoop, lanes: RowLanes) -> None:
    """A loop by itself, and what it sums."""
    emit_loops(one.context, [one], lanes)
    one.end()


def _keeps_some(statement: Statement) -> bool:
    """Whether it chooses between what is there and something else, in vectors of words."""
    choice = statement.value
    if not isinstance(choice, ex.Select) or itemsize(choice.dtype) < 4:
        return False
    arms = [part.view for part in (choice.yes, choice.no) if isinstance(part, ex.Load)]
    return statement.target in arms


def _alone(target: Access) -> bool:
    """Whether nothing that exists lies behind a row, so that whole vectors may be written."""
    # An owned buffer has room for a whole vector, and a single row has no next one to spoil. One
    # that lies across panels has elements a panel's width apart, and no room for more of them.
    shape, region = target.storage.shape, target.region
    whole = region.index[-1] == Index.of(axis(region.rank - 1)) and region.shape[-1] == shape[-1]
    single = 1 < math.prod(shape) == shape[-1] and target.stride(region.rank - 1) == 1
    return target.storage.owned and whole and single


def sum_dtype(statement: Statement) -> str:
    """The type that a reduction accumulates in."""
    wide = ex.reduced_dtype(str(statement.function), statement.value.dtype)
    return "int32" if wide == "bool" else wide


@dataclass
class _Vertical:
    """A reduction along another axis than the last: a vector of results at a time."""

    context: Context
    statement: Statement
    at: tuple[Index, ...]
    accesses: Accesses

    def emit(self) -> None:
        """Whole vectors, then one under a mask."""
        context = self.context
        extent = context.variable("columns", self.statement.target.valid[-1])
        lanes = row_lanes(context, [self.statement], self.accesses).register
        whole = context.variable("vectors", extent // lanes)
        with context.loop("v", whole) as v:
            self._vector(v * lanes, lanes, None)
        rest = context.indices.simplify(extent - whole * lanes)
        if context.indices.bounds(rest)[1] > 0:
            with context.when_any(rest):
                self._vector(whole * lanes, lanes, context.variable("rest", rest))

    def _vector(self, start: Index, lanes: int, count: Index | None) -> None:
        context, statement = self.context, self.statement
        assert statement.function is not None
        total = Accumulator(context, statement.function, sum_dtype(statement), lanes)
        spot = (*self.at, start)
        with context.loop("r", statement.value.valid[statement.axis]) as r:
            at = (*spot[: statement.axis], r, *spot[statement.axis :])
            point = Point(at, len(at) - 1, lanes, count)
            value = VectorEvaluation(context, self.accesses).value(statement.value, point)
            total.add(broadcast(cast(value, total.dtype), lanes))
        left: Expr | None = None if count is None else context.lower(count)
        write(context, self.accesses[statement.target], spot, total.vector(), len(self.at), left)
