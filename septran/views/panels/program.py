"""The tile program as folded HTML: the program, its buffers, movements, plan and remarks."""

from __future__ import annotations

import math
from collections.abc import Iterable

from septran.dtypes import itemsize
from septran.format_units import size_text
from septran.tile.nodes import Copy, For, Node, Role, TileProgram
from septran.tile.printer import node_text, to_text
from septran.views.panels.mapping import memory_chip
from septran.views.pictures.colours import colour_of
from septran.views.pictures.html import (
    Markup,
    code,
    details,
    faint,
    join,
    mono,
    paragraph,
    picture,
    strong,
    table,
    tag,
)
from septran.views.text.movements import Movement, amount_of, movements, place_text
from septran.views.text.remarks import remarks_table


def tile_program_panel(program: TileProgram, svg: str | None = None) -> Markup:
    """The drawing, movements with reasons, the nodes, buffers, memory plan, remarks, text."""
    found = movements(program)
    parts = [paragraph(_summary(program, found))]
    if svg:
        alt = f"Tile program {program.name} on {program.machine.name}"
        parts.append(details("drawing", picture(svg, alt), open=True))
    parts.append(details(f"copies and waits ({len(found)})", *_movements(found), open=bool(svg)))
    parts.append(details("nodes", *_nodes(program.body, program)))
    parts.append(details(f"buffers ({len(program.buffers)})", buffers_table(program)))
    if program.plan:
        parts.append(details("memory plan", plan_bars(program)))
    if program.remarks:
        head = f"remarks ({len(program.remarks)})"
        parts.append(details(head, remarks_table(program.remarks), open=True))
    parts.append(details("as text", code(to_text(program), "python")))
    return join(parts)


def _summary(program: TileProgram, found: Iterable[Movement]) -> str:
    copies = [m for m in found if isinstance(m.node, Copy)]
    total = size_text(sum(m.total_bytes for m in copies))
    count = f"{len(copies)} cop{'ies' if len(copies) != 1 else 'y'}"
    buffers = f"{len(program.buffers)} buffer{'s' if len(program.buffers) != 1 else ''}"
    return f"{program.name} on {program.machine.name}: {buffers}, {count} of {total} in all"


def _movements(found: Iterable[Movement]) -> list[Markup]:
    parts = []
    for m in found:
        head = join([f"{m.number}. ", mono(m.text), "  ", faint(amount_of(m))])
        rows = [
            ("because", m.origin.rule),
            ("logic", mono(place_text(m.origin.logic))),
            ("mapping", mono(place_text(m.origin.mapping))),
            ("instance", f"{m.origin.instance} ({m.origin.task})"),
        ]
        parts.append(details(head, table(("", ""), rows)))
    return parts or [paragraph("none: every tensor is used where it is")]


def _nodes(body: Iterable[Node], program: TileProgram) -> list[Markup]:
    parts = []
    for node in body:
        head = join([mono(node_text(node, program)), "  ", faint(node.origin.rule)])
        if isinstance(node, For | Role):
            parts.append(details(head, *_nodes(node.body, program), open=True))
        else:
            parts.append(paragraph(head))
    return parts


def buffers_table(program: TileProgram) -> Markup:
    """Name, place, shape and size of every buffer."""
    rows = []
    for b in program.buffers:
        size = b.layout.elements(b.shape, itemsize(b.dtype)) * itemsize(b.dtype)
        role = "parameter" if b.name in program.params else ""
        shape = " x ".join(map(str, b.shape))
        rows.append(
            (
                mono(b.name), memory_chip(b.memory, program.machine), shape, b.dtype,
                str(b.layout), b.stages, size_text(size * b.stages), b.tensor, role,
            )
        )  # fmt: skip
    head = ("buffer", "memory", "shape", "dtype", "layout", "stages", "size", "tensor", "")
    return table(head, rows, numbers=("stages", "size"))


def plan_bars(program: TileProgram) -> Markup:
    """For each memory, how much of its capacity the planned buffers take, and where."""
    parts = []
    for memory in program.machine.memories:
        placed = [p for p in program.plan if p.memory == memory.name]
        if not placed:
            continue
        used = max(p.offset_bytes + p.size_bytes for p in placed)
        share = ""
        bar: Markup | str = ""
        if memory.capacity_bytes:
            share = f" of {size_text(memory.capacity_bytes)} ({used / memory.capacity_bytes:.0%})"
            bar = _bar(used / memory.capacity_bytes, program, memory.name)
        rows = [
            (mono(p.buffer), f"{p.offset_bytes:,}", size_text(p.size_bytes), f"{p.first}..{p.last}")
            for p in sorted(placed, key=lambda p: (p.offset_bytes, p.first))
        ]
        head = ("buffer", "offset", "size", "lives over nodes")
        title = paragraph(strong(memory.name), f": {size_text(used)}{share}")
        parts += [title, bar, table(head, rows, numbers=head[1:])]
    return join(parts)


def _bar(share: float, program: TileProgram, memory: str) -> Markup:
    colour = colour_of(memory, tuple(m.name for m in program.machine.memories))
    width = math.ceil(min(1.0, share) * 100)
    inner = tag("div", style=f"width:{width}%;height:10px;background:{colour.line};")
    return tag("div", inner, style="width:320px;max-width:100%;border:1px solid #8a8a8a;")
