"""``septran journal``: what searches have tried."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json

File = Annotated[Path, typer.Argument(metavar="FILE", help="A journal of `septran tune`.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(journal)


def journal(file: File, as_json: options.AsJson = False) -> None:
    """List all candidates that searches with `--journal FILE` have tried.

    \b
    Examples:
      septran journal tried.sqlite
      septran journal tried.sqlite --json
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.tuning.journal import Journal, JournalError

    if not file.exists():
        raise JournalError(f"there is no {file}", hint="septran tune ... --journal FILE makes one")
    found = Journal.at(file)
    if as_json:
        print_json([{**asdict(entry), "values": entry.point} for entry in found.entries])
    else:
        typer.echo(str(found))
