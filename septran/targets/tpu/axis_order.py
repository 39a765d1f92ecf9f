"""Tiles that lie in vector memory as their tensors do in main memory.

DMA keeps the order of axes. A tile that is moved to or from a tensor with another order is kept in
the tensor's order, and whoever computes with it reads or writes it transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from septran.ir import expressions as ex
from septran.ir.index import axis
from septran.targets.tpu.access import looped
from septran.tile.nodes import Compute, Copy, Node, Region, TileProgram, nodes, rewrite

Order = tuple[int, ...]


def as_moved(program: TileProgram) -> TileProgram:
    """The program with every tile's axes in the order in which DMA moves them.

    A tile that is moved in two orders stays as it is.
    """
    wanted: dict[str, set[Order]] = {}
    for node in nodes(program.body):
        if isinstance(node, Copy):
            for tile, other in ((node.target, node.source), (node.source, node.target)):
                if _inside(program, tile) and not _inside(program, other):
                    wanted.setdefault(tile.buffer, set()).add(_order(tile, other))
    orders = {
        name: found.pop() for name, found in wanted.items()
        if len(found) == 1 and found != {tuple(range(len(program.buffer(name).shape)))}
    }  # fmt: skip
    if not orders:
        return program
    buffers = tuple(
        replace(b, shape=tuple(b.shape[n] for n in orders[b.name])) if b.name in orders else b
        for b in program.buffers
    )

    def change(node: Node) -> tuple[Node, ...]:
        match node:
            case Copy():
                source, target = _turned(node.source, orders), _turned(node.target, orders)
                return (replace(node, source=source, target=target),)
            case Compute():
                return (_turned_compute(node, orders),)
        return (node,)

    return replace(program, buffers=buffers, body=rewrite(program.body, change))


def _inside(program: TileProgram, region: Region) -> bool:
    return program.buffer(region.buffer).memory != program.machine.main_memory.name


def _order(tile: Region, other: Region) -> Order:
    """The axes of a tile's buffer in the order in which the other region has them."""
    skipped = looped(tile, strided=False) | looped(other, strided=False)
    places = {
        n: place for place, entry in enumerate(other.index) for n in range(other.rank)
        if axis(n) in entry.variables() and n not in skipped
    }  # fmt: skip
    own = {
        place: n for place, entry in enumerate(tile.index) for n in places
        if axis(n) in entry.variables()
    }  # fmt: skip
    moved = iter(sorted(own, key=lambda place: places[own[place]]))
    return tuple(next(moved) if n in own else n for n in range(len(tile.index)))


def _turned(region: Region, orders: Mapping[str, Order]) -> Region:
    order = orders.get(region.buffer)
    if order is None:
        return region
    return replace(region, index=tuple(region.index[n] for n in order))


def _turned_compute(node: Compute, orders: Mapping[str, Order]) -> Compute:
    def load(expr: ex.Expr) -> ex.Expr:
        if isinstance(expr, ex.Load):
            assert isinstance(expr.view, Region)
            return replace(expr, view=_turned(expr.view, orders))
        return expr

    operands = tuple(_turned(region, orders) for region in node.operands)
    expression = None if node.expression is None else ex.map_leaves(node.expression, load)
    return replace(node, operands=operands, expression=expression)
