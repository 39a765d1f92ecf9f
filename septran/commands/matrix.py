"""``septran matrix``: every operator of the library on every machine that runs here."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json, split_on, workers_of

On = Annotated[
    list[str] | None,
    typer.Option(
        "--on", metavar="MACHINES",
        help="Machines, with commas between; all if absent. Repeatable.",
    ),
]  # fmt: skip
Operators = Annotated[
    str | None,
    typer.Option("--operators", metavar="NAMES", help="Operators, likewise; all if absent."),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=1, help="Processes side by side; times suffer.")
]
First = Annotated[bool, typer.Option("--first", help="Only the first case of each operator.")]
Emulate = Annotated[
    bool,
    typer.Option("--emulate", help="Run generated GPU code on the CPU, in every order of events."),
]
Markdown = Annotated[
    bool, typer.Option("--markdown", help="The table of the manual: one row an operator.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(matrix)


def matrix(
    on: On = None,
    operators: Operators = None,
    jobs: Jobs = 1,
    workers: options.Workers = None,
    first: First = False,
    emulate: Emulate = False,
    markdown: Markdown = False,
    as_json: options.AsJson = False,
) -> None:
    """Run every operator on every machine, and compare with the exact results.

    Each case (`CASES` of the operator's file) is compiled by the machine's own mapping, run
    on the target, and checked by the error bound. A cell has the greatest error as a share of
    the bound, and the time of a call or its simulated cycles. What the compiler does not
    accept is refused, with the error's code. The exit code is 1 if a cell is wrong, or if all
    are refused.

    \b
    Examples:
      septran matrix
      septran matrix --on cpu-x86,dsa-sim --operators gemm,attention
      septran matrix --jobs 2 --json
      septran matrix --on dask://scheduler:8786
      septran matrix --emulate --on nvidia-h200 --first
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.machine.loader import load_machine
    from septran.matrix import EMULATED, MACHINES, measure_matrix

    def show(cell: Any) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{cell.case.operator} on {cell.machine}")

    asked, workers = split_on(",".join(on) if on else None, workers)
    machines = _split(asked) or (EMULATED if emulate else MACHINES)
    for name in machines:
        load_machine(name)  # raises before anything is run
    found = measure_matrix(
        _split(operators),
        machines,
        jobs=jobs,
        first=first,
        emulate=emulate,
        show=show,
        workers=workers_of(workers),
    )
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    if as_json:
        print_json([cell.to_dict() for cell in found.cells])
    else:
        typer.echo(found.to_markdown() if markdown else str(found))
    if found.failed:
        raise typer.Exit(1)


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
