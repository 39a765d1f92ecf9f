"""Layouts that machine files demand: instructions of their operands, engines of their copies."""

from __future__ import annotations

from septran.dtypes import itemsize
from septran.ir.index import axis
from septran.machine.model import Instruction
from septran.tile.layouts import Layout, widest_swizzle
from septran.tile.nodes import Buffer, Copy, Region, TileProgram


def demanded_layout(
    instruction: Instruction, operand: str, region: Region, buffer: Buffer
) -> Layout | None:
    """Return the layout that a contract demands of an operand, in the buffer's own axes.

    For a swizzle the contract gives the widest; a buffer with shorter rows has a narrower one. The
    contract is about operands in memory: registers have no layout, so None.
    """
    text = instruction.layouts.get(operand)
    memories = instruction.operands.get(operand, (buffer.memory,))
    if text is None or (len(memories) > 1 and buffer.memory != memories[0]):
        return None
    layout = Layout.parse(text)
    if layout.kind == "swizzle":
        return widest_swizzle(buffer.shape[-1] * itemsize(buffer.dtype), layout.parameters[0])
    if layout.kind != "panels":
        return layout
    cut, *sizes = layout.parameters
    for number, entry in enumerate(region.index):
        if entry.coefficient(axis(cut)) == 1:
            return Layout("panels", (number, *sizes))
    return None


def converts(program: TileProgram, copy: Copy) -> bool:
    """Return whether a copy's engine can write its target's layout from its source's."""
    source, target = program.buffer(copy.source.buffer), program.buffer(copy.target.buffer)
    known = program.machine.engine(copy.engine).layouts
    return source.layout == target.layout or {source.layout.kind, target.layout.kind} <= set(known)
