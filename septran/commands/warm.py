"""``septran warm``: kernels of many shapes, compiled before a program calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json, request, rows_of

SizesFile = Annotated[
    Path | None,
    typer.Option(
        "--sizes", metavar="FILE",
        help="A CSV file: dimensions (M) or tensors (A) in its first line, and in each other one "
        "their sizes (128, 512x256). What it leaves open is as --shape says.",
    ),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(warm)


def warm(
    logic: options.Logic,
    sizes: SizesFile = None,
    on: options.On = None,
    mapping: options.MappingPath = None,
    shape: options.Sizes = None,
    dtype: options.Dtypes = None,
    tunable: options.Tunables = None,
    static: options.Static = None,
    as_json: options.AsJson = False,
) -> None:
    """Compile kernels of many shapes into the cache, where programs find them.

    \b
    Examples:
      septran warm gemm -s M=1 -s N=4096 -s K=4096 --dtype bfloat16
      septran warm gemm --sizes sizes.csv -m gemm.dispatch.yaml
    """  # noqa: D301  # \b is typer's mark for lines to keep
    import septran

    rows: list[list[str]] = [[]] if sizes is None else rows_of(sizes, "--sizes")
    asked = [
        request(logic, on, mapping, [*(shape or []), *row], dtype, tunable, static) for row in rows
    ]
    first = asked[0]
    kernel = septran.compile(
        first.logic, first.mapping, dtypes=first.dtypes, tunables=first.tunables,
        static=first.static,
    )  # fmt: skip
    found = kernel.warm([one.shapes or {} for one in asked])
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))
