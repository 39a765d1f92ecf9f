"""Execution of a tile program on NumPy, under any schedule that hardware may choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from septran.argument_checks import as_mapping, as_tuple, require, short_repr
from septran.dtypes import is_float, numpy_dtype
from septran.errors import TileError, nearest
from septran.ir.atoms import table_of, tables
from septran.ir.evaluate import evaluate
from septran.ir.expressions import Expr
from septran.ir.index import Index, Var, axis
from septran.ir.numerics import convert
from septran.ir.primitives import PRIMITIVES
from septran.ir.scans import scanned
from septran.ir.views import View
from septran.mapping.extern.function import ordered
from septran.task.check.definedness import joined, missing_of
from septran.task.reference import run_leaf
from septran.task.tree import TaskNode
from septran.tile.analyses.indirect import indirect
from septran.tile.analyses.scopes import Block
from septran.tile.interpret.channel_state import Fill, Flight, Thread, located
from septran.tile.interpret.execution import Execution, Schedule, ThreadState
from septran.tile.interpret.storage import (
    FRESH_INTEGER,
    NEVER,
    Array,
    CapacityError,
    ExtentError,
    PreparedRegion,
    Store,
    grid,
)
from septran.tile.interpret.unwritten import Unwritten
from septran.tile.nodes import Compute, Copy, For, Region, Role, TileProgram
from septran.tile.records import Placement
from septran.tile.substitution import FIRST
from septran.tile.verify.bijection import check_layout
from septran.tile.verify.places import spread

Scalars = Mapping[str, float | int]
Order = str | int | Schedule


class ArgumentError(TileError):
    """The arrays that a tile program was given do not fit its parameters."""

    code = "SEP430"


def interpret(
    program: TileProgram,
    arrays: Mapping[str, Array] | Sequence[Array],
    *,
    order: Order = "early",
    scalars: Scalars | None = None,
) -> dict[str, Array]:
    """Run `program` and return its outputs by name; the arrays passed in are not changed.

    `arrays` is by name, or in order: all parameters, or all that are not outputs. Outputs that are
    not given begin poisoned. `order` is ``early``, ``late``, a seed for random landing, or a
    `Schedule`. Raises TileError, ArgumentError for arrays or scalars that do not fit, and
    WrongArgumentError for arguments of a wrong kind.
    """
    require("program", program, TileProgram, "pass stages.tile_program, or a step of septran.place")
    schedule = Schedule.of(order)
    given = _by_name(program, arrays)
    effects = _Numbers(program, _scalars(program, scalars))
    sizes = _sizes(program, given)
    stores = {name: _argument(program, name, given.get(name), sizes) for name in program.params}
    # Stores are row-major whatever the layouts say, so a layout that is no bijection would not show
    # in the numbers.
    for buffer in program.buffers:
        check_layout(buffer)
    with np.errstate(all="ignore"):
        indices = tables({name: store.array()[0] for name, store in stores.items()})
        Execution(program, effects, schedule).run(_World(stores), indices | sizes)
    return {name: stores[name].array()[0] for name in program.outputs}


def _by_name(
    program: TileProgram, arrays: Mapping[str, Array] | Sequence[Array]
) -> dict[str, Array]:
    if isinstance(arrays, Mapping):
        unknown = sorted(set(arrays) - set(program.params))
        if unknown:
            raise ArgumentError(
                f"{program.name} has no parameter {unknown[0]!r}",
                hint=f"parameters: {', '.join(program.params)}",
            )
        return dict(arrays)
    arrays = as_tuple("arrays", arrays, "[a, b]")
    inputs = tuple(n for n in program.params if n not in program.outputs)
    names = program.params if len(arrays) == len(program.params) else inputs
    if len(arrays) != len(names):
        raise ArgumentError(
            f"{program.name} takes {len(inputs)} inputs ({', '.join(inputs)}) or all "
            f"{len(program.params)} parameters, not {len(arrays)} arrays"
        )
    return dict(zip(names, arrays, strict=True))


def _scalars(program: TileProgram, scalars: Scalars | None) -> dict[str, float | int]:
    """Return values of all scalars, by default or given; raises ArgumentError."""
    values = {s.name: s.default for s in program.scalars if s.default is not None}
    values |= as_mapping("scalars", scalars, "{'eps': 1e-6}")
    names = [s.name for s in program.scalars]
    for name in (*values, *names):
        if name not in names:
            hint = nearest(name, names)
            raise ArgumentError(f"{program.name} has no scalar {name!r}", hint=hint)
        if name not in values:
            hint = f"pass scalars={{{name!r}: ...}}"
            raise ArgumentError(f"{program.name} needs the scalar {name}", hint=hint)
        if not isinstance(values[name], int | float | np.number | np.bool_):
            raise ArgumentError(f"scalar {name} is {short_repr(values[name])}, not a number")
    return values


def _sizes(program: TileProgram, arrays: Mapping[str, Any]) -> dict[Var, int]:
    """The extents that are known now, from the arrays that have one as it is; ArgumentError."""
    found: dict[Var, int] = {}
    for name in program.params:
        shape = getattr(arrays.get(name), "shape", ())
        for extent, axis_length in zip(program.buffer(name).exists, shape, strict=False):
            for size in extent.sizes():
                if extent == Index(((size, 1),)):
                    found.setdefault(size.table, int(axis_length))
    for size in program.sizes():
        length = found.get(size.table)
        if length is None or not size.least <= length <= size.most:
            raise ArgumentError(
                f"{size} of {program.name} is {length}, not one of {size.least} to {size.most}",
                hint=f"pass an array with the axis {size}",
            )
    return found


def _argument(
    program: TileProgram, name: str, array: Array | None, sizes: Mapping[Var, int]
) -> Store:
    buffer = program.buffer(name)
    if buffer.exists:
        shape = tuple(extent.evaluate(sizes) for extent in buffer.exists)
        buffer = replace(buffer, shape=shape, exists=())
    store = Store.of(buffer)
    if array is None:
        if name not in program.outputs:
            raise ArgumentError(f"{program.name} needs {name}")
        store.poison()
        return store
    if not isinstance(array, np.ndarray):
        hint = "pass a NumPy array, such as x.numpy() of a torch tensor on the CPU"
        raise ArgumentError(f"{name} is {short_repr(array)}, not a NumPy array", hint=hint)
    wanted = (buffer.shape, numpy_dtype(buffer.dtype))
    if (array.shape, array.dtype) != wanted:
        raise ArgumentError(
            f"{name} is {array.dtype}{list(array.shape)}, not {buffer.dtype}{list(buffer.shape)}"
        )
    store.array()[0] = array
    return store


@dataclass(frozen=True)
class _World:
    """The storage of buffers as one unit sees it."""

    stores: Mapping[str, Store]
    arenas: Mapping[str, Array] = field(default_factory=dict)
    """The bytes of each planned memory."""


class _Numbers:
    """The effects that move numbers."""

    def __init__(self, program: TileProgram, scalars: Scalars) -> None:
        self.program, self.scalars = program, scalars
        self.plan: dict[str, Placement] = {p.buffer: p for p in program.plan}
        self.room = _room(program)
        self.buffers = {b.name: b for b in program.buffers}
        self.accesses: dict[int, PreparedRegion] = {}
        self.unwritten = Unwritten()
        self.indices = frozenset(indirect(program.body))

    def enter(self, block: Block, frame: ThreadState) -> ThreadState:
        world: _World = frame.memory
        arenas = dict(world.arenas)
        stores = dict(world.stores)
        for name in block.buffers:
            place = self.plan.get(name)
            room = None
            if place is not None:
                if place.memory not in arenas:
                    arenas[place.memory] = np.empty(self.room[place.memory], np.uint8)
                end = place.offset_bytes + place.size_bytes
                # Buffers that share planned bytes share them here, too: a plan that lets two live
                # ones overlap gives wrong numbers.
                room = arenas[place.memory][place.offset_bytes : end]
            stores[name] = Store.of(self.buffers[name], room)
            if name in self.indices:
                frame.values[table_of(name)] = stores[name].array()[0]
        return replace(frame, memory=_World(stores, arenas))

    def born(self, buffers: tuple[str, ...], frame: ThreadState) -> None:
        for name in buffers:
            frame.memory.stores[name].poison()

    def unit(self, node: For | Role, frame: ThreadState) -> ThreadState:
        """Return a frame in which the unit has its own of each memory that it does not share.

        Roles of one unit share the memories of that unit.
        """
        if node.processor is None or not frame.memory.arenas:
            return frame
        machine = self.program.machine
        depth = machine.depth(node.processor) + isinstance(node, Role)
        shared = {
            name: arena
            for name, arena in frame.memory.arenas.items()
            if machine.depth(machine.memory(name).visible_to) < depth
        }
        return replace(frame, memory=_World(frame.memory.stores, shared))

    def trips(self, node: For, extent: int, frame: ThreadState) -> Iterable[int]:
        return range(extent)

    def absorb(self, node: For, frame: ThreadState) -> bool:
        return False

    def _access(self, region: Region, node: Copy | Compute) -> PreparedRegion:
        # By identity, as the hash of a region is deep; the test is for an id that is used again.
        found = self.accesses.get(id(region))
        if found is None or found.region is not region:
            found = self.accesses[id(region)] = PreparedRegion(region, node.origin)
        return found

    def _read(self, region: Region, node: Copy | Compute, frame: ThreadState) -> Array:
        store = frame.memory.stores[region.buffer]
        return self._access(region, node).read(store, frame.values)

    def copy(self, node: Copy, frame: ThreadState) -> None:
        self._deliver(node, frame, self._read(node.source, node, frame))

    def _deliver(self, node: Copy, frame: ThreadState, data: Array) -> None:
        access = self._access(node.target, node)
        store = frame.memory.stores[node.target.buffer]
        extents = access.extents(frame.values)
        if len(extents) != data.ndim or any(map(int.__gt__, data.shape, extents)):
            raise located(
                ExtentError,
                f"{node.target} of {extents} cannot take {node.source} of {data.shape}",
                node.origin,
            )
        if node.zero_fill:
            self._nominal(node).write(store, frame.values, np.zeros((), store.dtype))
        # What the source does not have is undefined in the target; poison shows it to who uses it.
        elif data.shape != extents:
            poison = np.full(extents, _undefined(store), store.dtype)
            access.write(store, frame.values, poison)
        access.write(store, frame.values, data, clip=True)
        self._mark_copy(node, frame, access, data)

    def _mark_copy(
        self, node: Copy, frame: ThreadState, access: PreparedRegion, data: Array
    ) -> None:
        """Mark a copy's target as written, except for elements that its source did not have."""
        target = frame.memory.stores[node.target.buffer]
        moved = self._marks(node.source, node, frame)
        param = node.target.buffer in self.program.params
        if param:
            missing = self._missing(node.source, node, frame)
            self.unwritten.require_none(node, node.target, missing)
        undefined = not node.zero_fill and access.extents(frame.values) != data.shape
        # A caller's tensor needs marks only as long as it has elements that nobody has written.
        if target.marks is None and (param or (moved is None and not undefined)):
            return
        written = target.marked()
        if node.zero_fill:
            self._nominal(node).write(written, frame.values, np.zeros((), np.int32))
        elif undefined:
            access.write(written, frame.values, np.full((), NEVER, np.int32))
        marks = np.zeros(data.shape, np.int32) if moved is None else moved
        access.write(written, frame.values, marks, clip=True)
        self._forget(target)

    def _forget(self, store: Store) -> None:
        """Drop the marks of a buffer that is written as a whole."""
        if store.marks is not None and not store.marks.array().any():
            store.marks = None

    def _missing(self, region: Region, node: Copy | Compute, frame: ThreadState) -> Array | None:
        """Return the marks of the elements a node reads, numbered where nobody has written."""
        found = self._marks(region, node, frame)
        if found is None:
            return None
        buffer = self.buffers[region.buffer]
        return self.unwritten.seen(found, buffer, region, node, frame.values)

    def _marks(self, region: Region, node: Copy | Compute, frame: ThreadState) -> Array | None:
        """Return the marks of a region; None where all of it is written."""
        marks = frame.memory.stores[region.buffer].marks
        if marks is None:
            return None
        found = self._access(region, node).read(marks, frame.values)
        return found if found.any() else None

    def _nominal(self, node: Copy) -> PreparedRegion:
        """Return all of a target, including elements that its source does not have."""
        full = View.whole("", node.target.shape).valid
        return PreparedRegion(replace(node.target, valid=full), node.origin)

    def issue(self, node: Copy, frame: ThreadState, land_now: bool) -> Flight:
        # The copy may land after the loops have gone on, so it keeps the indices of its issue.
        frozen = replace(frame, values=dict(frame.values))
        if not land_now:  # bounds are checked, and the target is undefined from now on
            store = frame.memory.stores[node.target.buffer]
            self._read(node.source, node, frame)
            access = self._access(node.target, node)
            extents = access.extents(frame.values)
            access.write(store, frame.values, np.full(extents, _undefined(store), store.dtype))
            if store.marks is not None:  # somebody writes it, if too late for whoever reads now
                access.write(store.marks, frame.values, np.zeros((), np.int32))
        return Flight(node, lambda: self.copy(node, frozen))

    def compute(self, node: Compute, frame: ThreadState) -> None:
        target = node.operands[0]
        store = frame.memory.stores[target.buffer]
        value = self._map(node, frame) if node.expression is not None else self._call(node, frame)
        # Before the write, as the target may be an operand, too.
        missing = self._missing_of(node, frame)
        self._access(target, node).write(store, frame.values, convert(value, store.dtype))
        param = target.buffer in self.program.params
        if param:
            self.unwritten.require_none(node, target, missing)
        if store.marks is None and (param or missing is None):
            return
        marks = np.zeros((), np.int32) if missing is None else missing
        self._access(target, node).write(store.marked(), frame.values, marks)
        self._forget(store)

    def _missing_of(self, node: Compute, frame: ThreadState) -> Array | None:
        """Return the elements of a result that depend on one that nobody has written."""
        if node.expression is not None:
            return missing_of(
                node.expression,
                lambda view: self._missing(_region(view), node, frame),
                lambda condition: self._value(condition, node, frame),
            )
        if node.primitive == "fill":
            return None
        found = [self._missing(region, node, frame) for region in node.operands]
        if node.meaning is not None:  # which elements it reads is the function's own affair
            worst = [marks.max() for marks in found[not node.accumulates :] if marks is not None]
            return np.asarray(max(worst), np.int32) if worst else None
        # An element of a scan follows from all before it, so its mark is the running maximum of
        # theirs. An exclusive scan begins with the least integer, which is clipped to no mark.
        if node.primitive == "scan" and found[1] is not None:
            attributes: dict[str, Any] = {**dict(node.attributes), "function": "max"}
            return scanned(found[1], **attributes).clip(0)
        if node.primitive != "gemm":
            return found[1]
        c, a, b = found
        first = dict(node.attributes).get(FIRST)
        if first is not None and (first == "" or frame.values[Var(str(first))] == 0):
            c = None
        # A sum depends on a whole row of A and a whole column of B.
        rows = None if a is None else a.max(axis=-1, keepdims=True)
        columns = None if b is None else b.max(axis=-2, keepdims=True)
        return joined(c, joined(rows, columns))

    def _map(self, node: Compute, frame: ThreadState) -> Array:
        assert node.expression is not None
        return self._value(node.expression, node, frame)

    def _value(self, expression: Expr, node: Compute, frame: ThreadState) -> Array:
        def read(view: View) -> Array:
            return self._read(_region(view), node, frame)

        def position(view: View, along: int) -> Array:
            return _position(view, along, frame.values)

        return np.asarray(evaluate(expression, read, frame.values, self.scalars, position))

    def _call(self, node: Compute, frame: ThreadState) -> Array:
        operands = [self._read(region, node, frame) for region in node.operands]
        if node.meaning is not None:
            return self._leaf(node.meaning, operands, frame)
        attributes: dict[str, Any] = dict(node.attributes)
        first = attributes.pop(FIRST, None)
        if first is not None and (first == "" or frame.values[Var(first)] == 0):
            operands[0] = np.zeros_like(operands[0])
        try:
            return PRIMITIVES[node.primitive].reference(*operands, **attributes)
        except ValueError as error:
            shapes = ", ".join(
                f"{r} of {o.shape}" for r, o in zip(node.operands, operands, strict=True)
            )
            message = f"{node.primitive} cannot take {shapes}"
            raise located(ExtentError, message, node.origin) from error

    def _leaf(self, task: TaskNode, operands: Sequence[Array], frame: ThreadState) -> Array:
        """Return what a leaf means that a function of the user's computes."""
        names = [param.name for param in ordered(task)]
        arrays = {n: np.array(array) for n, array in zip(names, operands, strict=True)}
        run_leaf(task, arrays, frame.values, self.scalars)
        return arrays[names[0]]

    def hand_over(self, kind: str, fill: Fill, frame: ThreadState) -> None:
        """Do nothing: wrong numbers show when an order was broken."""

    def fork(self, parent: Thread, children: list[Thread]) -> None:
        """See `hand_over`."""

    def join(self, parent: Thread, children: list[Thread]) -> None:
        """See `hand_over`."""

    def meet(self, threads: list[Thread]) -> None:
        """See `hand_over`."""


def _region(view: View) -> Region:
    assert isinstance(view, Region)
    return view


def _undefined(store: Store) -> Any:
    if is_float(store.buffer.dtype):
        return np.nan
    return np.frombuffer(bytes([FRESH_INTEGER]) * store.dtype.itemsize, store.dtype)[0]


def _position(view: View, along: int, values: Mapping[Var, int]) -> Array:
    """Return where in the home tensor each element along one axis of a view lies."""
    extents = [1] * view.rank
    extents[along] = max(0, view.valid[along].evaluate(values))
    for entry in view.index:
        if axis(along) in entry.variables():
            return grid(entry, tuple(extents), values).reshape(-1)
    return np.zeros(extents[along], np.int64)


def _room(program: TileProgram) -> dict[str, int]:
    """Return the bytes that the plan uses of each memory; raises CapacityError if it has fewer."""
    room: dict[str, int] = {}
    for place in program.plan:
        end = place.offset_bytes + place.size_bytes
        room[place.memory] = max(room.get(place.memory, 0), end)
    for name, used in room.items():
        memory = program.machine.memory(name)
        if memory.capacity_bytes is None or memory.cached:
            continue
        limit = memory.capacity_bytes * spread(program, memory)
        if used > limit:
            raise CapacityError(f"the plan uses {used:,} bytes of {name}, which has {limit:,}")
    return room
