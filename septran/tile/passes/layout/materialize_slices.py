"""Own buffers for operands of products that are a part of a buffer held in units' shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from septran.ir.primitives import PRIMITIVES
from septran.machine.model import Instruction, Machine
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    Node,
    Origin,
    Region,
    TileProgram,
)
from septran.tile.passes.layout.part_buffers import PartBuffers


def materialize_slices(program: TileProgram) -> TileProgram:
    """Give a product a buffer of its own for the part of one in registers that it takes.

    Registers hold a buffer in shares: which thread has which element is fixed for the whole
    buffer, by the instruction that takes it. A part of it, or its transpose, lies otherwise.
    """
    return _Isolation(program).run()


class _Isolation(PartBuffers):
    NAME = "materialize_slices"

    @property
    def machine(self) -> Machine:
        return self.program.machine

    def change(self, node: Node) -> tuple[Node, ...]:
        """Return a product between the copies that it needs; any other node unchanged."""
        if not isinstance(node, Compute) or node.primitive != "gemm":
            return (node,)
        try:
            instruction = self.machine.instruction(node.instruction)
        except KeyError:
            return (node,)  # a generic lowering of the target
        before: list[Node] = []
        after: list[Node] = []
        operands = list(node.operands)
        for position, region in enumerate(node.operands):
            if not self._is_share(node, region):
                continue
            own = self._buffer(node, instruction, position)
            operands[position] = Region.all_of(own, region.valid)
            origin = replace(node.origin, rule=own.origin.rule if own.origin else "")
            before += self._copy(operands[position], region, node, origin)
            # Operand 0 is the result, which goes back to the part that it belongs to.
            if position == 0:
                after += self._copy(region, operands[position], node, origin)
        return (*before, replace(node, operands=tuple(operands)), *after)

    def _is_share(self, node: Compute, region: Region) -> bool:
        """Return whether a region of a buffer spread over units is not the buffer as it is."""
        buffer = self.buffers[region.buffer]
        owner = self.machine.memory(buffer.memory).visible_to
        if self.machine.depth(owner) <= self.machine.depth(node.processor):
            return False
        return not region.is_plain or region.shape != buffer.shape

    def _buffer(self, node: Compute, instruction: Instruction, position: int) -> Buffer:
        """A buffer for the operand alone, in the instruction's other memory if it has one."""
        region = node.operands[position]
        held = self.buffers[region.buffer]
        operand = PRIMITIVES[node.primitive].operands[position]
        listed = [self.machine.memory(m).name for m in instruction.operands.get(operand, ())]
        # An input may move to another memory that the instruction takes, where a part has an
        # address of its own; a result stays in its memory.
        memory = next((m for m in listed if position and m != held.memory), held.memory)
        why = f"{instruction.name} takes {operand} whole, and {region} is a part of {held.name}"
        made = self.add(node, held, memory, region.shape, held.dtype, why)
        self.decided(node, held, f"{region} is copied to {made.name} in {memory}: {why}")
        return made

    def _copy(self, target: Region, source: Region, node: Compute, why: Origin) -> Iterator[Node]:
        a, b = (self.buffers[r.buffer].memory for r in (source, target))
        engines = self.machine.engines_for(a, b) if a != b else ()
        if engines:
            yield Copy(target, source, engines[0].name, node.processor, why)
            return
        kinds = ("copy", "map")
        unit = next(i for k in kinds for i in self.machine.instructions if i.primitive == k)
        yield Compute("copy", (target, source), unit.name, node.processor, why)
