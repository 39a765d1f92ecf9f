"""From one fragment to another through shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from septran.dtypes import itemsize
from septran.ir.index import Index, axis
from septran.ir.views import View
from septran.targets.cuda.addresses import Access
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.fragment.registers import RegisterLoop, exists, primary, register_digits
from septran.targets.lower.writer import Expr, both
from septran.tile.layouts import ROW


def stage(context: Context, held: Iterable[Storage], keep: bool = False) -> dict[str, Storage]:
    """Put fragments into the role's scratch memory, row by row, for all its threads to read."""
    if not keep:
        begin(context)
    staged: dict[str, Storage] = {}
    for storage in held:
        staged[storage.name] = _write(context, storage)
        context.remark(
            "decision", storage.name,
            f"{storage.name} goes through shared memory: it is needed in other threads "
            "than those that hold it",
        )  # fmt: skip
    finish(context)
    return staged


def begin(context: Context) -> None:
    """Wait until nobody reads the scratch memory any more."""
    assert context.scratch is not None
    # Clean where a barrier came since: all threads have read what was there.
    if context.scratch.dirty:
        context.sync()
    context.scratch.used = 0


def finish(context: Context) -> None:
    """Let all threads see what was put into the scratch memory."""
    assert context.scratch is not None
    context.sync()
    # Threads read it from here on: who writes there next has to meet them first (`begin`).
    context.scratch.dirty = True


def scratch(context: Context, name: str, shape: tuple[int, ...], dtype: str) -> Storage:
    """Room for an array in the role's scratch memory."""
    held = context.scratch
    assert held is not None
    size = itemsize(dtype)
    # `base` counts chunks of 16 bytes, so that one symbol serves every element type.
    offset = Index.of(held.base) * (16 // size) + held.used // size
    held.used += -(-math.prod(shape) * size // 16) * 16
    held.size = max(held.size, held.used)
    return Storage(name, "SHARED", shape, dtype, ROW, context.shared_view(dtype), offset)


def _write(context: Context, storage: Storage) -> Storage:
    fragment = storage.fragment
    assert fragment is not None
    target = scratch(context, storage.name, storage.shape, storage.dtype)
    view = View.whole(storage.name, storage.shape)
    access, walk = Access(context, target, view), RegisterLoop(context, fragment)
    places = tuple(range(fragment.rank))
    with context.writer.when(primary(context, fragment)), walk.over(register_digits(fragment)):
        at = walk.coordinates
        inside = exists(context, at, view.valid, range(fragment.rank))
        with context.writer.when(both(inside)):
            number = context.lower(walk.register(storage, view, places))
            value = context.writer.load(storage.flat, number)
            context.writer.store(target.flat, access.lower(at), value)
    return target


def fetch(context: Context, source: Storage, target: Storage, region: View) -> None:
    """Take what was put into scratch memory, a region's elements, into a fragment."""
    fragment = target.fragment
    assert fragment is not None
    view = View.whole(source.name, source.shape, region.valid)
    access, walk = Access(context, source, view), RegisterLoop(context, fragment)
    whole = View.whole(target.name, target.shape)
    places = tuple(range(fragment.rank))
    with walk.over(register_digits(fragment)):
        at, inside = _inverse(context, region, walk.coordinates)
        with context.writer.when(inside):
            value = context.writer.load(source.flat, access.lower(at))
            number = context.lower(walk.register(target, whole, places))
            context.writer.store(target.flat, number, value)


def _inverse(
    context: Context, region: View, coordinates: Sequence[Index]
) -> tuple[tuple[Index, ...], Expr | None]:
    """The region's own coordinates of a buffer's element, and whether it is in the region."""
    at = [Index()] * region.rank
    conditions: list[Expr | None] = []
    for entry, coordinate in zip(region.index, coordinates, strict=True):
        axes = [n for n in range(region.rank) if axis(n) in entry.variables()]
        if not axes:
            same = context.lower(coordinate) == context.lower(entry)
            conditions.append(same)
            continue
        # `invertible` has refused entries of several axes.
        (number,) = axes
        offset = entry - axis(number)
        at[number] = context.indices.simplify(coordinate - offset)
        conditions.append(context.indices.inside(at[number], region.shape[number]))
        conditions.append(context.indices.below(at[number], region.valid[number]))
    return tuple(at), both(*conditions)


def invertible(region: View) -> bool:
    """Whether each axis of a region goes along one axis of its buffer, from somewhere on."""
    for entry in region.index:
        axes = [n for n in range(region.rank) if axis(n) in entry.variables()]
        if len(axes) > 1:
            return False
        if axes and any(axis(axes[0]) in a.variables() for a in (entry - axis(axes[0]),)):
            return False
    return True
