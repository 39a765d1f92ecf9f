"""``septran compare``: one logic under several mappings, stage by stage."""

from __future__ import annotations

from typing import Annotated

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json, request

Mappings = Annotated[
    list[str] | None,
    typer.Argument(metavar="MAPPING...", help="Two or more mapping files or machines."),
]
On = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="MACHINE", help="A machine, as a MAPPING. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


def compare(
    logic: options.Logic,
    mappings: Mappings = None,
    on: On = None,
    shape: options.Sizes = None,
    dtype: options.Dtypes = None,
    tunable: options.Tunables = None,
    static: options.Static = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what differs between mappings: keys, stages, copies, bytes, predicted time.

    \b
    Examples:
      septran compare gemm cpu-x86 dsa-sim
      septran compare gemm mine.mapping.yaml theirs.mapping.yaml -s M=512 -s N=384 -s K=256
    """  # noqa: D301  # \b is typer's mark for lines to keep
    import septran
    from septran.views.comparisons.comparison import Comparison, labels

    mappings = [*(mappings or ()), *(on or ())]
    if len(mappings) < 2:
        raise typer.BadParameter("there must be two or more", param_hint="MAPPING...")
    explanations = []
    for mapping in mappings:
        asked = request(logic, None, mapping, shape, dtype, tunable, static)
        explanations.append(septran.explain(asked.logic, asked.mapping, **asked.settings))
    comparison = Comparison(labels(mappings), tuple(explanations))
    if as_json:
        print_json(comparison.to_dict())
    else:
        typer.echo(str(comparison).rstrip("\n"))
