"""Streaming of panels that exceed their memory, in steps along the axis that a gemm sums."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from septran.dtypes import itemsize
from septran.ir.index import Index, IndexLike, Var, axis, ceil_div, minimum
from septran.mapping.keys import PIPELINE
from septran.tile.analyses.loops import covers, ranges, used
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    For,
    Node,
    Region,
    Remark,
    Role,
    TileProgram,
    nodes,
    rewrite,
)
from septran.tile.passes.layout.plan_memory import capacity, placements

NAME = "stream_panels"
_SUMMED = {1: 1, 2: 0}
"""The summed axis of gemm's operands A and B."""


def stream_panels(program: TileProgram) -> TileProgram:
    """Cut panels that exceed their memory into steps along the axis a gemm accumulates over."""
    body: list[Node] = []
    for node in program.body:
        program, streamed = _in_node(program, node)
        body.append(streamed)
    program, new = _in_body(program, tuple(body))
    return replace(program, body=new)


def _in_node(program: TileProgram, node: Node) -> tuple[TileProgram, Node]:
    if not isinstance(node, For | Role):
        return program, node
    inner: list[Node] = []
    for child in node.body:
        program, changed = _in_node(program, child)
        inner.append(changed)
    program, body = _in_body(program, tuple(inner))
    return program, replace(node, body=body)


@dataclass(frozen=True)
class _Panel:
    """A staged buffer that only gemms read, whole along the axis they sum over."""

    copy: Copy
    buffer: Buffer
    axis: int
    """The buffer's axis that is summed over."""

    @property
    def extent(self) -> int:
        return self.buffer.shape[self.axis]

    def bytes_at(self, step: int) -> int:
        other = math.prod(self.buffer.shape) // max(1, self.extent)
        return other * min(step, self.extent) * itemsize(self.buffer.dtype)


def _in_body(program: TileProgram, body: tuple[Node, ...]) -> tuple[TileProgram, tuple[Node, ...]]:
    for at, node in enumerate(body):
        if not isinstance(node, Copy) or not _too_big(program, node.target.buffer):
            continue
        first, last = at, _last_use(node.target.buffer, body)
        panels = [p for n in body[first:last] if (p := _panel(program, n, body[first : last + 1]))]
        if not panels or panels[0].copy is not node:
            continue
        extents = {p.extent for p in panels}
        copies = [p.copy for p in panels]
        rest = [n for n in body[first : last + 1] if n not in copies]
        inside = body[first : last + 1]
        alone = all(_only_here(program, p.buffer.name, inside) for p in panels)
        # One loop steps through all panels, so they must be equally long; and as they become
        # smaller, nothing else may use them.
        if len(extents) == 1 and alone and all(_accumulates_only(n, panels) for n in rest):
            program, loop = _stream(program, panels, rest)
            # Another panel of the body may be too large, too.
            return _in_body(program, (*body[:first], loop, *body[last + 1 :]))
    return program, body


def _too_big(program: TileProgram, name: str) -> bool:
    """Return whether the buffer's memory overflows at any time while the buffer is in it."""
    memory = program.machine.memory(program.buffer(name).memory)
    limit = capacity(program, memory)
    if limit is None or memory.cached:
        return False
    plan = [p for p in placements(program) if p.memory == memory.name]
    mine = next((p for p in plan if p.buffer == name), None)
    if mine is None:  # shared by several units: the target's to allocate
        return False
    # A memory is fullest at the beginning of some buffer's live range.
    starts = {p.first for p in plan if mine.first <= p.first <= mine.last} | {mine.first}
    held = (sum(p.size_bytes for p in plan if p.first <= at <= p.last) for at in starts)
    return max(held) > limit


def _only_here(program: TileProgram, name: str, segment: tuple[Node, ...]) -> bool:
    """Return whether only nodes of `segment` use a buffer, which is to become smaller."""

    def uses(body: tuple[Node, ...]) -> int:
        users = (n for n in nodes(body) if not isinstance(n, For | Role))
        return sum(name in used((n,)) for n in users)

    return uses(program.body) == uses(segment)


def _last_use(buffer: str, body: tuple[Node, ...]) -> int:
    return max(at for at, node in enumerate(body) if buffer in used((node,)))


def _panel(program: TileProgram, node: Node, segment: tuple[Node, ...]) -> _Panel | None:
    if not isinstance(node, Copy):
        return None
    buffer = program.buffer(node.target.buffer)
    if buffer.name in program.params or not covers(node.target, buffer.shape):
        return None
    axes = set()
    for user in nodes(segment):
        if user is node or buffer.name not in used((user,)) or isinstance(user, For | Role):
            continue
        if not isinstance(user, Compute) or user.primitive != "gemm":
            return None
        for position, region in enumerate(user.operands):
            if region.buffer == buffer.name:
                axes.add(_summed_axis(position, region, buffer))
    # Where products sum over different axes of it, no cut serves them all.
    found = axes.pop() if len(axes) == 1 else None
    return _Panel(node, buffer, found) if found is not None else None


def _summed_axis(position: int, region: Region, buffer: Buffer) -> int | None:
    """Return the buffer's axis that this operand sums over, if it takes all of it."""
    if position not in _SUMMED:
        return None
    wanted = Index.of(axis(_SUMMED[position]))
    for number, entry in enumerate(region.index):
        if entry == wanted and region.shape[_SUMMED[position]] == buffer.shape[number]:
            return number
    return None


def _accumulates_only(node: Node, panels: list[_Panel]) -> bool:
    """Return whether running `node` once a step gives the same as running it once."""
    names = {p.buffer.name for p in panels}
    for inner in nodes((node,)):
        if isinstance(inner, For | Role):
            continue
        gemm = isinstance(inner, Compute) and inner.primitive == "gemm"
        if not gemm or not {r.buffer for r in inner.operands[1:]} <= names:  # type: ignore[union-attr]
            return False
    return True


def _stream(
    program: TileProgram, panels: list[_Panel], rest: list[Node]
) -> tuple[TileProgram, Node]:
    origin = panels[0].copy.origin
    step = _step(program, panels, program.request(origin.task).get(PIPELINE))
    variable = _fresh_variable(program)
    why = (
        f"{' and '.join(p.buffer.name for p in panels)} do not fit whole, so they are "
        f"copied in steps of {step} along the summed axis"
    )
    copies = [_stepped_copy(p, variable, step) for p in panels]
    inside = rewrite(tuple(rest), lambda n: (_stepped_gemm(n, panels, variable, step),))
    loop = For(
        variable,
        ceil_div(panels[0].extent, step),
        "sequential",
        None,
        (*copies, *inside),
        replace(origin, rule=why),
    )
    small = {p.buffer.name: _cut(p.buffer, p.axis, step) for p in panels}
    buffers = tuple(small.get(b.name, b) for b in program.buffers)
    remark = Remark(
        "decision",
        origin.task,
        why,
        "partition the axis in the logic, with a tunable, to choose the step yourself",
        origin.mapping,
        NAME,
    )
    return replace(program, buffers=buffers).remark(remark), loop


def _step(program: TileProgram, panels: list[_Panel], stages: int) -> int:
    """Return the greatest step, a power of two from 16 to 128, with which all stages fit."""
    memory = program.machine.memory(panels[0].buffer.memory)
    room = memory.capacity_bytes or 0
    step = 16
    while step * 2 < panels[0].extent:
        if sum(p.bytes_at(step * 2) for p in panels) * stages > room:
            break
        step *= 2
    return min(step, 128)


def _cut(buffer: Buffer, at: int, step: int) -> Buffer:
    shape = tuple(step if n == at else extent for n, extent in enumerate(buffer.shape))
    return replace(buffer, shape=shape)


def _stepped_copy(panel: _Panel, variable: Var, step: int) -> Copy:
    source = panel.copy.source
    offsets: list[IndexLike] = [0] * source.rank
    offsets[panel.axis] = Index.of(variable) * step
    extents = list(source.shape)
    extents[panel.axis] = step
    part = source.block(tuple(offsets), tuple(extents))
    target = replace(panel.copy.target, shape=part.shape, valid=part.valid)
    return replace(panel.copy, source=part, target=target)


def _stepped_gemm(node: Node, panels: list[_Panel], variable: Var, step: int) -> Node:
    if not isinstance(node, Compute):
        return node
    names = {p.buffer.name for p in panels}
    operands = list(node.operands)
    for position, at in _SUMMED.items():
        region = operands[position]
        if region.buffer in names:
            left = region.valid[at] - Index.of(variable) * step
            operands[position] = replace(
                region,
                shape=tuple(step if n == at else e for n, e in enumerate(region.shape)),
                valid=tuple(
                    minimum(step, left) if n == at else v for n, v in enumerate(region.valid)
                ),
            )
    return replace(node, operands=tuple(operands))


def _fresh_variable(program: TileProgram) -> Var:
    taken = {v.name for v in ranges(program.body)}
    number = 0
    while (name := f"k_{number}") in taken:
        number += 1
    return Var(name)
