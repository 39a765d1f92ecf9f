"""``septran schema``: the JSON Schemas that editors complete YAML files with."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from septran.commands.arguments import emit


class FileKind(StrEnum):
    """The files that have a schema."""

    mapping = "mapping"
    dispatch = "dispatch"
    machine = "machine"


Which = Annotated[FileKind, typer.Argument(help="Which kind of file.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(schema)


def schema(kind: Which, output: Output = None) -> None:
    """Print the JSON Schema of mapping, dispatch or machine files, for editors.

    \b
    Examples:
      septran schema mapping -o mapping.schema.json
      septran schema machine
    Then the first line of a mapping file can be
      # yaml-language-server: $schema=mapping.schema.json
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.machine.schema import machine_schema
    from septran.mapping.dispatch.reading import dispatch_schema
    from septran.mapping.schema import mapping_schema

    schemas = {
        FileKind.mapping: mapping_schema,
        FileKind.dispatch: dispatch_schema,
        FileKind.machine: machine_schema,
    }
    emit(json.dumps(schemas[kind](), indent=2) + "\n", output)
