"""Check that a layout gives every element of a buffer a place of its own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from septran.dtypes import itemsize
from septran.errors import TileError
from septran.ir.index import Index, axis
from septran.tile.interpret.channel_state import located
from septran.tile.interpret.storage import Array, grid
from septran.tile.layouts import Layout
from septran.tile.nodes import Buffer, Origin


class LayoutError(TileError):
    """A layout does not fit its buffer, or not the instruction that reads it."""

    code = "SEP423"


def check_layout(buffer: Buffer) -> None:
    """Raise LayoutError unless each element of `buffer` has its own offset inside it.

    Layouts are periodic: a few blocks along each axis, with the same remainder, stand for all.
    """
    width = itemsize(buffer.dtype)
    problem = _problem(buffer.layout, _some(buffer.layout, buffer.shape, width), width)
    if problem:
        message = f"{buffer.name} as {buffer.layout}: {problem}"
        raise located(LayoutError, message, buffer.origin, **asked_for(buffer.origin, buffer))


def asked_for(origin: Origin | None, *buffers: Buffer) -> dict[str, Any]:
    """The mapping's entry that asks for a layout, and the line of its use (for `located`)."""
    entry = next((b.asked for b in buffers if b.asked is not None), None)
    if entry is None:
        return {}
    line = origin.logic if origin else None
    return {"where": entry, "notes": [("it is used here", line)] if line else ()}


def _some(layout: Layout, shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return a smaller shape whose axes have the same remainder by the layout's blocks."""
    block = max((2, *layout.parameters))
    if layout.kind == "swizzle":  # its parameter is in bytes, and its rows go by eights
        block = max(8, block // width)
    return tuple(min(extent, 2 * block + extent % block) for extent in shape)


@functools.lru_cache(1024)
def _problem(layout: Layout, shape: tuple[int, ...], width: int) -> str:
    if layout.kind == "row" or 0 in shape:
        return ""
    try:
        offsets = (
            _swizzled(layout, shape, width)
            if layout.kind == "swizzle"
            else _flat(layout, shape, width)
        )
        room = layout.elements(shape, width)
    except (IndexError, ValueError) as error:
        return f"does not fit a shape of {list(shape)} ({error})"
    if offsets.min() < 0 or offsets.max() >= room:
        return f"an element lies at {int(offsets.max())}, outside of its {room} elements"
    if np.unique(offsets).size != offsets.size:
        return "two elements have one place"
    return ""


def _flat(layout: Layout, shape: tuple[int, ...], width: int) -> Array:
    offset = layout.offset([Index.of(axis(n)) for n in range(len(shape))], shape, width)
    return grid(offset, shape, {})


def _swizzled(layout: Layout, shape: tuple[int, ...], width: int) -> Array:
    places: Any = np.indices(shape)  # of all elements at once
    return np.ravel(layout.swizzled_offset(places, shape, width))
