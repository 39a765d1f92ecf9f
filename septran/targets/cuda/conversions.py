"""From one fragment to another through shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable

from septran.dtypes import itemsize
from septran.targets.cuda.addresses import Access
from septran.targets.cuda.context import Context, Storage
from septran.targets.cuda.registers import Walk, exists, primary, register_digits
from septran.targets.cuda.statements import placed
from septran.targets.cuda.writer import both
from septran.task.expressions import Load
from septran.task.index import Index
from septran.task.views import View
from septran.tile.layouts import ROW


def stage(context: Context, held: Iterable[Storage]) -> dict[str, Storage]:
    """Put fragments into the role's scratch memory, row by row, for all its threads to read."""
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
    if context.scratch.dirty:
        context.sync()
    context.scratch.used = 0


def finish(context: Context) -> None:
    """Let all threads see what was put into the scratch memory."""
    assert context.scratch is not None
    context.sync()
    context.scratch.dirty = True


def scratch(context: Context, name: str, shape: tuple[int, ...], dtype: str) -> Storage:
    """Room for an array in the role's scratch memory."""
    held = context.scratch
    assert held is not None
    size = itemsize(dtype)
    offset = Index.of(held.base) * (16 // size) + held.used // size
    held.used += -(-math.prod(shape) * size // 16) * 16
    held.size = max(held.size, held.used)
    return Storage(name, "SHARED", shape, dtype, ROW, context.shared_view(dtype), offset)


def _write(context: Context, storage: Storage) -> Storage:
    fragment = storage.fragment
    assert fragment is not None
    target = scratch(context, storage.name, storage.shape, storage.dtype)
    view = View.whole(storage.name, storage.shape)
    access, walk = Access(context, target, view), Walk(context, fragment)
    places = placed(Load(view, storage.dtype), fragment.rank)
    with context.writer.when(primary(context, fragment)), walk.over(register_digits(fragment)):
        at = walk.coordinates
        inside = exists(context, at, view.valid, range(fragment.rank))
        with context.writer.when(both(inside)):
            number = context.lower(walk.register(storage, view, places))
            value = context.writer.load(storage.flat, number)
            context.writer.store(target.flat, access.lower(at), value)
    return target
