"""TMA: copies of boxes between GLOBAL and SHARED, by tensor maps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.dtypes import itemsize
from septran.emulator.launch import TensorMap
from septran.ir.index import Index, axis
from septran.targets.cuda.context import Context
from septran.targets.cuda.shared import pointer
from septran.targets.cuda.sync.channels import leader, ring
from septran.targets.cuda.text.ptx import ptx
from septran.targets.cuda.unsupported import unsupported
from septran.targets.lower.indices import divisor
from septran.tile.analyses.engine_limits import LONGEST, Box, box, distances, outer, strides
from septran.tile.nodes import Buffer, Copy, Region

LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group"


@dataclass(frozen=True)
class TmaLayout:
    """The boxes of one tensor map into which a copy is cut."""

    map: TensorMap
    starts: tuple[Index, ...]
    """Coordinate of the first box along each of the map's axes."""
    boxes: tuple[tuple[tuple[int, ...], int], ...]
    """For each box, how far it is from the first along each axis, and its byte in the stage."""
    share: Share | None = None
    """How the boxes are dealt out to the blocks of a multicast; those are the first block's."""

    @property
    def bytes(self) -> int:
        """The bytes that the boxes of all blocks copy."""
        count = len(self.boxes) * (self.share.parts if self.share else 1)
        return count * math.prod(self.map.box) * itemsize(self.map.dtype)


@dataclass(frozen=True)
class Share:
    """The part of a multicast copy that each block of a cluster issues."""

    parts: int
    axis: int
    """Axis of the tensor map."""
    elements: int
    bytes: int


def plan(context: Context, copy: Copy) -> TmaLayout:
    """The boxes of a copy; raises UnsupportedByCudaError where it is not made of boxes."""
    program = context.program
    engine = program.machine.engine(copy.engine)
    found = box(program, copy, engine)
    if isinstance(found, str):
        raise unsupported(copy.origin, f"{copy.engine} cannot copy it: {found}")
    far, near = outer(program, copy)
    tensor, tile = program.buffer(far.buffer), program.buffer(near.buffer)
    order = _order(found, near)
    widths = strides(tensor)
    swizzle = tile.layout.parameters[0] if tile.layout.kind == "swizzle" else 0
    pieces = [_pieces(found, far, tile, n, swizzle) for n in order]
    dealt = _deal(pieces, copy.receivers, tile, swizzle)
    axes = [found.axes[n] for n in order]
    wanted = TensorMap(
        tensor.name,
        tensor.dtype,
        tuple(tensor.shape[a] for a in axes),
        tuple(widths[a] for a in axes[1:]),
        tuple(size for size, _ in pieces),
        swizzle,
        f"{tensor.name}_map",
        told=told(tensor, axes),
    )
    if len(axes) == 1:  # a map has at least rows
        row = tensor.shape[axes[0]] * itemsize(tensor.dtype)
        # The driver wants a multiple of 16, though of a single row no stride is ever used.
        wide = -(-row // 16) * 16
        shape = ((*wanted.extents, 1), (wide,), (*wanted.box, 1))
        long = tensor.extents[axes[0]]
        row_told = (("strides", 0, str(long * itemsize(tensor.dtype))),) if wanted.told else ()
        wanted = replace(
            wanted, extents=shape[0], strides=shape[1], box=shape[2],
            told=(*wanted.told, *row_told),
        )  # fmt: skip
        order, pieces = [*order, -1], [*pieces, (1, 1)]
    starts = tuple(found.starts[n] if n >= 0 else Index() for n in order)
    boxes = tuple(_boxes(copy, tile, near, pieces))
    if dealt is None:
        return TmaLayout(wanted, starts, boxes)
    size, count = pieces[dealt]
    elements = count // copy.receivers * size
    # The byte of the second block's first box is the distance from block to block.
    second = tuple(elements if n == dealt else 0 for n in range(len(pieces)))
    share = Share(copy.receivers, dealt, elements, dict(boxes)[second])
    return TmaLayout(wanted, starts, tuple(b for b in boxes if b[0][dealt] < elements), share)


def told(tensor: Buffer, axes: Sequence[int]) -> tuple[tuple[str, int, str], ...]:
    """The extents and strides of a map over some axes of a tensor that calls tell."""
    widths = distances(tensor)
    found = [("extents", n, tensor.extents[a]) for n, a in enumerate(axes)]
    found += [("strides", n, widths[a]) for n, a in enumerate(axes[1:])]
    return tuple((which, n, str(e)) for which, n, e in found if not e.is_constant)


def _deal(pieces: list[tuple[int, int]], parts: int, tile: Buffer, swizzle: int) -> int | None:
    """The axis along which boxes are dealt out; boxes are cut where there are too few of them."""
    if parts == 1:
        return None
    # Whole boxes where their number allows it: smaller boxes are more instructions.
    for number, (_, count) in enumerate(pieces):
        if count % parts == 0:
            return number
    # A part begins where a swizzle's pattern does, after eight rows, or at 128 bytes, as TMA asks.
    width = swizzle or tile.shape[-1] * itemsize(tile.dtype)
    pitch, unit = width, 8 * swizzle or 128
    for number, (size, _) in list(enumerate(pieces))[1:]:
        if size % parts == 0 and size // parts * pitch % unit == 0:
            pieces[number] = (size // parts, parts)
            return number
        pitch *= size * pieces[number][1]
    return None


def _order(found: Box, near: Region) -> list[int]:
    """The box's axes in the order of the tile's, the contiguous one first; single ones last."""
    place: dict[int, int] = {}
    for number, view in enumerate(found.views):
        if view is not None:
            at = next(n for n, e in enumerate(near.index) if e.coefficient(axis(view)) == 1)
            place[number] = len(near.index) - at
    first, rest = 0, [n for n in range(1, len(found.axes))]
    return [first, *sorted(rest, key=lambda n: place.get(n, len(near.index) + n))]


def _pieces(found: Box, far: Region, tile: Buffer, number: int, swizzle: int) -> tuple[int, int]:
    """Along one axis: elements of a box, and how many boxes."""
    view = found.views[number]
    extent = 1 if view is None else far.shape[view]
    if number == 0 and swizzle:
        width = swizzle // itemsize(tile.dtype)
        return width, -(-extent // width)
    # A divisor of the extent, as all boxes of one map have the same size.
    size = max(n for n in range(1, min(extent, LONGEST) + 1) if extent % n == 0)
    return size, extent // size


def _boxes(
    copy: Copy, tile: Buffer, near: Region, pieces: list[tuple[int, int]]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield where each box begins, in the tensor and in the tile."""
    width = itemsize(tile.dtype)
    steps: list[int] = []
    if tile.layout.kind == "swizzle":
        steps.append(tile.layout.panel_bytes(tile.shape))
        pitch = tile.layout.parameters[0]
    else:
        steps.append(pieces[0][0] * width)
        pitch = tile.shape[-1] * width
        if pieces[0][1] > 1 and math.prod(tile.shape[:-1]) > 1:
            message = f"rows of {tile.name} are longer than a box of {LONGEST} elements"
            raise unsupported(copy.origin, message, "lay it out as swizzle128, or copy it else")
    for size, count in pieces[1:]:
        steps.append(size * pitch)
        pitch *= size * count
    _check_whole(copy, near, tile, pieces)
    for at in _grid([count for _, count in pieces]):
        offsets = tuple(n * size for n, (size, _) in zip(at, pieces, strict=True))
        yield offsets, sum(n * step for n, step in zip(at, steps, strict=True))


def _check_whole(copy: Copy, near: Region, tile: Buffer, pieces: list[tuple[int, int]]) -> None:
    """Rows of a box follow each other, so the tile's inner axes must be taken whole."""
    walked = [size * count for size, count in pieces[1:] if size * count > 1]
    inner = [extent for extent in reversed(tile.shape[:-1])]
    if walked[:-1] != [e for e in inner if e > 1][: len(walked) - 1]:
        raise unsupported(copy.origin, f"{near} is a part of {tile.name} along an inner axis")


def _grid(counts: list[int]) -> Iterator[tuple[int, ...]]:
    if not counts:
        yield ()
        return
    for rest in _grid(counts[1:]):
        for n in range(counts[0]):
            yield (n, *rest)


def fill_bytes(context: Context, copy: Copy) -> int:
    """Bytes that a copy's boxes bring, with what they bring beyond the tensor's edges."""
    return plan(context, copy).bytes


def load(context: Context, copy: Copy) -> None:
    """GLOBAL -> SHARED; the stage's full barrier counts the bytes."""
    found = ring(context, copy.channel)
    work = plan(context, copy)
    variable = context.tensor_map(work.map)
    stage = context.indices.simplify(copy.target.stage)
    bar = found.full(context, stage)
    text, mask = LOAD.format(len(work.map.box)), []
    if copy.multicast:
        text, mask = f"{text}.multicast::cluster", [context.cluster.mask(context, copy.multicast)]
    with leader(context), context.writer.when(_issues(context, copy, work)):
        for coordinates, place in _issued(context, copy, copy.target, work):
            ptx(context, text, place, T.address_of(variable), *coordinates, bar, *mask)


def _issues(context: Context, copy: Copy, work: TmaLayout) -> Any:
    """Whether this block copies: where boxes cannot be dealt out, one block brings all of them."""
    if not copy.multicast or work.share:
        return None
    part = context.cluster.part(copy.multicast)
    return context.lower(part) == context.writer.index(0)


def store(context: Context, copy: Copy) -> None:
    """SHARED -> GLOBAL; waited for by counting bulk groups."""
    work = plan(context, copy)
    variable = context.tensor_map(work.map)
    with leader(context):
        for coordinates, place in _issued(context, copy, copy.source, work):
            text = STORE.format(len(work.map.box))
            ptx(context, text, T.address_of(variable), *coordinates, place)


def _issued(
    context: Context, copy: Copy, near: Region, work: TmaLayout
) -> Iterator[tuple[list[Any], Any]]:
    """Coordinates and shared address of each box."""
    start, starts = _start(context, copy, near), list(work.starts)
    if work.share:
        part = context.cluster.part(copy.multicast)
        starts[work.share.axis] = starts[work.share.axis] + part * work.share.elements
        start = start + part * work.share.bytes
    firsts = [context.variable("at", s) for s in starts]
    for offsets, byte in work.boxes:
        coordinates = [
            T.Cast("int32", context.lower(first + n))
            for first, n in zip(firsts, offsets, strict=True)
        ]
        yield coordinates, pointer(context, context.lower(start + byte))


def _start(context: Context, copy: Copy, near: Region) -> Index:
    """Byte of shared memory where the region begins."""
    storage = context.storages[near.buffer]
    size = itemsize(storage.dtype)
    origin = near.origin()
    row = Index()
    for entry, extent in zip(origin[:-1], storage.shape[:-1], strict=True):
        row = row * extent + entry
    swizzle = storage.layout.kind == "swizzle"
    pitch = storage.layout.parameters[0] if swizzle else storage.shape[-1] * size
    byte = row * pitch
    if swizzle:
        panel = origin[-1] * size
        byte = byte + panel // pitch * storage.layout.panel_bytes(storage.shape)
        # TMA permutes chunks by bits of the address in shared memory, whatever the box is.
        if divisor(panel) % pitch or divisor(row) % 8:
            raise unsupported(copy.origin, f"{near} begins inside of a swizzle's pattern")
    else:
        byte = byte + origin[-1] * size
        if divisor(byte) % 128:
            raise unsupported(copy.origin, f"{near} does not begin at a multiple of 128 bytes")
    return (near.stage * storage.stage_elements + storage.offset) * size + byte
