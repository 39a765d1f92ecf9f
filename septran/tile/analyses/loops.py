"""Properties of loops and regions: ranges of indices, iterations, ends and overlap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from septran.ir import expressions as ex
from septran.ir.bounds import bounds_if_known, greatest, loop_range
from septran.ir.index import Index, Range, Var, axis, is_axis
from septran.ir.views import View
from septran.tile.nodes import Compute, Copy, For, Node, Region, Role, regions, tables


def ranges(body: tuple[Node, ...], outer: Mapping[Var, Range] | None = None) -> dict[Var, Range]:
    """The inclusive range of every loop index in `body`; empty loops count as one iteration."""
    known = dict(outer or {})
    for node in body:
        if isinstance(node, For):
            known[node.variable] = loop_range(node.extent, known)
        if isinstance(node, For | Role):
            known = ranges(node.body, known)
    return known


def walk(
    body: tuple[Node, ...], loops: tuple[For, ...] = ()
) -> Iterator[tuple[Node, tuple[For, ...]]]:
    """Yield every node with the loops around it, outermost first."""
    for node in body:
        yield node, loops
        if isinstance(node, For):
            yield from walk(node.body, (*loops, node))
        elif isinstance(node, Role):
            yield from walk(node.body, loops)


def ranges_of(loops: tuple[For, ...]) -> dict[Var, Range]:
    """Return the inclusive range of each index of nested loops, outermost first."""
    known: dict[Var, Range] = {}
    for loop in loops:
        known[loop.variable] = loop_range(loop.extent, known)
    return known


def most_iterations(
    loops: Iterable[For], outer: Mapping[Var, Range] | None = None
) -> tuple[int, ...]:
    """The greatest extent of each of nested loops; `outer` bounds the indices around them."""
    known = dict(outer or {})
    tops: list[int] = []
    for loop in loops:
        tops.append(max(0, greatest(loop.extent, known)))
        known[loop.variable] = (0, max(0, tops[-1] - 1))
    return tuple(tops)


def trips(loops: Iterable[For], outer: Mapping[Var, Range] | None = None) -> int:
    """The number of times that a body under `loops` runs, with each extent at its greatest."""
    return math.prod(most_iterations(loops, outer))


def iterations(loops: tuple[For, ...], known: dict[Var, int]) -> Iterator[dict[Var, int]]:
    """The values of all indices, iteration by iteration, in one dict that changes in place."""
    if not loops:
        yield known
        return
    for value in range(max(0, loops[0].extent.evaluate(known))):
        known[loops[0].variable] = value
        yield from iterations(loops[1:], known)


def samples(loops: tuple[For, ...], known: dict[Var, int], most: int) -> Iterator[dict[Var, int]]:
    """Yield all iterations where there are at most `most`, else those at the ends of each loop."""
    if trips(loops) <= most:
        yield from iterations(loops, known)
        return
    # Ragged tiles are at the ends of loops, and so are the first and last use of a stage.
    spans = [sorted({0, 1, high - 1, high} & set(range(high + 1)))
             for _, high in ranges_of(loops).values()]  # fmt: skip
    for values in itertools.islice(itertools.product(*spans), most):
        found = dict(known)
        for loop, value in zip(loops, values, strict=True):
            if value >= loop.extent.evaluate(found):
                break
            found[loop.variable] = value
        else:
            yield found


def depends(region: Region, variable: Var) -> bool:
    """Return whether a loop index occurs in a region's map, extents or stage."""
    parts = (*region.index, *region.valid, region.stage)
    return any(variable in part.variables() for part in parts)


Affine = tuple[tuple[Index, tuple[tuple[int, int], ...]], ...]
"""For each axis of a buffer, the start of a region, and the region's axes with their factors."""


def affine(view: View) -> Affine | None:
    """Return the map of a view as starts and factors; None where it divides or clips its axes."""
    axes = {axis(n): n for n in range(view.rank)}
    rows: list[tuple[Index, tuple[tuple[int, int], ...]]] = []
    for entry in view.index:
        factors = tuple((axes[a], c) for a, c in entry.terms if isinstance(a, Var) and a in axes)
        start = entry
        if factors:
            rest = tuple((a, c) for a, c in entry.terms if not (isinstance(a, Var) and a in axes))
            start = Index(rest, entry.constant)
        # What is left may still divide or clip an axis, which is then in the start: not affine.
        for atom, _ in start.terms:
            if not isinstance(atom, Var) and any(map(is_axis, start.variables())):
                return None
        rows.append((start, factors))
    return tuple(rows)


def ends(view: View) -> list[tuple[Index, Index]] | None:
    """Return first and last coordinate along each axis of the buffer; None where not affine."""
    rows = affine(view)
    if rows is None:
        return None
    found: list[tuple[Index, Index]] = []
    for start, factors in rows:
        low = high = start
        for n, factor in factors:
            reach = (view.valid[n] - 1) * factor
            low, high = (low + reach, high) if factor < 0 else (low, high + reach)
        found.append((low, high))
    return found


def may_overlap(a: Region, b: Region, known: Mapping[Var, Range]) -> bool:
    """Return whether two regions may share an element in the same iteration of all loops."""
    if a.buffer != b.buffer:
        return False
    if a.stage.is_constant and b.stage.is_constant and a.stage != b.stage:
        return False
    first, second = ends(a), ends(b)
    # Regions without affine ends may be anywhere in the buffer.
    if first is None or second is None:
        return True
    for (low_a, high_a), (low_b, high_b) in zip(first, second, strict=True):
        for gap in (low_b - high_a, low_a - high_b):
            reach = bounds_if_known(gap, known)
            if reach is not None and reach[0] > 0:
                return False
    return True


def covers(region: Region, shape: tuple[int, ...]) -> bool:
    """Return whether a region is all of a buffer of `shape`, axes in order."""
    return region.shape == shape and all(
        entry == Index.of(axis(n)) for n, entry in enumerate(region.index)
    )


def map_regions(node: Node, change: Mapping[str, str]) -> Node:
    """Return a node with the buffers that it touches renamed, those in its expression too."""
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
    """Return the names of the buffers that a body touches, or whose elements are its indices."""
    inside = [node for node, _ in walk(body)]
    found = frozenset(region.buffer for node in inside for region in regions(node))
    return found.union(*map(tables, inside))


def bytes_of(region: Region, itemsize: int) -> int:
    """Return the bytes of the region at its nominal extents."""
    return math.prod(region.shape) * itemsize
