"""Copies: `T.copy` of boxes, and a loop over elements for what a tensor or an index scatters."""

from __future__ import annotations

from septran.ir import expressions as ex
from septran.ir.index import Index, axis, minimum
from septran.targets.tilelang.context import TileLangContext
from septran.targets.tilelang.expressions import TileLangElements
from septran.tile.nodes import Copy, Origin, Region


def emit_copy(context: TileLangContext, node: Copy) -> None:
    """Write a copy; what does not exist in its source becomes zeros."""
    move(context, node.target, node.source, node.origin)


def move(context: TileLangContext, target: Region, source: Region, origin: Origin) -> None:
    """Write the elements of a region to another one, converted to its type."""
    boxes = [_box(context, region) for region in (source, target)]
    if None not in boxes and _alike(target, source):
        whole = [context.is_all(region) for region in (source, target)]
        texts = [
            (_corner(context, region) if other else None) or box
            for region, box, other in zip((source, target), boxes, reversed(whole), strict=True)
        ]
        context.writer.line(f"T.copy({texts[0]}, {texts[1]})")
        return
    value = ex.Load(source, context.buffer(source.buffer).dtype)
    TileLangElements(context, origin).store(target, value)


def _alike(target: Region, source: Region) -> bool:
    """Whether both have their axes in one order."""
    if target.is_plain and source.is_plain:
        return True
    return target.rank == source.rank and _order(target) == _order(source)


def _order(region: Region) -> tuple[int, ...]:
    """The axes of a region that are no single place, as its buffer has them."""
    return tuple(
        k for e in region.index for k in range(region.rank)
        if axis(k) in e.variables()
    )  # fmt: skip


def _box(context: TileLangContext, region: Region) -> str | None:
    """A region as a part of its buffer; None where it is no box, or ends before the tensor does.

    Beyond a tensor's end TileLang reads zeros and writes nothing.
    """
    buffer = context.buffer(region.buffer)
    if region.padded:
        return None
    parts, used = [], set()
    for entry, extent in zip(region.index, buffer.shape, strict=True):
        own = [k for k in range(region.rank) if axis(k) in entry.variables()]
        if not own:
            parts.append(context.indices.text(entry))
            continue
        start = entry.without(axis(own[0]))
        if len(own) > 1 or own[0] in used or entry.coefficient(axis(own[0])) != 1:
            return None
        used.add(own[0])
        if axis(own[0]) in start.variables() or any(e for e in start.elements()):
            return None
        size = region.shape[own[0]]
        exists = context.indices.simple(region.valid[own[0]])
        if not context.is_tile(region):
            ends = context.indices.simple(minimum(size, Index.of(extent) - start))
            if exists not in (Index.of(size), ends):
                return None
        parts.append(_slice(context, start, size, extent))
    if any(n > 1 and k not in used for k, n in enumerate(region.shape)):
        return None
    name = context.names[region.buffer]
    return name if all(p == ":" for p in parts) else f"{name}[{', '.join(parts)}]"


def _corner(context: TileLangContext, region: Region) -> str | None:
    """The first element of a box that has the extents of the other side, along its last axes.

    None where it is all of its buffer, or has other axes than the last ones.
    """
    axes = [[k for k in range(region.rank) if axis(k) in e.variables()] for e in region.index]
    lead = len(axes) - region.rank
    if context.is_all(region) or axes != [[]] * lead + [[k] for k in range(region.rank)]:
        return None
    starts = ", ".join(context.indices.text(s) for s in region.origin())
    return f"{context.names[region.buffer]}[{starts}]"


def _slice(context: TileLangContext, start: Index, size: int, extent: int) -> str:
    if start == Index() and size == extent:
        return ":"
    return f"{context.indices.text(start)} : {context.indices.text(start + size)}"
