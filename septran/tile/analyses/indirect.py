"""Regions whose rows are chosen by a tensor of indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from septran.ir import expressions as ex
from septran.ir.atoms import Element
from septran.ir.index import Index, axis
from septran.ir.views import View
from septran.tile.analyses.loops import walk
from septran.tile.nodes import (
    Compute,
    Copy,
    For,
    Node,
    Region,
    TileProgram,
    nodes,
    regions,
    rewrite,
)
from septran.tile.substitution import change_indices


def indirect(body: tuple[Node, ...]) -> tuple[str, ...]:
    """The parameters by which rows are chosen or iterations counted, in order of first use."""
    found: dict[str, None] = {}
    for node, _ in walk(body):
        elements = (e for view in views(node) for e in view.elements())
        counts = node.extent.elements() if isinstance(node, For) else ()
        found |= dict.fromkeys(e.tensor for e in (*counts, *elements))
    return tuple(found)


def counted(program: TileProgram) -> tuple[TileProgram, ...]:
    """Programs without counts from tensors that stand for those with any.

    Each loop turns never, once, twice, as often as it may, and as often as differs from one
    iteration of the loops around it to the next.
    """
    extents = [node.extent for node in nodes(program.body) if isinstance(node, For)]
    counts = {(e.tensor, e.extent) for extent in extents for e in extent.elements()}
    if not counts:
        return (program,)
    tops = {min(n, extent - 1) for _, extent in counts for n in (0, 1, 2, extent - 1)}

    def stands(element: Element, at: Index, trips: int | None) -> Index | None:
        if (element.tensor, element.extent) not in counts:
            return None
        if trips is None:
            return (at + 1) % element.extent
        return Index.of(min(trips, element.extent - 1))

    def with_trips(trips: int | None) -> TileProgram:
        return _standing(program, lambda element, at: stands(element, at, trips))

    return tuple(map(with_trips, (*sorted(tops), None)))


def supposed(program: TileProgram) -> TileProgram:
    """The program as it runs if tensors of indices hold the rows in turn, and counts their most.

    For who follows a program without its data: row n chooses row n, modulo how many there are.
    """
    if not indirect(program.body):
        return program
    extents = [node.extent for node in nodes(program.body) if isinstance(node, For)]
    counts = {e for extent in extents for e in extent.elements()}

    def stands(element: Element, at: Index) -> Index:
        return Index.of(element.extent - 1) if element in counts else at % element.extent

    return _standing(program, stands)


def supposition(program: TileProgram) -> str:
    """A sentence on what `supposed` supposes of a program; empty where nothing is."""
    names = ", ".join(indirect(program.body))
    said = f"supposing that {names} holds 0, 1, 2, ... as rows, and the most as counts"
    return said if names else ""


def _standing(
    program: TileProgram, stands: Callable[[Element, Index], Index | None]
) -> TileProgram:
    """The program with indices in place of elements: by the element and the sum of where it is.

    None leaves an element as it is.
    """

    def change(index: Index) -> Index:
        values: dict[Element, Index] = {}
        # Those of coordinates come first, so that they stand in what is counted by them, too.
        for element in index.elements():
            at = sum((c.substitute(values) for c in element.at), Index())
            found = stands(element, at)
            if found is not None:
                values[element] = found
        return index.substitute(values)

    body = (change_indices(node, change) for node in program.body)
    return replace(program, body=tuple(body))


def views(node: Node) -> tuple[View, ...]:
    """The regions that a node touches, and the views whose positions it computes with."""
    if not isinstance(node, Compute) or node.expression is None:
        return regions(node)
    positions = (e.view for e in ex.walk(node.expression) if isinstance(e, ex.Position))
    return (*regions(node), *positions)


def widened(program: TileProgram) -> TileProgram:
    """The program where a region of chosen rows is one of all rows that may be chosen.

    What is right of all rows is right of any. Each element is replaced by an axis of its own, over
    all that it may be.
    """

    def change(node: Node) -> tuple[Node, ...]:
        if not any(view.elements() for view in views(node)):
            return (node,)
        if isinstance(node, Copy):
            return (replace(node, target=_widened(node.target), source=_widened(node.source)),)
        assert isinstance(node, Compute)
        return (replace(node, operands=tuple(map(_widened, node.operands))),)

    if not indirect(program.body):
        return program
    return replace(program, body=rewrite(program.body, change))


def _widened(region: Region) -> Region:
    elements = region.elements()
    own = {e: Index.of(axis(region.rank + n)) for n, e in enumerate(elements)}
    extents = tuple(e.extent for e in elements)
    return replace(
        region,
        index=tuple(entry.substitute(own) for entry in region.index),
        shape=(*region.shape, *extents),
        valid=(*region.valid, *map(Index.of, extents)),
    )
