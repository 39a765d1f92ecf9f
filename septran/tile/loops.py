"""What loops and regions imply: ranges of indices, trip counts, overlap of regions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from septran.task import expressions as ex
from septran.task.index import Index, Range, Var, axis
from septran.tile.nodes import Compute, Copy, For, Node, Region, Role, regions


def ranges(body: tuple[Node, ...], outer: Mapping[Var, Range] | None = None) -> dict[Var, Range]:
    """The inclusive range of every loop index in `body`; empty loops count as one trip."""
    known = dict(outer or {})
    for node in body:
        if isinstance(node, For):
            top = node.extent.bounds(known)[1]
            known[node.variable] = (0, max(0, top - 1))
        if isinstance(node, For | Role):
            known = ranges(node.body, known)
    return known


def walk(
    body: tuple[Node, ...], loops: tuple[For, ...] = ()
) -> Iterator[tuple[Node, tuple[For, ...]]]:
    """Every node with the loops around it, outermost first."""
    for node in body:
        yield node, loops
        if isinstance(node, For):
            yield from walk(node.body, (*loops, node))
        elif isinstance(node, Role):
            yield from walk(node.body, loops)


def trips(loops: Iterable[For], outer: Mapping[Var, Range] | None = None) -> int:
    """How often a body under `loops` runs, each extent at its greatest.

    `outer` bounds the indices of loops around them.
    """
    known = dict(outer or {})
    count = 1
    for loop in loops:
        top = max(0, loop.extent.bounds(known)[1])
        known[loop.variable] = (0, max(0, top - 1))
        count *= top
    return count


def depends(region: Region, variable: Var) -> bool:
    """Whether a loop index occurs in a region's map, extents or stage."""
    parts = (*region.index, *region.valid, region.stage)
    return any(variable in part.variables() for part in parts)


def box(region: Region) -> tuple[tuple[Index, Index], ...] | None:
    """First and last coordinate along each axis of the buffer; None where not affine."""
    strides = region.strides()
    if strides is None:
        return None
    ends: list[tuple[Index, Index]] = []
    for entry, row in zip(region.index, strides, strict=True):
        low = high = entry.substitute({axis(n): 0 for n in range(region.rank)})
        for n, factor in row.items():
            reach = (region.valid[n] - 1) * factor
            low, high = (low + reach, high) if factor < 0 else (low, high + reach)
        ends.append((low, high))
    return tuple(ends)


def may_overlap(a: Region, b: Region, known: Mapping[Var, Range]) -> bool:
    """Whether two regions may share an element in the same iteration of all loops."""
    if a.buffer != b.buffer:
        return False
    if a.stage.is_constant and b.stage.is_constant and a.stage != b.stage:
        return False
    first, second = box(a), box(b)
    if first is None or second is None:
        return True
    for (low_a, high_a), (low_b, high_b) in zip(first, second, strict=True):
        for gap in (low_b - high_a, low_a - high_b):
            if gap.variables() <= known.keys() and gap.bounds(known)[0] > 0:
                return False
    return True


def covers(region: Region, shape: tuple[int, ...]) -> bool:
    """Whether a region is all of a buffer of `shape`, axes in order."""
    return region.shape == shape and all(
        entry == Index.of(axis(n)) for n, entry in enumerate(region.index)
    )


def map_regions(node: Node, change: Mapping[str, str]) -> Node:
    """Rename the buffers that a node touches, those in its expression too."""
    match node:
        case Copy():
            return replace(
                node, target=_renamed(node.target, change), source=_renamed(node.source, change)
            )
        case Compute():
            return replace(
                node,
                operands=tuple(_renamed(o, change) for o in node.operands),
                expression=node.expression and _in_expression(node.expression, change),
            )
        case For() | Role():
            return replace(node, body=tuple(map_regions(n, change) for n in node.body))
        case _:
            return node


def _renamed(region: Region, change: Mapping[str, str]) -> Region:
    return replace(region, tensor=change.get(region.tensor, region.tensor))


def _in_expression(value: ex.Expr, change: Mapping[str, str]) -> ex.Expr:
    def rename(leaf: ex.Expr) -> ex.Expr:
        if isinstance(leaf, ex.Load | ex.Position) and isinstance(leaf.view, Region):
            return replace(leaf, view=_renamed(leaf.view, change))
        return leaf

    return ex.map_leaves(value, rename)


def used(body: tuple[Node, ...]) -> frozenset[str]:
    """Names of the buffers that a body touches."""
    return frozenset(r.buffer for node, _ in walk(body) for r in regions(node))


def bytes_of(region: Region, itemsize: int) -> int:
    """Bytes of the region at its nominal extents."""
    return math.prod(region.shape) * itemsize
