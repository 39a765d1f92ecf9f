"""``septran fuzz``: random programs against float64."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json

Seed = Annotated[int, typer.Option("--seed", help="The first program's seed.")]
Programs = Annotated[int, typer.Option("--programs", "-n", min=1, help="How many programs.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every program.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fuzz)


def fuzz(
    seed: Seed = 0,
    programs: Programs = 100,
    verbose: Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Run random programs: logic, mapping, shapes and dtypes together.

    Each is compiled for the CPU and interpreted under adversarial schedules for one of
    the machines, and every element is compared with float64 by the error bound.

    \b
    Examples:
      septran fuzz --programs 1000
      septran fuzz --seed 4711 --programs 1 --verbose
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.fuzz import run_campaign

    def show(outcome: Any) -> None:
        if verbose and not as_json:
            typer.echo(str(outcome))

    campaign = run_campaign(seed, programs, show)
    if as_json:
        print_json(
            [
                {"seed": o.case.seed, "kind": o.kind, "message": o.message, "worst": o.worst}
                for o in campaign.outcomes
            ]
        )
    else:
        typer.echo(str(campaign))
    if campaign.failures:
        raise typer.Exit(1)
