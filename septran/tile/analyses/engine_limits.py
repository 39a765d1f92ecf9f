"""Limits of asynchronous engines: copies of boxes of a tensor, contiguous chunks, or any bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from septran.dtypes import itemsize
from septran.ir.bounds import alternatives, least
from septran.ir.index import Index, Range, Var, axis, product
from septran.machine.model import Engine
from septran.tile.analyses.loops import affine
from septran.tile.layouts import ROW
from septran.tile.nodes import Buffer, Copy, Region, TileProgram

BOX, CHUNKS = "mbarrier", "group"
"""The values of `Engine.completes_by` of engines that move boxes, and of those that move chunks."""
LONGEST = 256
"""Elements of a box along one axis (CUDA driver API, cuTensorMapEncodeTiled)."""
MOST_AXES = 5
"""The greatest rank of a box (CUDA driver API, cuTensorMapEncodeTiled)."""


def refusal(program: TileProgram, copy: Copy, engine: Engine) -> str | None:
    """Why an engine cannot carry out a copy; None where it can, or nothing is known of it."""
    if engine.completes_by == BOX:
        whole = box(program, copy, engine)
        return whole if isinstance(whole, str) else None
    if engine.completes_by == CHUNKS:
        size = chunk_bytes(program, copy, engine)
        return size if isinstance(size, str) and not gathers(program, copy, engine) else None
    return None


def gathers(program: TileProgram, copy: Copy, engine: Engine) -> bool:
    """Return whether an engine can gather elements from anywhere into the rows of the tile."""
    far, near = outer(program, copy)
    tensor, tile = program.buffer(far.buffer), program.buffer(near.buffer)
    same = tensor.dtype == tile.dtype and tensor.layout == ROW
    return engine.transposes and same and near_axis(near) is not None


def near_axis(near: Region) -> int | None:
    """Return the region's axis that runs along the rows of its tile, alone and from their start."""
    for number in range(near.rank):
        mine = axis(number)
        rest = near.index[-1] - mine
        if rest == Index() and not any(mine in e.variables() for e in near.index[:-1]):
            return number
    return None


def long_rows(program: TileProgram, copy: Copy, engine: Engine) -> str | None:
    """Why an engine's boxes are shorter than a tile's rows; None where they are not.

    To be asked once layouts are known: rows in panels are as long as a panel is wide.
    """
    whole = box(program, copy, engine) if engine.completes_by == BOX else ""
    if not isinstance(whole, Box) or not whole.views or whole.views[0] is None:
        return None
    far, near = outer(program, copy)
    tile = program.buffer(near.buffer)
    one_row = math.prod(tile.shape[:-1]) == 1
    if tile.layout.kind == "swizzle" or one_row or far.shape[whole.views[0]] <= LONGEST:
        return None
    return f"rows of {tile.name} are longer than a box of {LONGEST} elements"


def unfilled(
    program: TileProgram,
    copy: Copy,
    engine: Engine,
    known: Mapping[Var, Range],
    tops: Mapping[Var, Index],
) -> str | None:
    """Return why an engine would copy elements that a copy leaves out; None where it would not.

    A box is cut off only at the end of its tensor: other elements that the tile leaves out are
    copied along with it, into a tile that needs zeros there, or over those of the tensor.
    """
    far = outer(program, copy)[0]
    matters = copy.zero_fill or far is copy.target
    found = box(program, copy, engine) if engine.completes_by == BOX and matters else ""
    if not isinstance(found, Box):
        return None
    tensor = program.buffer(far.buffer)
    so = "what follows is not zero" if copy.zero_fill else "what follows is to stay"
    for at, start, view in zip(found.axes, found.starts, found.views, strict=True):
        if view is None:
            continue
        whole, left = Index.of(far.shape[view]), tensor.extents[at] - start
        # The zeros are right where the tile is full, and where it ends with its tensor.
        for some in alternatives(far.valid[view]):
            ends = (least(some - end, known, tops) >= 0 for end in (whole, left))
            if not any(ends):
                return f"{far} ends before {tensor.name} does, and {so}"
    return None


@dataclass(frozen=True)
class Box:
    """A copy as one box: an entry for each axis of a tensor that has more than one element."""

    axes: tuple[int, ...]
    """The axes of the outer buffer, the last (contiguous) one first."""
    starts: tuple[Index, ...]
    """The coordinate of the box along each axis."""
    views: tuple[int | None, ...]
    """The copy's own axis that runs along each axis; None where the box has one element."""


def outer(program: TileProgram, copy: Copy) -> tuple[Region, Region]:
    """Return the region in main memory, and the one nearer to the processor."""
    main = program.machine.main_memory.name
    if program.buffer(copy.source.buffer).memory == main:
        return copy.source, copy.target
    return copy.target, copy.source


def strides(buffer: Buffer) -> tuple[int, ...]:
    """Return bytes from one element to the next along each axis of a row-major buffer."""
    widths = [itemsize(buffer.dtype)]
    for extent in reversed(buffer.shape[1:]):
        widths.append(widths[-1] * extent)
    return tuple(reversed(widths))


def distances(buffer: Buffer) -> tuple[Index, ...]:
    """Return the same where a call may tell how long rows are."""
    widths = [Index.of(itemsize(buffer.dtype))]
    for extent in reversed(buffer.extents[1:]):
        widths.append(product(widths[-1], extent))
    return tuple(reversed(widths))


def box(program: TileProgram, copy: Copy, engine: Engine) -> Box | str:
    """Return the copy as a box of the tensor in main memory, or the reason why it is none."""
    far, near = outer(program, copy)
    tensor, tile = program.buffer(far.buffer), program.buffer(near.buffer)
    rows = affine(far)
    if rows is None or tensor.layout != ROW:
        return f"{far} is not a box of {tensor.name}"
    widths = distances(tensor)
    found: list[tuple[int, Index, int | None]] = []
    for at in reversed(range(len(tensor.shape))):
        start, factors = rows[at]
        walked = [(v, factor) for v, factor in factors if far.shape[v] > 1]
        if len(walked) > 1 or any(factor != 1 for _, factor in walked):
            return f"{far} does not walk along the axes of {tensor.name} one by one"
        # An axis of one element adds nothing to a box, unless it is the contiguous one.
        if tensor.shape[at] == 1 and not walked and found:
            continue
        # All strides but the contiguous one are part of the descriptor, which holds multiples of
        # 16 bytes only (CUDA driver API, cuTensorMapEncodeTiled, globalStrides).
        if found and widths[at] % engine.alignment != Index():
            width = widths[at]
            every = f"{width.constant:,}" if width.is_constant else str(width)
            return (
                f"rows of {tensor.name} begin every {every} bytes, not a multiple of "
                f"{engine.alignment}"
            )
        found.append((at, start, walked[0][0] if walked else None))
    views = [v for _, _, v in found if v is not None]
    if len(set(views)) < len(views) or len(found) > MOST_AXES:
        return f"{far} is not a box of {tensor.name} with at most {MOST_AXES} axes"
    axes, starts, walks = zip(*found, strict=True)
    return _fitting(Box(axes, starts, walks), far, near, tile, engine)


def _fitting(found: Box, far: Region, near: Region, tile: Buffer, engine: Engine) -> Box | str:
    """Return the box if its rows are those of the tile, else the reason why they are not."""
    row = tile.shape[-1] * itemsize(tile.dtype)
    last = found.views[0]
    contiguous = last is not None and near.index[-1] - axis(last) == Index()
    if not contiguous and not (last is None and tile.shape[-1] == 1):
        return f"what is contiguous in {far.buffer} is not in {tile.name}"
    if tile.layout == ROW and row % engine.alignment:
        return f"rows of {tile.name} are {row} bytes, not a multiple of {engine.alignment}"
    return found


def chunk_bytes(program: TileProgram, copy: Copy, engine: Engine) -> int | str:
    """The largest chunk, of 4, 8 or 16 bytes, that a copy is made of, or why there is none."""
    far, near = outer(program, copy)
    tensor, tile = program.buffer(far.buffer), program.buffer(near.buffer)
    width = itemsize(tensor.dtype)
    if tensor.dtype != tile.dtype or tensor.layout != ROW:
        return f"{tensor.name} and {tile.name} do not hold the same bytes"
    contiguous = _contiguous(far, near, tensor)
    # 16 bytes is the largest chunk of cp.async (PTX ISA, cp.async: cp-size 4, 8 or 16).
    limits = [16, width]
    if contiguous is not None:
        offsets = [c * width for _, c in contiguous.terms] + [contiguous.constant * width]
        limits = [16, *offsets, tile.shape[-1] * width]
    size = math.gcd(*limits)
    if size < engine.alignment or size < 4:
        return f"its contiguous bytes begin at multiples of {size}, not of {engine.alignment}"
    return size


def _contiguous(far: Region, near: Region, tensor: Buffer) -> Index | None:
    """Where in the tensor, in elements, a row of the tile begins; None if it is scattered."""
    number = near_axis(near) if far.index else None
    if number is None:
        return None
    mine = axis(number)
    steps = [width // itemsize(tensor.dtype) for width in distances(tensor)]
    flat = sum((product(e, step) for e, step in zip(far.index, steps, strict=True)), Index())
    if far.padded and any(mine in entry.variables() for entry in far.index[:-1]):
        return None
    start = flat.simplify({}) - mine
    return None if mine in start.variables() else start
