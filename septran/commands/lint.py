"""``septran lint``: the mistakes of mapping, dispatch and machine files; no logic is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.backends import backend_of
from septran.commands import arguments as options
from septran.commands.arguments import print_json

if TYPE_CHECKING:
    from septran.errors import SepTranError

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Mapping, dispatch or machine files (YAML).")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lint)


def lint(files: Files, as_json: options.AsJson = False) -> None:
    """Find all mistakes of mapping, dispatch and machine files; no logic is imported or run.

    `septran explain` finds mistakes that depend on an operator, such as exceeded capacities.

    \b
    Examples:
      septran lint mappings/cpu-x86.mapping.yaml
      septran lint my-machine.yaml mine.mapping.yaml --json
    """  # noqa: D301  # \b is typer's mark for lines to keep
    for file in files:
        if file.suffix not in (".yaml", ".yml"):
            raise typer.BadParameter(f"{file} is no YAML file", param_hint="FILE")
    results = [(file, *_examined(file)) for file in files]
    if as_json:
        print_json(
            [
                {
                    "file": str(file), "kind": kind, "summary": summary,
                    "mistakes": [_mistake(error) for error in errors],
                }
                for file, kind, summary, errors in results
            ]
        )  # fmt: skip
    else:
        for file, kind, summary, errors in results:
            if errors:
                typer.echo("\n".join(map(str, errors)), err=True)
            else:
                typer.echo(f"{file}: a right {kind} file: {summary}")
    count = sum(len(errors) for *_, errors in results)
    if count and not as_json:
        typer.echo(f"{count} mistake{'s' if count > 1 else ''}.", err=True)
    if count:
        raise typer.Exit(1)


def _examined(file: Path) -> tuple[str, str, tuple[SepTranError, ...]]:
    """Return the kind of a file, its content, and its mistakes."""
    from septran.errors import Errors, SepTranError

    kind = _kind(file)
    try:
        return kind, _summary(file, kind), ()
    except Errors as errors:
        return kind, "", errors.errors
    except SepTranError as error:
        return kind, "", (error,)


def _kind(file: Path) -> str:
    """Return the kind of a file, by its content if it can be read, else by its name."""
    from septran.errors import MappingError, SepTranError
    from septran.machine.positions import parse, read_text

    if file.name.endswith((".mapping.yaml", ".mapping.yml")):
        return "mapping"
    try:
        keys = parse(read_text(file, MappingError, MappingError), str(file), MappingError).items
    except SepTranError:
        return "mapping"
    if "dispatch" in keys:
        return "dispatch"
    return "machine" if keys.keys() & {"backend", "processors", "memories"} else "mapping"


def _summary(file: Path, kind: str) -> str:
    from septran.machine.loader import load_machine
    from septran.mapping.loader import load_mapping
    from septran.tile.analyses.temporaries import advice

    if kind == "machine":
        machine = load_machine(file)
        backend_notes = tuple(backend_of(machine.backend).lint(machine))
        former = (f"{f.where}: {f.message}; {f.hint}" for f in machine.former_keys)
        notes = "".join(f"\n  note: {text}" for text in (*advice(machine), *backend_notes, *former))
        levels, places = len(machine.processors), len(machine.memories)
        return (
            f"{machine.name}, {levels} processor levels, {places} memories, "
            f"{len(machine.engines)} engines, {len(machine.instructions)} instructions{notes}"
        )
    mapping = load_mapping(file)
    parts = [f"for {mapping.machine.name}"]
    if mapping.cases:
        parts.append(f"{len(mapping.cases)} cases with `otherwise`")
    if mapping.rules:
        parts.append(f"{len(mapping.rules)} rules")
    if mapping.instances:
        parts.append(f"{len(mapping.instances)} instances")
    if mapping.dimensions:
        parts.append(f"{mapping.space().size} combinations to search")
    return ", ".join(parts)


def _mistake(error: SepTranError) -> dict[str, Any]:
    where = error.where
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
    }
