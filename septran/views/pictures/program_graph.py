"""The drawing of a tile program: buffers by memory, copies, waits and what computes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from septran.dtypes import itemsize
from septran.format_units import size_text
from septran.tile.layouts import ROW
from septran.tile.nodes import (
    Acquire,
    Buffer,
    Compute,
    Copy,
    TileProgram,
    Wait,
    nodes,
    reads,
    writes,
)
from septran.tile.printer import to_text
from septran.views.pictures import colours
from septran.views.pictures.drawing import Drawing, label, new, tooltip
from septran.views.text.movements import Movement, amount_of, movements

Place = tuple[str, str, str]
"""What computes: the task's path, the primitive and the instruction."""


def draw_tile_program(program: TileProgram) -> Drawing:
    """Buffers clustered by memory; thick arrows copy, dashed ones wait, thin ones compute.

    The numbers on the arrows are those of `movements`, whose list gives the reasons.
    """
    drawing = new(program.name, "LR")
    drawing.outline = to_text(program, origins=True)
    names = {buffer.name: f"b{n}" for n, buffer in enumerate(program.buffers)}
    memories = tuple(m.name for m in program.machine.memories)
    used = dict.fromkeys(b.memory for b in program.buffers)
    order = [m for m in memories if m in used] + [m for m in used if m not in memories]
    for number, memory in enumerate(order):
        with drawing.subgraph(name=f"cluster_{number}") as cluster:
            colour = colours.colour_of(memory, memories)
            cluster.attr(
                label=label(memory), style="rounded,filled", fillcolor=colour.tint,
                color=colour.line, labeljust="l",
            )  # fmt: skip
            for buffer in program.buffers:
                if buffer.memory == memory:
                    why = tooltip(str(buffer.origin) if buffer.origin else buffer.name)
                    cluster.node(names[buffer.name], label=_buffer_label(buffer), tooltip=why)
    found = movements(program)
    places = _draw_computes(drawing, program, names)
    _draw_copies(drawing, program, found, names)
    _draw_waits(drawing, program, found, names, places)
    return drawing


def _buffer_label(buffer: Buffer) -> str:
    shape = ", ".join(map(str, buffer.shape))
    size = math.prod(buffer.shape) * itemsize(buffer.dtype)
    lines = [buffer.name, f"{buffer.dtype}[{shape}], {size_text(size)}"]
    if buffer.layout != ROW:
        lines.append(f"layout {buffer.layout}")
    if buffer.stages > 1:
        lines.append(f"{buffer.stages} stages")
    return label(*lines)


def _short(path: str) -> str:
    """The last two tasks of a path."""
    short = "/".join(path.split("/")[-2:])
    return short if short == path else f"…/{short}"


def _place(node: Compute) -> Place:
    return node.origin.task, node.primitive, node.instruction


def _draw_computes(
    drawing: Drawing, program: TileProgram, names: dict[str, str]
) -> dict[Place, str]:
    """One node for each task's use of an instruction, with what it reads and writes."""
    groups: dict[Place, list[Compute]] = {}
    for node in nodes(program.body):
        if isinstance(node, Compute):
            groups.setdefault(_place(node), []).append(node)
    places = {place: f"c{n}" for n, place in enumerate(groups)}
    for place, members in groups.items():
        task, primitive, instruction = place
        title = f"{primitive} by {instruction}"
        places_text = [f"{len(members)} places"] if len(members) > 1 else []
        lines = [title, _short(task), *places_text]
        drawing.node(
            places[place], label=label(*lines, align="n"), shape="ellipse", style="filled",
            fillcolor="#ffffff", tooltip=tooltip(str(members[0].origin)),
        )  # fmt: skip
        written = dict.fromkeys(r.buffer for m in members for r in writes(m))
        read = dict.fromkeys(r.buffer for m in members for r in reads(m))
        for name in read:
            both = "both" if name in written else "forward"
            drawing.edge(names[name], places[place], color="#9a9a94", dir=both)
        for name in written:
            if name not in read:
                drawing.edge(places[place], names[name], color="#9a9a94")
    return places


@dataclass
class _Arrow:
    """Copies along one pair of buffers by one engine, drawn as one."""

    members: list[Movement] = field(default_factory=list)

    @property
    def numbers(self) -> str:
        return ", ".join(str(m.number) for m in self.members)

    @property
    def reasons(self) -> str:
        return "; ".join(dict.fromkeys(str(m.origin) for m in self.members))


def _draw_copies(
    drawing: Drawing, program: TileProgram, found: Iterable[Movement], names: dict[str, str]
) -> None:
    arrows: dict[tuple[str, str, str, bool], _Arrow] = {}
    for movement in found:
        if isinstance(node := movement.node, Copy):
            key = (node.source.buffer, node.target.buffer, node.engine, node.channel is not None)
            arrows.setdefault(key, _Arrow()).members.append(movement)
    memories = tuple(m.name for m in program.machine.memories)
    for (source, target, engine, asynchronous), arrow in arrows.items():
        amounts = dict.fromkeys(amount_of(m) for m in arrow.members)
        each = " each" if len(amounts) < len(arrow.members) else ""
        amount = " + ".join(amounts) + each
        by = f"{engine}, asynchronous" if asynchronous else engine
        what = f" {arrow.numbers}: copy {amount} "
        drawing.edge(
            names[source], names[target], label=label(what, f" {by}"),
            color=colours.colour_of(program.buffer(target).memory, memories).line,
            penwidth="2.2", tooltip=tooltip(arrow.reasons),
        )  # fmt: skip


def _draw_waits(
    drawing: Drawing,
    program: TileProgram,
    found: Iterable[Movement],
    names: dict[str, str],
    places: dict[Place, str],
) -> None:
    """A wait leads from what arrives to who reads it; an acquire, back again."""
    arrows: dict[tuple[str, str, str], _Arrow] = {}
    for movement in found:
        node = movement.node
        if not isinstance(node, Wait | Acquire):
            continue
        buffers = set(program.channel(node.channel).buffers)
        reader = _reader(program, buffers, places)
        # One arrow for a channel is enough, as its buffers arrive together.
        for buffer in sorted(buffers & names.keys())[:1]:
            ends = (names[buffer], reader or names[buffer])
            start, end = ends if isinstance(node, Wait) else ends[::-1]
            arrows.setdefault((start, end, movement.kind), _Arrow()).members.append(movement)
    for (start, end, kind), arrow in arrows.items():
        drawing.edge(
            # Without a say in the ranks: boxes stand in the order in which data flows.
            start, end, label=label(f" {arrow.numbers}: {kind} "), style="dashed",
            color=colours.VERMILION.line, tooltip=tooltip(arrow.reasons), constraint="false",
        )  # fmt: skip


def _reader(program: TileProgram, buffers: set[str], places: dict[Place, str]) -> str | None:
    """The first that computes with one of the buffers."""
    for node in nodes(program.body):
        if isinstance(node, Compute) and any(r.buffer in buffers for r in reads(node)):
            return places[_place(node)]
    return None
