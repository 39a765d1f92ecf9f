"""The effects of copies on bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from septran.simulator.units.memory import Call, Views

Array = np.ndarray[Any, Any]
Action = Callable[[], object]
BYTE = np.dtype(np.uint8)


def _rows(views: Views, call: Call, name: str) -> Array:
    rows, width, stride = call.value("rows"), call.value("row_bytes"), call.value(f"{name}_stride")
    if rows == 1 or stride == width:
        # Rows without gaps are one run of bytes, which NumPy copies as one.
        return views.view(call.place(name), BYTE, (rows * width,), (1,))
    return views.view(call.place(name), BYTE, (rows, width), (stride, 1))


def _copy(views: Views, call: Call) -> Action | None:
    if call.value("rows") == 0 or call.value("row_bytes") == 0:
        return None
    target, source = _rows(views, call, "dst"), _rows(views, call, "src")
    # One side has gaps between its rows, the other has not.
    if target.ndim != source.ndim:
        shape = (call.value("rows"), call.value("row_bytes"))
        target, source = target.reshape(shape), source.reshape(shape)
    return partial(target.__setitem__, Ellipsis, source)


def _zero(views: Views, call: Call) -> Action | None:
    if call.value("rows") == 0 or call.value("row_bytes") == 0:
        return None
    return partial(_rows(views, call, "dst").__setitem__, Ellipsis, 0)


def blocks(views: Views, call: Call, name: str) -> Array:
    """Blocked bytes as (rows of blocks, blocks, rows of a block, columns, bytes)."""
    high, wide, item = call.value("block_rows"), call.value("block_cols"), call.value("item_bytes")
    shape = (-(-call.value("rows") // high), -(-call.value("cols") // wide), high, wide, item)
    strides = (call.value(f"{name}_stride"), high * wide * item, wide * item, item, 1)
    return views.view(call.place(name), BYTE, shape, strides)


def _plain(views: Views, call: Call, name: str) -> Array:
    item = call.value("item_bytes")
    shape = (call.value("rows"), call.value("cols"), item)
    return views.view(call.place(name), BYTE, shape, (call.value(f"{name}_stride"), item, 1))


def _block(views: Views, call: Call) -> Action | None:
    target, source = blocks(views, call, "dst"), _plain(views, call, "src")
    if source.size == 0:
        return None
    down, across, high, wide, item = target.shape
    rows, columns = source.shape[:2]

    def action() -> None:
        # The rest of a block that the matrix does not fill is zeroed, as the machine's header says.
        padded = np.zeros((down * high, across * wide, item), np.uint8)
        padded[:rows, :columns] = source
        target[...] = padded.reshape(down, high, across, wide, item).transpose(0, 2, 1, 3, 4)

    return action


def _unblock(views: Views, call: Call) -> Action | None:
    target, source = _plain(views, call, "dst"), blocks(views, call, "src")
    if target.size == 0:
        return None
    down, across, high, wide, item = source.shape
    rows, columns = target.shape[:2]

    def action() -> None:
        plain = source.transpose(0, 2, 1, 3, 4).reshape(down * high, across * wide, item)
        target[...] = plain[:rows, :columns]

    return action


BUILDERS: Mapping[str, Callable[[Views, Call], Action | None]] = {
    "dma_copy": _copy,
    "dma_zero": _zero,
    "dma_block": _block,
    "dma_unblock": _unblock,
}
"""Command to the function that makes its action."""
