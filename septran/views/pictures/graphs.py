"""Drawings of stages: the task tree, the resolved mapping, the tile program."""

from __future__ import annotations

from collections.abc import Iterator

from septran.machine.model import NONE, Machine
from septran.mapping.keys import PIPELINE, WARPSPECIALIZE
from septran.mapping.resolved import Instance, ResolvedMapping
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Param,
    Primitive,
    TaskNode,
    TaskTree,
)
from septran.task.tree import Statement as TaskStatement
from septran.views.pictures import colours
from septran.views.pictures.drawing import Drawing, boxed, cell, label, new, tooltip
from septran.views.text.outline import (
    Extents,
    extents_of,
    mapping_outline,
    statement_text,
    tree_outline,
    view_text,
)

BOXES = 120
"""Tasks and loops that a drawing shows; the text has all."""
LEAF_LINES = 6
"""Statements of a leaf that its box shows."""


def draw_task_tree(tree: TaskTree) -> Drawing:
    """Tasks, the loops in them, and launches labelled with the tiles they pass."""
    drawing = new(tree.name)
    drawing.outline = tree_outline(tree)
    _Tasks(drawing).task(tree.root)
    return drawing


class _Tasks:
    """Adds the nodes of a tree to a drawing, each under a number of its own."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing, self.count = drawing, 0

    def fresh(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def task(self, node: TaskNode) -> str:
        name, tint = self.fresh(), colours.GREEN.tint if node.leaf else "#ffffff"
        self.drawing.subjects[name] = node
        lines = [*_task_lines(node)]
        self.drawing.node(
            name, label=label(*lines), fillcolor=tint, tooltip=tooltip(f"{node.path} {node.doc}")
        )
        self.body(node.body, name, extents_of(node))
        return name

    def body(self, body: tuple[TaskStatement, ...], parent: str, known: Extents) -> None:
        for statement in body:
            if self.count >= BOXES and isinstance(statement, Loop | Launch):
                self.drawing.node("more", label=label("… more: see the text"), style="dashed")
                self.drawing.edge(parent, "more", style="dashed")
                return
            if isinstance(statement, Loop):
                self.drawing.edge(parent, self.loop(statement, known))
            elif isinstance(statement, Launch):
                tiles = _tile_lines(statement, known)
                child = self.task(statement.task)
                why = tooltip(f"launched at {statement.location}")
                self.drawing.edge(parent, child, label=label(*tiles), tooltip=why)

    def loop(self, loop: Loop, known: Extents) -> str:
        name = self.fresh()
        self.drawing.subjects[name] = loop
        tint = (colours.SKY if loop.parallel else colours.GREY).tint
        text = statement_text(loop, known).rstrip(":")
        self.drawing.node(name, label=label(text), shape="box", style="filled", fillcolor=tint)
        self.body(loop.body, name, known)
        return name


def _task_lines(node: TaskNode) -> Iterator[str]:
    variant = f" (variant {node.variant})" if node.variant != node.name else ""
    yield f"{'leaf' if node.leaf else 'task'} {node.name}{variant}"
    for param in node.params:
        shape = ", ".join(map(str, param.shape))
        yield f"{param.name}: {param.dtype}[{shape}]  {param.privilege}"
    for name, value in node.tunables:
        yield f"{name} = {value}"
    inside = [s for s in node.body if isinstance(s, Allocate | Assign | Primitive)]
    known = extents_of(node)
    yield from (statement_text(s, known) for s in inside[:LEAF_LINES])
    if len(inside) > LEAF_LINES:
        yield f"… {len(inside) - LEAF_LINES} more statements"


def _tile_lines(launch: Launch, known: Extents) -> list[str]:
    """The tiles that are passed; tensors passed whole under their own name, by name alone."""
    lines, whole = [], []
    for param, view in zip(launch.task.params, launch.arguments, strict=True):
        text = view_text(view, known)
        if text == param.name:
            whole.append(text)
        else:
            lines.append(f" {param.name} = {text}")
    return lines + ([f" {', '.join(whole)}"] if whole else [])


def draw_mapping(resolved: ResolvedMapping) -> Drawing:
    """Instances clustered by processor, a coloured row for the memory of each tensor."""
    drawing = new(f"{resolved.tree.name}_mapping")
    drawing.outline = mapping_outline(resolved)
    machine = resolved.machine
    used = [i.proc.value for i in resolved.instances]
    levels = [p.name for p in machine.processors if p.name in used]
    levels += sorted(set(used) - set(levels))
    names = {instance.path: f"i{n}" for n, instance in enumerate(resolved.instances)}
    for number, level in enumerate(levels):
        with drawing.subgraph(name=f"cluster_{number}") as cluster:
            cluster.attr(
                label=label(_processor_text(machine, level)), style="rounded,filled",
                fillcolor=("#f1f1ec", "#e9e9e3")[number % 2], color=colours.LINE,
                labeljust="l", labelloc="b",
            )  # fmt: skip
            for instance in resolved.instances:
                if instance.proc.value == level:
                    text = _instance_label(instance, machine)
                    cluster.node(names[instance.path], label=text, shape="plain", style="")
    for task in resolved.tree.tasks():
        for launch in task.launches():
            _draw_launch(drawing, resolved, task, launch, names)
    return drawing


def _processor_text(machine: Machine, name: str) -> str:
    try:
        processor = machine.processor(name)
    except KeyError:
        return name
    count = f" x {processor.count} of {processor.of}" if processor.of else ""
    called = f"  ({processor.display_name})" if processor.display_name else ""
    return f"{processor.name}{count}{called}"


def _instance_label(instance: Instance, machine: Machine) -> str:
    memories = tuple(m.name for m in machine.memories)
    rows = [cell(instance.name, ALIGN="LEFT")]
    task = instance.path.rpartition("/")[2]
    if task != instance.name:
        rows.append(cell(f"runs {task}", ALIGN="LEFT"))
    for tensor, place in instance.mems.items():
        text = f"{tensor}: {'in place, ' if place.value == NONE else ''}{place.memory}"
        tint = colours.colour_of(place.memory, memories).tint
        rows.append(cell(text, PORT=f"p{len(rows)}", BGCOLOR=tint, ALIGN="LEFT"))
    rows += [cell(f"{k} = {v}", ALIGN="LEFT") for k, v in instance.tunables.items()]
    rows += [cell(f"{k} by {v}", ALIGN="LEFT") for k, v in instance.bindings.items()]
    pipeline = instance.settings.get(PIPELINE)
    if pipeline.value > 1:
        rows.append(cell(f"pipeline {pipeline}", ALIGN="LEFT"))
    if instance.settings.get(WARPSPECIALIZE).value:
        rows.append(cell("producer and consumer roles", ALIGN="LEFT"))
    return boxed(rows, colours.LINE)


def _draw_launch(
    drawing: Drawing,
    resolved: ResolvedMapping,
    caller: TaskNode,
    launch: Launch,
    names: dict[str, str],
) -> None:
    """A plain arrow, or one coloured arrow for each tensor whose memory changes."""
    outer, inner = resolved.instance(caller.path), resolved.instance(launch.task.path)
    memories = tuple(m.name for m in resolved.machine.memories)
    moved = False
    for param, view in zip(launch.task.params, launch.arguments, strict=True):
        source, place = outer.mems[view.tensor].memory, inner.mems[param.name]
        if source == place.memory:
            continue
        moved = True
        line = colours.colour_of(place.memory, memories).line
        direction, way = _way(param, source, place.memory)
        drawing.edge(
            names[caller.path], names[launch.task.path], label=label(f" {way} "),
            color=line, penwidth="1.8", tooltip=tooltip(f"{way}: {place.reason}"), dir=direction,
        )  # fmt: skip
    if not moved:
        drawing.edge(names[caller.path], names[launch.task.path])


def _way(param: Param, outer: str, inner: str) -> tuple[str, str]:
    """The arrow and the words for a tensor that is in two memories."""
    if param.reads and param.writes:
        return "both", f"{param.name}: {outer} to {inner} and back"
    if param.writes:
        return "back", f"{param.name}: {inner} to {outer}"
    return "forward", f"{param.name}: {outer} to {inner}"
