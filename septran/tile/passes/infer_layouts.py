"""Give every staged buffer the layout that the instruction which reads it wants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from septran.errors import TileError
from septran.machine.model import Instruction
from septran.task.index import axis
from septran.task.primitives import PRIMITIVES
from septran.tile.layouts import ROW, Layout
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    Origin,
    Region,
    Remark,
    TileProgram,
    nodes,
)

NAME = "infer_layouts"


class LayoutConflictError(TileError):
    """Two instructions demand different layouts of one buffer, and neither can give way."""

    code = "SEP402"


@dataclass(frozen=True)
class _Demand:
    layout: Layout
    instruction: str
    origin: Origin


def infer_layouts(program: TileProgram) -> TileProgram:
    """Lay buffers out as instructions demand; what nobody demands stays as it is.

    Strict: an instruction's contract. Common: what the mapping's author wrote, or what a
    neighbour needs: an engine that cannot change the layout on the way demands of its
    source what was demanded of its target. Free: row.
    """
    program = _by_contract(program)
    while (passed_on := _upstream(program)) != program:
        program = passed_on
    return program


def _upstream(program: TileProgram) -> TileProgram:
    """One step from the target of a copy to a source whose layout nobody has asked for."""
    for node in nodes(program.body):
        if not isinstance(node, Copy) or converts(program, node):
            continue
        source, target = program.buffer(node.source.buffer), program.buffer(node.target.buffer)
        if source.name in program.params or source.layout != ROW:
            continue
        changed = replace(source, layout=target.layout)
        why = (
            f"{source.name} is laid out as {target.layout}, as {node.engine} cannot change it "
            f"on the way to {target.name}"
        )
        remark = Remark("decision", source.name, why, None, node.origin.mapping, NAME)
        buffers = tuple(changed if b is source else b for b in program.buffers)
        return replace(program, buffers=buffers).remark(remark)
    return program


def converts(program: TileProgram, copy: Copy) -> bool:
    """Whether a copy's engine can write its target's layout from its source's."""
    source, target = program.buffer(copy.source.buffer), program.buffer(copy.target.buffer)
    known = program.machine.engine(copy.engine).layouts
    return source.layout == target.layout or {source.layout.kind, target.layout.kind} <= set(known)


def _by_contract(program: TileProgram) -> TileProgram:
    """What instructions demand of their operands.

    Raises LayoutConflictError where two contradict each other.
    """
    changed: list[Buffer] = []
    remarks: list[Remark] = []
    for buffer in program.buffers:
        demands = list(_demands(program, buffer))
        if buffer.name in program.params or not demands:
            changed.append(buffer)
            continue
        layout = _agreed(buffer, demands)
        if buffer.layout not in (ROW, layout):
            layout = buffer.layout  # the author's word; the instruction's emitter checks it
        elif layout != buffer.layout:
            why = f"{buffer.name} is laid out as {layout}, as {demands[0].instruction} reads it"
            where = demands[0].origin.mapping
            remarks.append(Remark("decision", buffer.name, why, None, where, NAME))
        changed.append(replace(buffer, layout=layout))
    return replace(program, buffers=tuple(changed)).remark(*remarks)


def _demands(program: TileProgram, buffer: Buffer) -> Iterator[_Demand]:
    for node in nodes(program.body):
        if not isinstance(node, Compute):
            continue
        try:
            instruction = program.machine.instruction(node.instruction)
        except KeyError:
            continue
        for position, region in enumerate(node.operands):
            if region.buffer == buffer.name:
                wanted = _wanted(instruction, node, position, region)
                if wanted is not None:
                    yield _Demand(wanted, instruction.name, node.origin)


def _wanted(
    instruction: Instruction, node: Compute, position: int, region: Region
) -> Layout | None:
    """The layout that the contract demands of an operand, in the buffer's own axes."""
    if node.primitive not in PRIMITIVES:
        return None
    text = instruction.layouts.get(PRIMITIVES[node.primitive].operands[position])
    if text is None:
        return None
    layout = Layout.parse(text)
    if layout.kind != "panels":
        return layout
    cut, width = layout.parameters
    for buffer_axis, entry in enumerate(region.index):
        if entry.coefficient(axis(cut)) == 1:
            return Layout("panels", (buffer_axis, width))
    return None


def _agreed(buffer: Buffer, demands: list[_Demand]) -> Layout:
    first = demands[0]
    for other in demands[1:]:
        if other.layout != first.layout:
            raise LayoutConflictError(
                f"{buffer.name} is wanted as {first.layout} by {first.instruction} "
                f"and as {other.layout} by {other.instruction}",
                first.origin.mapping or first.origin.logic,
                hint="give one of the two tasks the tensor in another memory, so that it is copied",
                notes=[("the other demand", place) for place in [other.origin.logic] if place],
            )
    return first.layout
