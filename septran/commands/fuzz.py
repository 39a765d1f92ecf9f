"""``septran fuzz``: random programs against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json, split_on, workers_of

Seed = Annotated[int, typer.Option("--seed", min=0, help="The first program's seed.")]
Programs = Annotated[int, typer.Option("--programs", "-n", min=1, help="How many programs.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every program.")]
EmulateEach = Annotated[
    int,
    typer.Option(
        "--emulate-each", min=0,
        help="Every so many programs, run the code for a GPU in the emulator; 0 for never.",
    ),
]  # fmt: skip
Guard = Annotated[bool, typer.Option("--guard", help="Run CPU code between guard pages.")]
Scheduler = Annotated[
    str | None, typer.Option("--on", metavar="dask://HOST:PORT", help="The same as --workers.")
]
Keep = Annotated[Path, typer.Option("--keep", help="Folder for failures, made small.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fuzz)


def fuzz(
    seed: Seed = 0,
    programs: Programs = 100,
    verbose: Verbose = False,
    emulate_each: EmulateEach = 0,
    guard: Guard = False,
    workers: options.Workers = None,
    on: Scheduler = None,
    keep: Keep = Path("fuzz-failures"),
    as_json: options.AsJson = False,
) -> None:
    """Run random programs: logic, mapping, machine, shapes and element types together.

    Each runs as CPU code of two vector widths, interpreted under adversarial schedules for
    one of the machines, and as the machine's own code: on a simulated DSA with random delays,
    by an OpenCL driver, by JAX for a TPU, or, if requested, on the GPU emulator. Every element
    is compared with the exact result by the error bound.
    Failing programs are reduced, and written where one can read them.

    \b
    Examples:
      septran fuzz --programs 1000
      septran fuzz --seed 4711 --programs 1 --verbose
      septran fuzz --programs 50 --emulate-each 1
      septran fuzz --programs 50 --guard
      septran fuzz --programs 5000 --on dask://scheduler:8786
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.fuzz import CampaignSettings, run_campaign

    _, workers = split_on(on, workers)

    def show(outcome: Any) -> None:
        if verbose and not as_json:
            typer.echo(str(outcome))

    campaign = run_campaign(
        seed,
        programs,
        show,
        CampaignSettings(emulate_each, keep, guard, workers=workers_of(workers)),
    )
    if as_json:
        print_json(
            [
                {
                    "seed": o.case.seed, "family": o.case.kind, "machine": o.case.machine,
                    "kind": o.kind, "executor": o.executor, "message": o.message,
                    "worst": o.worst, "ran": list(o.ran), "kept": o.kept,
                }
                for o in campaign.outcomes
            ]
        )  # fmt: skip
    else:
        typer.echo(str(campaign))
    if campaign.failures:
        raise typer.Exit(1)
