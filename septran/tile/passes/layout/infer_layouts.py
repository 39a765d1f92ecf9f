"""Inference of layouts: each staged buffer gets the one that its reading instruction needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from septran.dtypes import itemsize
from septran.errors import TileError
from septran.ir.primitives import PRIMITIVES
from septran.tile.contracts import converts, demanded_layout
from septran.tile.layouts import ROW, Layout
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    Origin,
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
    source what was demanded of its target. Free: row, and where the memory wants each row to
    begin at a multiple of some bytes, padded so.
    """
    program = _by_contract(_sized(program))
    # Each step gives a layout to one more buffer, so this ends.
    while (passed_on := _upstream(program)) != program:
        program = passed_on
    return replace(program, buffers=tuple(_with_aligned_rows(program, b) for b in program.buffers))


def _with_aligned_rows(program: TileProgram, buffer: Buffer) -> Buffer:
    """The buffer with rows that begin where its memory wants them to."""
    wanted = program.machine.memory(buffer.memory).row_alignment
    if wanted == 1 or buffer.layout != ROW or len(buffer.shape) < 2:
        return buffer
    item = itemsize(buffer.dtype)
    return replace(buffer, layout=Layout.aligned(buffer.shape[-1] * item, wanted, item))


def _sized(program: TileProgram) -> TileProgram:
    """Panels in the sizes of the first instruction that reads them packed; rows without one."""
    buffers = tuple(
        replace(b, layout=_panels(program, b)) if b.layout.open else b for b in program.buffers
    )
    return replace(program, buffers=buffers)


def _panels(program: TileProgram, buffer: Buffer) -> Layout:
    for node in nodes(program.body):
        if not isinstance(node, Compute) or node.primitive not in PRIMITIVES:
            continue
        sizes = program.machine.instruction(node.instruction).panels
        if sizes and any(r.buffer == buffer.name for r in node.operands[1:]):
            return Layout("panels", (*buffer.layout.parameters, *sizes))
    return ROW


def _upstream(program: TileProgram) -> TileProgram:
    """Pass a layout on, in one copy, from its target to a source without a layout of its own."""
    for node in nodes(program.body):
        if not isinstance(node, Copy) or converts(program, node):
            continue
        source, target = program.buffer(node.source.buffer), program.buffer(node.target.buffer)
        # A caller's tensor lies as it does; another layout than row was asked for or demanded.
        if source.name in program.params or source.layout != ROW:
            continue
        changed = replace(source, layout=target.layout, asked=target.asked)
        why = (
            f"{source.name} is laid out as {target.layout}, as {node.engine} cannot change it "
            f"on the way to {target.name}"
        )
        remark = Remark("decision", source.name, why, None, node.origin.mapping, NAME)
        buffers = tuple(changed if b is source else b for b in program.buffers)
        return replace(program, buffers=buffers).remark(remark)
    return program


def _by_contract(program: TileProgram) -> TileProgram:
    """Return the program with the layouts that instructions demand of their operands.

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
        if not isinstance(node, Compute) or node.primitive not in PRIMITIVES:
            continue
        try:
            instruction = program.machine.instruction(node.instruction)
        except KeyError:
            continue
        for position, region in enumerate(node.operands):
            if region.buffer == buffer.name:
                operand = PRIMITIVES[node.primitive].operands[position]
                wanted = demanded_layout(instruction, operand, region, buffer)
                if wanted is not None:
                    yield _Demand(wanted, instruction.name, node.origin)


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
