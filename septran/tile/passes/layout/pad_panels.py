"""Padding of panels to the end of the last of the tiles that an instruction sums over whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

from septran.ir.index import Index, axis
from septran.ir.views import View
from septran.machine.model import Instruction
from septran.tile.analyses.loops import ranges
from septran.tile.nodes import Buffer, Compute, Copy, Node, Region, TileProgram, rewrite, writes
from septran.tile.passes.layout.zero_edges import SUMMED, whole_products


def pad_panels(program: TileProgram) -> TileProgram:
    """Give a panel, of which tiles are summed over whole, room for all of the last one.

    An instruction of whole tiles reads beyond the edge of a panel that ends within a tile:
    there has to be something, and it has to be zero.
    """
    for (name, number), extent in _lacking(program).items():
        buffer = program.buffer(name)
        shape = (*buffer.shape[:number], extent, *buffer.shape[number + 1 :])
        wider = replace(buffer, shape=shape)
        body = rewrite(program.body, _Widening(program, buffer, wider, number).change)
        buffers = tuple(wider if b.name == name else b for b in program.buffers)
        program = replace(program, body=body, buffers=buffers)
    return program


def _lacking(program: TileProgram) -> dict[tuple[str, int], int]:
    """Return buffers and axes that end within a tile that is summed whole, and where it ends."""
    known, found = ranges(program.body), dict[tuple[str, int], int]()
    for node in whole_products(program):
        for position, summed in SUMMED.items():
            region = node.operands[position]
            along = Index.of(axis(summed))
            for number, entry in enumerate(region.index):
                if region.buffer in program.params or entry.coefficient(axis(summed)) != 1:
                    continue
                end = (entry - along).bounds(known)[1] + region.shape[summed]
                if end > program.buffer(region.buffer).shape[number]:
                    key = region.buffer, number
                    found[key] = max(end, found.get(key, 0))
    return found


@dataclass(frozen=True)
class _Widening:
    """Changes the writers of a buffer that is padded along an axis."""

    program: TileProgram
    old: Buffer
    new: Buffer
    number: int

    def change(self, node: Node) -> tuple[Node, ...]:
        """Return a copy that also fills the padding, or zeros before the computation."""
        if not isinstance(node, Copy | Compute):
            return (node,)
        mine = [r for r in writes(node) if r.buffer == self.old.name]
        if not mine:
            return (node,)
        along = mine[0].index[self.number]
        for n, extent in enumerate(mine[0].shape):
            whole = along == Index.of(axis(n)) and extent == self.old.shape[self.number]
            if whole and isinstance(node, Copy):
                target, source = (self._wider(r, n) for r in (node.target, node.source))
                return (replace(node, target=target, source=source, zero_fill=True),)
        # A computation writes the old extent only. One that accumulates needs no zeros: those are
        # from the computation or copy that it adds to.
        if isinstance(node, Compute) and not node.accumulates:
            return (self._zeros(node), node)
        return (node,)

    def _wider(self, region: Region, n: int) -> Region:
        extent = self.new.shape[self.number]
        return replace(region, shape=(*region.shape[:n], extent, *region.shape[n + 1 :]))

    def _zeros(self, node: Compute) -> Compute:
        room = View.whole(self.new.name, self.new.shape)
        region = Region(room.tensor, room.index, room.shape, room.valid)
        rule = f"{self.new.name} is summed over in whole tiles, and what is beyond it is zero"
        return Compute(
            "fill", (region,), self._unit().name, node.processor,
            replace(node.origin, rule=rule), (("value", 0),),
        )  # fmt: skip

    def _unit(self) -> Instruction:
        kinds, all_units = ("fill", "map"), self.program.machine.instructions
        return next(i for kind in kinds for i in all_units if i.primitive == kind)
