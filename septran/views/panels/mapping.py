"""The resolved mapping as HTML: who runs each task, where its tensors are, who decided."""

from __future__ import annotations

from septran.machine.model import Machine
from septran.mapping.keys import MEMS
from septran.mapping.resolved import Instance, ResolvedMapping, Setting
from septran.views.pictures.colours import colour_of
from septran.views.pictures.html import (
    Markup,
    chip,
    code,
    details,
    faint,
    join,
    mono,
    paragraph,
    picture,
    strong,
    table,
)
from septran.views.text.outline import memory_text
from septran.views.text.remarks import remarks_table


def mapping_panel(resolved: ResolvedMapping, svg: str | None = None) -> Markup:
    """The drawing, each instance with its reasons, decisions, the mapping as YAML."""
    machine = resolved.machine
    facts = f"{len(resolved.instances)} instances on {machine.name}"
    facts += f", from {resolved.file}" if resolved.file else ""
    parts = [paragraph(facts)]
    if svg:
        alt = f"Resolved mapping of {resolved.tree.name} on {machine.name}"
        parts.append(details("drawing", picture(svg, alt), open=True))
    parts += [_instance(instance, machine) for instance in resolved.instances]
    if resolved.decisions:
        head = f"decisions ({len(resolved.decisions)})"
        parts.append(details(head, remarks_table(resolved.decisions), open=True))
    parts.append(details("as text", code(str(resolved), "yaml")))
    return join(parts)


def memory_chip(name: str, machine: Machine) -> Markup:
    """A memory's name on its colour."""
    return chip(name, colour_of(name, tuple(m.name for m in machine.memories)))


def _instance(instance: Instance, machine: Machine) -> Markup:
    mems = join(
        (
            join([mono(tensor), " ", memory_chip(place.memory, machine)])
            for tensor, place in instance.mems.items()
        ),
        "  ",
    )
    head = join([strong(instance.name), " on ", mono(instance.proc), "  ", mems])
    rows = [
        _row(key, name, setting, memory_text(instance, name) if key == MEMS.path else "")
        for key, name, setting in instance.rows()
    ]
    runs = f"runs {instance.path}" + (f", {instance.where}" if instance.where else "")
    return details(head, faint(runs), table(("key", "of", "value", "because", "line"), rows))


def _row(key: str, name: str, setting: Setting[object], text: str = "") -> tuple[object, ...]:
    where = str(setting.where) if setting.where else ""
    return key, mono(name), mono(text or setting.value), setting.reason, faint(where)
