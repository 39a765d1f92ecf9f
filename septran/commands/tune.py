"""``septran tune``: search the values that a mapping leaves open, and write the best."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import (
    emit,
    name_and_value,
    print_json,
    request,
    require_writable,
    value_of,
)

if TYPE_CHECKING:
    from septran.tuning.tuner import Search
    from septran.tuning.tuning import Trial

Try = Annotated[
    list[str] | None,
    typer.Option(
        "--try", metavar="NAME=A,B,...",
        help="Values to try for a tunable, beside the mapping's own !tune. Repeatable.",
    ),
]  # fmt: skip
Runs = Annotated[int, typer.Option("--runs", min=1, help="Candidates that are run at most.")]
Seconds = Annotated[
    float | None, typer.Option("--seconds", help="After which no other candidate is begun.")
]
Patience = Annotated[
    float, typer.Option("--patience", help="Seconds that one candidate may take to run.")
]
Model = Annotated[
    bool, typer.Option("--model", help="Run nothing: the performance model alone decides.")
]
JournalFile = Annotated[
    Path | None,
    typer.Option(
        "--journal", metavar="FILE",
        help="Take what was tried before from this file, and write what is tried to it.",
    ),
]  # fmt: skip
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the best as a mapping file."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(tune)


def tune(
    logic: options.Logic,
    on: options.On = None,
    mapping: options.MappingPath = None,
    shape: options.Sizes = None,
    dtype: options.Dtypes = None,
    tunable: options.Tunables = None,
    static: options.Static = None,
    tried: Try = None,
    runs: Runs = 32,
    seconds: Seconds = None,
    patience: Patience = 30.0,
    model: Model = False,
    journal: JournalFile = None,
    output: Output = None,
    as_json: options.AsJson = False,
) -> None:
    """Search a mapping's `!tune` values: rank by the model, run, check, time, write the best.

    Each candidate is run in a process of its own and its result compared with the exact one.
    Ctrl-C ends the search; what was found until then is shown and written. The exit code is
    1 where no candidate is right.

    \b
    Examples:
      septran tune gemm --on cpu-x86 --try block_M=36,64,96 --try block_N=32,48,64
      septran tune gemm --on dsa-sim --try block_M=32,64,128 -o gemm.mapping.yaml
      septran tune attention -m mine.mapping.yaml -s N=4096 --runs 20 --seconds 60
      septran tune gemm --on nvidia-h200 --dtype float16 --try block_K=32,64,128 --model
      septran tune softmax --on dsa-sim --try block_rows=2,4,8 --journal tried.sqlite
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.tuning.tuner import SearchLimits, search

    require_writable(output, "--output")
    asked = request(logic, on, mapping, shape, dtype, tunable, static)
    found = search(
        asked.logic, asked.mapping, tried=dict(map(_tried, tried or ())),
        limits=SearchLimits(runs, seconds, patience), measured=False if model else None,
        journal=journal, report=_report, **asked.settings,
    )  # fmt: skip
    tuning = found.run()
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    if as_json:
        print_json(tuning.to_dict())
    else:
        typer.echo(str(tuning))
    tuning.best  # noqa: B018  # an error where nothing is right
    if output is not None:
        emit(tuning.to_yaml(), output)


def _tried(text: str) -> tuple[str, list[Any]]:
    name, values = name_and_value(text, "--try")
    parts: Iterable[str] = (part.strip() for part in values.split(","))
    return name, [value_of(part) for part in parts if part]


def _report(search: Search, trial: Trial, total: int) -> None:
    """Return a line that is written over on a terminal."""
    if not sys.stderr.isatty():
        return
    from septran.views.tuning import note

    done = sum(t.kind != "ranked" for t in search.trials.values())
    sys.stderr.write(f"\r\033[K{done} of {total}: {trial.kind}; {note(search.result())}")
