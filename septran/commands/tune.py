"""``septran tune``: search the values that a mapping leaves open, and write the best."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import (
    CommandOptions,
    emit,
    name_and_value,
    print_json,
    request,
    require_writable,
    rows_of,
    split_on,
    value_of,
    workers_of,
)

if TYPE_CHECKING:
    from septran.mapping.mapping import MappingFile
    from septran.tuning.many_shapes import TunedShapes
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
ShapesFile = Annotated[
    Path | None,
    typer.Option(
        "--shapes", metavar="FILE",
        help="A CSV file of many shapes, as of `septran warm --sizes`: one dispatch file for all.",
    ),
]  # fmt: skip
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the best as a mapping file."),
]


BAR = 20
"""The characters of the bar that shows how far a search is."""


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
    workers: options.Workers = None,
    shapes: ShapesFile = None,
    output: Output = None,
    as_json: options.AsJson = False,
) -> None:
    """Search for a faster mapping: rank by the model, run, check, time, write the best.

    Without --try, and without `!tune` in the mapping, all that it decides is searched, and the
    best extends it by a few lines. Each candidate is run in a process of its own and its result
    compared with the exact one. Ctrl-C ends the search; what was found until then is shown and
    written. The exit code is 1 where no candidate is right.

    \b
    Examples:
      septran tune softmax -s M=4096 -s N=1000 -o softmax.mapping.yaml
      septran tune gemm --shapes models.csv --runs 12 -o gemm.dispatch.yaml
      septran tune gemm --on cpu-x86 --try block_M=36,64,96 --try block_N=32,48,64
      septran tune gemm --on dsa-sim --try block_M=32,64,128 -o gemm.mapping.yaml
      septran tune attention -m mine.mapping.yaml -s N=4096 --runs 20 --seconds 60
      septran tune gemm --on nvidia-h200 --dtype float16 --try block_K=32,64,128 --model
      septran tune softmax --on dsa-sim --try block_rows=2,4 --journal t.sqlite
      septran tune gemm --on dsa-sim --runs 64 --workers dask://scheduler:8786
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.tuning.tuning import Tuning

    require_writable(output, "--output")
    on, workers = split_on(on, workers)
    if shapes is not None and workers is not None:
        raise typer.BadParameter("one shape at a time", param_hint="--workers with --shapes")
    rows: list[list[str]] = [[]] if shapes is None else rows_of(shapes, "--shapes")
    asked = [
        request(logic, on, mapping, [*(shape or []), *row], dtype, tunable, static) for row in rows
    ]
    _require_kept(output, asked[0].mapping)
    limits = {"runs": runs, "seconds": seconds, "patience": patience}
    named = {"tried": dict(map(_tried, tried or ())), "model": model, "journal": journal}
    named["workers"] = workers_of(workers)
    searches = [_search(one, limits, named) for one in asked]
    found = searches[0].run() if shapes is None else _for_all(searches)
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))
    if isinstance(found, Tuning):
        found.require_right()
    if output is not None:
        emit(found.to_yaml(), output)


def _require_kept(output: Path | None, mapping: MappingFile) -> None:
    """Raise typer.BadParameter for an output that loses what is there, or finds no parent."""
    from septran.tuning.writing import MARK, WrittenMapping

    if output is None:
        return
    source = WrittenMapping.of(mapping)
    if source.folder and not source.base and output.parent.resolve() != source.folder.resolve():
        message = f"what is found extends {mapping.file}: write it beside that file"
        raise typer.BadParameter(message, param_hint="--output")
    mine = Path(mapping.file).resolve() == output.resolve()
    found = output.exists() and output.read_text("utf-8", "replace").startswith(MARK)
    if output.exists() and (mine or not found):
        message = f"{output} exists and would be lost: choose another name"
        raise typer.BadParameter(message, param_hint="--output")


def _search(asked: CommandOptions, limits: dict[str, Any], named: dict[str, Any]) -> Search:
    from septran.tuning.tuner import SearchLimits, search

    return search(
        asked.logic, asked.mapping, tried=named["tried"], limits=SearchLimits(**limits),
        measured=False if named["model"] else None, journal=named["journal"], report=_report,
        workers=named["workers"],
        **asked.settings,
    )  # fmt: skip


def _for_all(searches: list[Search]) -> TunedShapes:
    from septran.tuning.many_shapes import tune_many

    return tune_many(searches)


def _tried(text: str) -> tuple[str, list[Any]]:
    name, values = name_and_value(text, "--try")
    parts: Iterable[str] = (part.strip() for part in values.split(","))
    return name, [value_of(part) for part in parts if part]


def _report(search: Search, trial: Trial, total: int) -> None:
    """Return a line that is written over on a terminal."""
    if not sys.stderr.isatty():
        return
    from septran.views.tuning import note

    del trial, total  # the phase says where it is in words
    phase = search.phase
    bar = "#" * round(BAR * phase.done / max(1, phase.total))
    left = f", at most {phase.left:.0f} s left" if phase.done else ""
    sys.stderr.write(
        f"\r\033[K[{bar:<{BAR}}] {phase.done} {phase.name} of {phase.total}{left}; "
        f"{note(search.result())}"
    )
