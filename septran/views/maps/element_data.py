"""An element's journey as data, text and static HTML."""

from __future__ import annotations

from typing import Any

from septran.ir.index import Var
from septran.tile.analyses.loops import walk
from septran.tile.nodes import Copy, Region
from septran.tile.printer import node_text
from septran.views.maps.element import ElementEvent, ElementPlace, Journey
from septran.views.maps.events import loop_values
from septran.views.pictures.html import Markup, join, mono, panel, paragraph, strong, table
from septran.views.text.origin_text import why_of

MOST = 400
"""Steps that are shown; an element that many blocks read has more of the same."""


def journey_data(journey: Journey) -> dict[str, Any]:
    """JSON-ready; what a click on another element needs is in it, too."""
    program = journey.program
    where = f"{program.name} on {program.machine.name}"
    return {
        "title": ", ".join(filter(None, (where, journey.supposition))),
        "tensor": journey.tensor,
        "at": list(journey.at),
        "output": journey.output,
        "tensors": [
            {"name": name, "shape": list(program.buffer(name).shape),
             "dtype": program.buffer(name).dtype, "output": name in program.outputs}
            for name in program.params
        ],
        "tile": tile_of(journey),
        "memories": _memories(journey),
        "tasks": tasks_of(journey),
        "total": len(journey.steps),
        "steps": [_step(journey, step) for step in journey.steps[:MOST]],
    }  # fmt: skip


def _memories(journey: Journey) -> list[str]:
    """Memories that the element is in, in order of first use."""
    places = [p for step in journey.steps for p in (step.source, step.target) if p]
    return list(dict.fromkeys(place.memory for place in places))


def tasks_of(journey: Journey) -> list[str]:
    """The paths of the task instances that it goes through, callers first."""
    paths: dict[str, None] = {}
    for step in journey.steps:
        names = step.event.node.origin.task.split("/")
        paths |= dict.fromkeys("/".join(names[: n + 1]) for n in range(len(names)))
    return sorted(paths, key=lambda path: (path.count("/"), path))


def tile_of(journey: Journey) -> dict[str, Any] | None:
    """The part of the tensor that is moved or computed together with the element, first."""
    for step in journey.steps if not journey.output else reversed(journey.steps):
        node, values = step.event.node, step.event.values
        regions = (node.source, node.target) if isinstance(node, Copy) else node.operands
        for region in regions:
            if region.buffer == journey.tensor:
                return _box(region, dict(values))
    return None


def _box(region: Region, values: dict[Var, int]) -> dict[str, Any]:
    extents = [max(1, valid.evaluate(values)) for valid in region.valid]
    low = [entry.evaluate(values) for entry in region.origin()]
    last = tuple(extent - 1 for extent in extents)
    high = [entry.evaluate(values) for entry in region.at(last)]
    pairs = [sorted(pair) for pair in zip(low, high, strict=True)]
    return {"low": [a for a, _ in pairs], "high": [b + 1 for _, b in pairs]}


def unit_of(journey: Journey, step: ElementEvent) -> str:
    """Return the unit that runs a step, ``CORE i=0, j=2``, and its role."""
    values = loop_values(step.event)
    for node, loops in walk(journey.program.body):
        if node is step.event.node:
            spread = [loop for loop in loops if loop.processor]
            parts = [f"{x.processor} {x.variable}={values[str(x.variable)]}" for x in spread]
            return ", ".join([*parts, *filter(None, [_role(step)])])
    return ""


def _role(step: ElementEvent) -> str:
    return "" if step.event.thread.startswith("the ") else step.event.thread


def _step(journey: Journey, step: ElementEvent) -> dict[str, Any]:
    node = step.event.node
    return {
        "kind": step.kind, "node": step.event.number, "text": node_text(node, journey.program),
        "source": _place(step.source), "target": _place(step.target),
        "operands": [{"text": str(o), "home": o.home} for o in step.operands],
        "loops": loop_values(step.event), "unit": unit_of(journey, step), "role": _role(step),
        "by": node.engine if isinstance(node, Copy) else node.instruction,
        "channel": (node.channel or "") if isinstance(node, Copy) else "",
        "task": node.origin.task, **why_of(node.origin),
    }  # fmt: skip


def _place(place: ElementPlace | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {"text": str(place), "buffer": place.buffer, "memory": place.memory,
            "address": place.address}  # fmt: skip


def _sentence(step: ElementEvent) -> str:
    if step.kind == "copy":
        return f"{step.source} -> {step.target}"
    if step.kind == "reads":
        return f"{step.event.node.instruction} reads {step.source}"  # type: ignore[union-attr]
    made = ", ".join(f"{o}{f' (from {o.home})' if o.home else ''}" for o in step.operands)
    return f"{step.target} = {step.event.node.instruction}({made})"  # type: ignore[union-attr]


def _addresses(step: ElementEvent) -> str:
    ends = [place for place in (step.source, step.target) if place]
    return " -> ".join(f"{place.memory} {place.address:,}" for place in ends)


def _loops(step: ElementEvent) -> str:
    return ", ".join(f"{name}={value}" for name, value in loop_values(step.event).items())


def journey_text(journey: Journey) -> str:
    """A line a step."""
    name = f"{journey.tensor}[{', '.join(map(str, journey.at))}]"
    copies = len(journey.copies)
    lines = [f"{name} in {journey.program.name}: {copies} copies, {len(journey.steps)} steps"]
    lines += [f"  {journey.supposition}"] if journey.supposition else []
    lines += [f"  task {path}" for path in tasks_of(journey)]
    for step in journey.steps[:MOST]:
        lines.append(f"  {_sentence(step)}  [{_addresses(step)}]  {_loops(step)}".rstrip())
    return "\n".join(lines) + "\n"


def journey_panel(journey: Journey) -> Markup:
    """A row a step: what happens, where, at which indices, and why."""
    name = f"{journey.tensor}[{', '.join(map(str, journey.at))}]"
    rows = [
        (n, mono(_sentence(step)), mono(_addresses(step)), mono(_loops(step)),
         step.event.node.origin.rule)
        for n, step in enumerate(journey.steps[:40], 1)
    ]  # fmt: skip
    more = len(journey.steps) - len(rows)
    return panel(
        join([strong(name), f" in {journey.program.name}: {len(journey.copies)} copies"]),
        paragraph(journey.supposition) if journey.supposition else "",
        paragraph("tasks: ", mono(" → ".join(tasks_of(journey)))),
        table(("", "what happens", "bytes from the start of the memory", "indices", "why"), rows),
        paragraph(f"and {more} steps more") if more > 0 else "",
    )
