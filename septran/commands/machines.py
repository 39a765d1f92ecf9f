"""``septran machines``: the machines that come with SepTran, and the parts of one."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import emit, print_json, require_writable
from septran.format_units import size_text

if TYPE_CHECKING:
    from septran.machine.model import Machine

One = Annotated[
    str | None,
    typer.Argument(metavar="[MACHINE]", help="A machine, by name or file; all if absent."),
]


Measure = Annotated[
    bool,
    typer.Option("--measure", help="Measure this host, and write a machine file of the figures."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where the file goes; printed if absent."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(machines)


def machines(
    machine: One = None,
    measure: Measure = False,
    output: Output = None,
    as_json: options.AsJson = False,
) -> None:
    """List the machines, show the parts of one, or measure the one that this host is.

    Measuring takes less than a minute, in which nothing else should run.

    \b
    Examples:
      septran machines
      septran machines cpu-x86
      septran machines --json
      septran machines --measure -o here.yaml
    """  # noqa: D301  # \b is typer's mark for lines to keep
    if measure:
        _measure(machine, output)
        return
    if output is not None:
        raise typer.BadParameter("is for --measure", param_hint="--output")
    from septran.machine.loader import load_machine, machine_names

    chosen = [load_machine(name) for name in (machine_names() if machine is None else [machine])]
    if as_json:
        rows = [_data(m) for m in chosen]
        print_json(rows[0] if machine else rows)
    elif machine:
        typer.echo(_details(chosen[0]))
    else:
        width, kinds = (max(map(len, words)) for words in _columns(chosen))
        for m in chosen:
            typer.echo(f"{m.name:{width}}  {m.backend:{kinds}}  {_state(m)}")


def _columns(chosen: list[Machine]) -> tuple[list[str], list[str]]:
    return [m.name for m in chosen], [m.backend for m in chosen]


def _measure(machine: str | None, output: Path | None) -> None:
    """Write the file of a machine, by default of the kind of this host's processor."""
    from septran.machine.loader import load_machine
    from septran.tuning.machine_file import machine_text
    from septran.tuning.survey import survey

    require_writable(output, "--output")
    kind = "cpu-arm" if platform.machine().lower() in ("aarch64", "arm64") else "cpu-x86"
    found = survey(load_machine(machine or kind))
    today = datetime.now(UTC).date()
    emit(machine_text(found, str(today)), output)


def _state(machine: Machine) -> str:
    """Return what can be done with a machine in this version."""
    from septran.backends import with_code
    from septran.mapping.loader import mapping_names

    able = "kernels can be built" if machine.backend in with_code() else "to inspect and interpret"
    return able if machine.name in mapping_names() else f"{able}; no mapping comes with it"


def _details(machine: Machine) -> str:

    lines = [f"{machine.name}: backend {machine.backend}, {_state(machine)}", "processors"]
    for p in machine.processors:
        of = f" in each {p.of}" if p.of else ""
        called = f" ({p.display_name})" if p.display_name else ""
        lines.append(f"  {p.name}: {p.count}{of}{called}")
    lines.append("memories")
    for m in machine.memories:
        size = size_text(m.capacity_bytes) if m.capacity_bytes is not None else "unbounded"
        lines.append(f"  {m.name}: {size}, one for each {m.visible_to}")
    if cache := machine.vendor.get("cache"):
        lines.append(f"  a cache before {machine.main_memory.name}: {size_text(cache)}")
    lines.append("engines")
    for e in machine.engines:
        kind = "asynchronous" if e.asynchronous else "synchronous"
        edges = ", ".join(f"{a} -> {b}" for a, b in e.moves)
        lines.append(f"  {e.name}: {kind}, {edges}")
    lines.append("instructions")
    lines += [f"  {i.name}: {i.primitive}" for i in machine.instructions]
    return "\n".join(lines)


def _data(machine: Machine) -> dict[str, Any]:
    from septran.backends import with_code
    from septran.mapping.loader import mapping_names
    from septran.views.text.plain import plain

    data: dict[str, Any] = plain(machine)
    data["has_mapping"] = machine.name in mapping_names()
    data["can_build"] = machine.backend in with_code()
    return data
