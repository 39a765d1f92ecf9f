"""Tensor expressions, fills and on-chip copies, strip by strip on the vector unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.index import Index, Var, axis, minimum
from septran.simulator.commands import DTYPES
from septran.targets.dsa.context import Context, Storage, unsupported
from septran.targets.dsa.copies import run_loop
from septran.targets.dsa.padding import Padding
from septran.targets.dsa.pieces import halves
from septran.targets.dsa.runs import Runs, runs
from septran.targets.dsa.tiles import (
    COL,
    ROW,
    Operand,
    Operation,
    Planner,
    Point,
    StridedTile,
    TemporaryMemory,
    address_of,
    broadcast,
)
from septran.targets.lower.scans import Scan
from septran.targets.lower.statements import Statement, identity, statements
from septran.tile.layouts import Layout
from septran.tile.nodes import Buffer, Compute, Region


def emit_map(context: Context, node: Compute, queue: int) -> None:
    """An expression, a fill or a copy, reductions first.

    Its reductions, and what its windows see with the zeros around, are held as a whole. Where
    they leave less than half of the temporaries' memory to the strips, it is done in halves.
    """
    scratch = scratch_of(context, node)
    found, made = _steps(context, node)
    # Strips share the memory with what is held as a whole; half of it leaves them room to be long.
    half = scratch.capacity // 2
    smaller = halves(node, lambda n: _bytes(context, n)) if _bytes(context, node) > half else ()
    for part, exists in smaller:
        with context.when_positive(exists):
            emit_map(context, part, queue)
    if smaller:
        return
    for buffer in (_laid_out(context, scratch, b) for b in made):
        spot = scratch.take(buffer.layout.elements(buffer.shape) * itemsize(buffer.dtype))
        base = address_of(context, scratch, spot, buffer.dtype)
        context.storages[buffer.name] = Storage(buffer, base.flat, base.offset)
    for statement in found:
        _Strips(context, node, queue, scratch, statement).emit()
    for buffer in made:
        del context.storages[buffer.name]


def _laid_out(context: Context, scratch: TemporaryMemory, buffer: Buffer) -> Buffer:
    """A temporary with rows that begin where its memory wants them to."""
    if not scratch.memory or len(buffer.shape) < 2:
        return buffer
    wanted, item = context.machine.memory(scratch.memory).row_alignment, itemsize(buffer.dtype)
    return replace(buffer, layout=Layout.aligned(buffer.shape[-1] * item, wanted, item))


def emit_scan(context: Context, node: Compute, queue: int) -> None:
    """All elements at one place along the axis at a time, each from those before them."""
    scan = Scan(node, context.storages[node.operands[0].buffer].buffer.dtype)
    # The first element has none before it: it is the value itself, so the loop begins behind it.
    with context.when_positive(scan.extent):
        emit_map(context, scan.first(), queue)
    with context.loop("step", scan.extent - 1) as step:
        emit_map(context, scan.following(step + 1), queue)


def _steps(context: Context, node: Compute) -> tuple[list[Statement], list[Buffer]]:
    """A computation as statements, and the buffers that hold what some of them make for others."""
    padding = Padding(context, node)
    inner = padding.inside()
    held = padding.made
    found, made = statements(
        [inner], lambda name: (held.get(name) or context.storages[name].buffer).dtype
    )
    return [*padding.found, *found], [*held.values(), *made]


def _bytes(context: Context, node: Compute) -> int:
    """How much a computation holds as a whole."""
    return sum(math.prod(b.shape) * itemsize(b.dtype) for b in _steps(context, node)[1])


def scratch_of(context: Context, node: Compute) -> TemporaryMemory:
    """The memory where the temporaries of a node's instruction are."""
    name = context.machine.instruction(node.instruction).options.get("temporaries")
    if name is None:
        return TemporaryMemory("", 0, 8)
    memory = context.machine.memory(str(name))
    capacity = (memory.capacity_bytes or 1 << 30) - context.starts.get(memory.name, 0)
    return TemporaryMemory(memory.name, capacity, max(8, memory.alignment))


@dataclass
class _Strips:
    """One statement: how it is cut into strips, and what is done in each."""

    context: Context
    node: Compute
    queue: int
    scratch: TemporaryMemory
    statement: Statement
    high: int = 1
    wide: int = 1
    roles: dict[int, Var] = field(default_factory=dict)
    """Which axis of the value goes along rows and which along columns."""

    def emit(self) -> None:
        """Find the largest strip whose temporaries fit, and write the loops over strips."""
        self.roles = self._roles()
        cut = {v: self._cut(n) for n, v in self.roles.items()}
        size = {v: cut[v].length(self.statement.shape[n]) for n, v in self.roles.items()}
        high, wide = (max(1, size.get(v, 1)) for v in (ROW, COL))
        # The plan of a strip depends on its extents alone, so smaller ones are tried.
        before = list(self.scratch.held)
        while True:
            self.scratch.held, self.scratch.peak = list(before), 0
            self.high, self.wide = high, wide
            planner = Planner(self.context, self.scratch, high, wide)
            body = self._body(planner)
            if max(self.scratch.peak, *(s.offset + s.size for s in before), 0) <= self._room:
                break
            if high == wide == 1:
                raise self._too_large()
            # Rows are halved first: a row that stays whole needs no neutral element.
            high, wide = (-(-high // 2), wide) if high > 1 else (high, -(-wide // 2))
        self.scratch.held = before
        self._loops(cut, body)

    @property
    def _room(self) -> int:
        return self.scratch.capacity

    def _too_large(self) -> Exception:
        if not self.scratch.memory:
            return unsupported(
                self.node.origin,
                f"{self.node.instruction} needs a memory for temporaries of an expression",
                "name one in the machine file: options: {temporaries: MEMORY}",
            )
        return unsupported(
            self.node.origin,
            f"the temporaries of {self.node.operands[0].buffer} need more than the "
            f"{self.scratch.capacity:,} bytes of {self.scratch.memory}",
            "choose smaller tiles, or give a reduction of it a tensor of its own",
        )

    def _roles(self) -> dict[int, Var]:
        """Rows and columns: the last two axes, or what is reduced along the columns."""
        rank = len(self.statement.shape)
        if self.statement.function is None:
            return dict(zip(range(rank - 1, max(-1, rank - 3), -1), (COL, ROW), strict=False))
        # The vector unit reduces along columns only, whichever axis of the tensor that is.
        rest = [n for n in range(rank) if n != self.statement.axis]
        found = {self.statement.axis: COL}
        return {**found, rest[-1]: ROW} if rest else found

    @property
    def point(self) -> Point:
        """The point of the value: strips along its roles, loops along the other axes."""
        return tuple(
            Index.of(self.roles.get(n, _loop(n))) for n in range(len(self.statement.shape))
        )

    @property
    def written(self) -> Point:
        """The target's coordinates."""
        return tuple(self.point[n] for n in self.statement.kept)

    # ---- how axes are cut -------------------------------------------------------------

    def _cut(self, number: int) -> Runs:
        """The runs of one axis, in the target and in all that is read."""
        variable = self.roles[number]
        offsets = [self._offset(self.statement.target, self.written)]
        value = self.statement.value
        top = self.point
        if self.statement.function is None:
            top = broadcast(self.point, value, self.statement.shape)
        offsets += self._offsets(value, top)
        return runs(offsets, variable)

    def _offset(self, region: Region, point: Point) -> Index:
        access = self.context.access(region)
        return access.at(dict(enumerate(point))).offset

    def _offsets(self, expr: ex.Expr, point: Point) -> Iterator[Index]:
        match expr:
            case ex.Load():
                assert isinstance(expr.view, Region)
                yield self._offset(expr.view, point)
            case ex.Position():
                for entry in expr.view.index:
                    if axis(expr.axis) in entry.variables():
                        yield entry.substitute({axis(expr.axis): point[0]})
            case _:
                for child in ex.children(expr):
                    yield from self._offsets(child, broadcast(point, child, expr.shape, expr))

    # ---- what is done in a strip ------------------------------------------------------

    def _body(self, planner: Planner) -> _Body:
        if self.statement.function is None:
            return self._elementwise(planner)
        return self._reduction(planner)

    def _target(self, planner: Planner) -> StridedTile:
        access = self.context.access(self.statement.target)
        return planner.tile(access, self.written)

    def _elementwise(self, planner: Planner) -> _Body:
        target = self._target(planner)
        point = broadcast(self.point, self.statement.value, self.statement.shape)
        value = planner.value(self.statement.value, point, target)
        self._store(planner, target, value)
        return _Body([], planner.operations, [])

    def _store(self, planner: Planner, target: StridedTile, value: Operand) -> None:
        """Write a value where it belongs, in the target's dtype."""
        if value is target:
            return
        value = planner.cast(value, target.dtype, target)
        if value is target:
            return
        if isinstance(value, StridedTile):
            planner.operation("copy", target.dtype, {"dst": target, "x": value})
        else:
            planner.operation("fill", target.dtype, {"dst": target}, value=value.value)

    def _reduction(self, planner: Planner) -> _Body:
        """Along the columns, into one result a row; further strips of a row add to it."""
        target = self._target(planner)
        dtype = self._dtype
        result = target
        if dtype != target.dtype:
            result = planner.fresh(dtype, rows=target.rows, cols=False)
        value = planner.cast(planner.value(self.statement.value, self.point), dtype)
        operand = planner.elements(value)
        function = self.statement.function
        planner.operation(f"reduce_{function}", dtype, {"dst": result, "x": operand})
        # Its extents are the operand's, and not those of the one column that it writes.
        last = replace(planner.operations[-1], cols=True)
        planner.operations[-1] = last
        body = planner.operations
        one = self.wide >= self.statement.shape[self.statement.axis]
        # A row in one strip and one run needs no neutral element, and is written, not added to.
        several = not one or not self._cut(self.statement.axis).whole
        # What follows is done once for the rows, before the first strip, not for each strip.
        planner.operations = []
        if several:
            neutral = identity(str(function), dtype)
            planner.operation("fill", dtype, {"dst": result}, value=neutral)
        first, planner.operations = planner.operations, []
        if result is not target:
            planner.operation(
                "cast", dtype, {"dst": target, "x": result}, dst_type=DTYPES.index(target.dtype)
            )
        body[-1] = replace(last, numbers=(*last.numbers, ("accumulate", int(several))))
        return _Body(first, body, planner.operations)

    @property
    def _dtype(self) -> str:
        """The dtype that a reduction is done in."""
        return ex.reduced_dtype(str(self.statement.function), self.statement.value.dtype)

    # ---- loops ------------------------------------------------------------------------

    def _loops(self, cut: dict[Var, Runs], body: _Body) -> None:
        context = self.context
        where = {v: n for n, v in self.roles.items()}
        with ExitStack() as loops:
            for number in range(len(self.statement.shape)):
                if number not in self.roles:
                    index = loops.enter_context(context.loop("e", self.statement.valid[number]))
                    context.alias(_loop(number), index)
            rows = cols = Index.of(1)
            if ROW in where:
                extent = self.statement.valid[where[ROW]]
                rows = loops.enter_context(self._strip(ROW, cut[ROW], extent, self.high))
            self._emit(body.first, rows, cols)
            with ExitStack() as inner:
                if COL in where:
                    extent = self.statement.valid[where[COL]]
                    cols = inner.enter_context(self._strip(COL, cut[COL], extent, self.wide))
                self._emit(body.each, rows, cols)
            self._emit(body.last, rows, Index.of(1))

    def _emit(self, operations: list[Operation], rows: Index, cols: Index) -> None:
        for operation in operations:
            operation.emit(self.context, self.queue, rows, cols)

    @contextmanager
    def _strip(self, variable: Var, cut: Runs, extent: Index, most: int) -> Iterator[Index]:
        """A loop over the strips of an axis; binds where each begins, gives how long it is."""
        context = self.context
        with run_loop(context, cut, extent) as (start, length):
            if context.indices.bounds(length)[1] <= most:
                context.alias(variable, start)
                yield length
                return
            count = (length + (most - 1)) // most
            with context.loop("strip", count) as strip:
                context.alias(variable, context.variable("start", start + strip * most))
                yield context.variable("count", minimum(most, length - strip * most))


@dataclass(frozen=True)
class _Body:
    """The operations for some rows: before, for each strip of columns, and after."""

    first: list[Operation]
    each: list[Operation]
    last: list[Operation]


def _loop(number: int) -> Var:
    """The index of an axis that is neither rows nor columns."""
    return Var(f"@axis{number}")
