"""The command line: ``septran COMMAND``. One file a command, in `septran.commands`."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from septran.commands import (
    cache,
    check,
    compare,
    doctor,
    emulate,
    explain,
    export,
    fuzz,
    journal,
    lint,
    machines,
    matrix,
    notebooks,
    ops,
    run,
    schema,
    servers,
    trust,
    tune,
    warm,
)
from septran.errors import SepTranError, full_traceback
from septran.torch_when_needed import import_torch_when_needed

COMMANDS = (
    run, explain, check, compare, tune, journal, lint, trust, schema, machines, ops, matrix, export,
    warm, emulate, fuzz, servers, notebooks, cache, doctor,
)  # fmt: skip
"""The commands, in the order of the help."""
MISTAKE = 1
"""The exit code of a user's mistake and of a wrong result; 2 means a wrong command line."""


# Of click, or of the copy of it that newer releases of typer have.
_UsageError: Any = typer.BadParameter.__base__


class _Group(TyperGroup):
    """Prints mistakes as they are, without a traceback into SepTran."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            raise _with_option(error) from None
        except SepTranError as error:
            if full_traceback():
                raise
            sys.stdout.flush()
            sys.stderr.write(f"{error}\n")
            raise typer.Exit(MISTAKE) from None
        except MemoryError as error:  # of sizes that are right, and too large for this host
            sys.stdout.flush()
            sys.stderr.write(f"not enough memory: {error}\n  hint: take smaller sizes, -s M=512\n")
            raise typer.Exit(MISTAKE) from None


def _with_option(error: Any) -> Exception:
    """Say how a mapping is passed, where one is an argument too many."""
    found = re.search(r"unexpected extra argument.*?([^\s(]+\.ya?ml)", error.message)
    if found is not None:
        error.message += f"; a mapping is passed by an option: -m {found[1]}"
    return cast(Exception, error)


app = typer.Typer(
    name="septran",
    cls=_Group,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from septran import __version__

        typer.echo(f"septran {__version__}")
        raise typer.Exit


@app.callback()
def septran(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Compile operators: what they compute in one file, how they run on hardware in another.

    Exit codes: 0 right, 1 a mistake in your files or a wrong result, 2 a wrong command line.
    With SEPTRAN_FULL_TRACEBACK=1 mistakes come with Python's traceback.
    """


for _module in COMMANDS:
    _module.register(app)


def main() -> None:
    """The entry point ``septran``."""
    import_torch_when_needed()
    app()
