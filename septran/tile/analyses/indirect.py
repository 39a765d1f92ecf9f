"""Regions whose rows are chosen by a tensor of indices."""

from __future__ import annotations

from dataclasses import replace

from septran.ir import expressions as ex
from septran.ir.index import Index, axis
from septran.ir.views import View
from septran.tile.analyses.loops import walk
from septran.tile.nodes import Compute, Copy, Node, Region, TileProgram, regions, rewrite


def indirect(body: tuple[Node, ...]) -> tuple[str, ...]:
    """The parameters by which rows are chosen in a body, in order of first use."""
    found = (
        element.tensor
        for node, _ in walk(body)
        for view in views(node)
        for element in view.elements()
    )
    return tuple(dict.fromkeys(found))


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
