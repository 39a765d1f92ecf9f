"""Staging of the box of a tensor that a view reads, instead of the view's elements one by one.

The windows of a convolution name each element of an image many times. Where the mapping lays a
staged tensor out as `footprint`, its buffer holds the part of the tensor that the view reads once,
padding included; readers address it through the view's own index map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from septran.errors import TileError
from septran.ir.index import Index, Range, Var, axis, is_axis
from septran.tile.analyses.loops import ranges
from septran.tile.layouts import ROW
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Region,
    Remark,
    Role,
    TileProgram,
    nodes,
    rewrite,
    writes,
)
from septran.tile.substitution import change_regions

NAME = "stage_footprints"
KIND = "footprint"


class FootprintError(TileError):
    """The axes that a mapping gives a footprint are not those of its tensor."""

    code = "SEP404"


@dataclass(frozen=True)
class _Box:
    """A part of a tensor: its start and its extent along each axis."""

    starts: tuple[Index, ...]
    extents: tuple[int, ...]
    order: tuple[int, ...]
    """The tensor's axes, outermost first, as the buffer has them."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents[n] for n in self.order)


def stage_footprints(program: TileProgram) -> TileProgram:
    """Shrink each buffer that is laid out as a footprint to the box that its copy reads.

    Raises FootprintError where the layout's numbers are not the tensor's axes.
    """
    known = ranges(program.body)
    for buffer in program.buffers:
        if buffer.layout.kind == KIND:
            program = _staged(program, buffer, known)
    return program


def _staged(program: TileProgram, buffer: Buffer, known: Mapping[Var, Range]) -> TileProgram:
    copy, why = _only_copy(program, buffer.name)
    box = _box(program, buffer, copy.source) if copy else None
    if copy is None or box is None:
        why = why or "where the view lies is not the same box in every iteration"
        message = f"{buffer.name} is copied element by element: {why}"
        plain = replace(buffer, layout=ROW)
        remark = Remark("missed", buffer.name, message, passed=NAME)
        return _with_buffer(program, plain).remark(remark)
    window = copy.source
    into = _moves(program, copy, box, known)

    def change(node: Node) -> tuple[Node, ...]:
        if isinstance(node, For | Role):  # what is in it has been changed already
            return (node,)
        if node is copy:
            return into
        return (change_regions(node, lambda r: _through(r, buffer.name, window, box)),)

    program = _with_buffer(program, replace(buffer, shape=box.shape, layout=ROW))
    message = f"{buffer.name} holds what {window.buffer} has where the view lies, {box.shape}"
    remark = Remark("decision", buffer.name, message, None, copy.origin.mapping, NAME)
    return replace(program, body=rewrite(program.body, change)).remark(remark)


def _only_copy(program: TileProgram, name: str) -> tuple[Copy | None, str]:
    """Return the copy that fills a buffer, if nothing else writes it; else why there is none."""
    found = [n for n in nodes(program.body) if any(r.buffer == name for r in writes(n))]
    if len(found) == 1 and isinstance(found[0], Copy) and found[0].channel is None:
        copy = found[0]
        return (None, "the view ends raggedly") if copy.source.ragged else (copy, "")
    return None, "it is written, too"


def _box(program: TileProgram, buffer: Buffer, view: Region) -> _Box | None:
    """Return the box around a view's elements; None where loops move them against each other."""
    order = buffer.layout.parameters or tuple(range(len(view.index)))
    if sorted(order) != list(range(len(view.index))):
        raise FootprintError(
            f"{buffer.layout} of {buffer.name} does not order the {len(view.index)} axes "
            f"of {view.buffer}",
            buffer.origin.mapping if buffer.origin else None,
            hint="say footprint, or name each axis of the tensor once: footprint(0, 2, 3, 1)",
        )
    spans = {axis(n): (0, max(0, extent - 1)) for n, extent in enumerate(view.shape)}
    starts, extents = [], []
    for entry in view.index:
        # Loop indices shift the box as a whole, and only the view's own axes give it its extent; a
        # term of both would change the extent from one iteration to the next.
        inner = Index(tuple(t for t in entry.terms if any(map(is_axis, _names(t)))))
        if not inner.variables() <= spans.keys():
            return None
        low, high = inner.bounds(spans)
        starts.append(entry - inner + low)
        extents.append(high - low + 1)
    return _Box(tuple(starts), tuple(extents), order)


def _names(term: tuple[object, int]) -> frozenset[Var]:
    return Index((term,)).variables()  # type: ignore[arg-type]


def _through(region: Region, name: str, window: Region, box: _Box) -> Region:
    """Return a region of the unfolded buffer as one of the box."""
    if region.buffer != name:
        return region
    entries = window.compose(region).index
    index = tuple(entries[n] - box.starts[n] for n in box.order)
    # The box holds the zeros around the tensor, too, so no reader leaves it any more.
    return replace(region, index=index, padded=False)


def _moves(
    program: TileProgram, copy: Copy, box: _Box, known: Mapping[Var, Range]
) -> tuple[Node, ...]:
    """Return a copy of the box's part in the tensor, and zeros for the rest."""
    spans = _inside(program.buffer(copy.source.buffer).shape, box, known)
    index = tuple(start + axis(box.order.index(n)) for n, start in enumerate(box.starts))
    full = tuple(map(Index.of, box.shape))
    source = Region(copy.source.buffer, index, box.shape, full, spans is None)
    source = replace(source, stage=copy.source.stage)
    own = tuple(Index.of(axis(n)) for n in range(len(box.shape)))
    target = replace(copy.target, index=own, shape=box.shape, valid=full)
    if spans is None:
        return (replace(copy, target=target, source=source),)
    low, extents = tuple(s for s, _ in spans), tuple(e - s for s, e in spans)
    moved = replace(copy, target=target.block(low, extents), source=source.block(low, extents))
    return (*_borders(program, copy, target, spans), *([moved] if min(extents) > 0 else []))


def _inside(
    shape: Sequence[int], box: _Box, known: Mapping[Var, Range]
) -> list[tuple[int, int]] | None:
    """Return the part of each of the box's axes that lies in the tensor; None where that moves."""
    spans = []
    for n in box.order:
        start, extent = box.starts[n], box.extents[n]
        low, high = start.bounds(known)
        if low >= 0 and high + extent <= shape[n]:
            spans.append((0, extent))
        # The start is the same in every iteration, and so is the part inside of the tensor.
        elif low == high:
            first = min(extent, max(0, -low))
            spans.append((first, max(first, min(extent, shape[n] - low))))
        else:
            return None
    return spans


def _borders(
    program: TileProgram, copy: Copy, target: Region, spans: list[tuple[int, int]]
) -> list[Node]:
    """Return fills of the box outside of the tensor: before and after each axis in turn.

    Each axis is filled within what the axes before it leave, so no element is filled twice.
    """
    fill = next(i.name for i in program.machine.instructions if i.primitive in ("fill", "map"))
    origin = replace(copy.origin, rule=f"what lies outside of {copy.source.buffer} is zero")
    found: list[Node] = []
    offsets, extents = [0] * target.rank, list(target.shape)
    for n, (first, end) in enumerate(spans):
        for start, size in ((0, first), (end, target.shape[n] - end)):
            if size > 0 and min(extents) > 0:
                at = tuple(start if m == n else o for m, o in enumerate(offsets))
                part = target.block(at, tuple(size if m == n else e for m, e in enumerate(extents)))
                zero = (("value", 0),)
                found.append(Compute("fill", (part,), fill, copy.processor, origin, zero))
        offsets[n], extents[n] = first, end - first
    return found


def _with_buffer(program: TileProgram, changed: Buffer) -> TileProgram:
    buffers = tuple(changed if b.name == changed.name else b for b in program.buffers)
    return replace(program, buffers=buffers)
