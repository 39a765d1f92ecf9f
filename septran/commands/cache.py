"""``septran cache``: the content of the compile cache, and how to empty it."""

from __future__ import annotations

from dataclasses import asdict

import typer

from septran.commands import arguments as options
from septran.commands.arguments import print_json


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Show or empty the cache of compiled kernels.\n\n"
        "\b\nExamples:\n  septran cache info\n  septran cache clear\n\n"
        "SEPTRAN_CACHE_DIR chooses its folder, SEPTRAN_CACHE_MB its limit, SEPTRAN_CACHE=0 "
        "switches it off.",
    )
    group.command()(info)
    group.command()(clear)
    app.add_typer(group, name="cache")


def info(as_json: options.AsJson = False) -> None:
    """Say where the cache is and how much it holds.

    \b
    Example:
      septran cache info --json
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.runtime.cache import Cache

    found = Cache.default().info()
    if as_json:
        print_json(asdict(found))
    else:
        typer.echo(str(found))


def clear() -> None:
    """Remove all compiled kernels.

    \b
    Example:
      septran cache clear
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.runtime.cache import Cache

    cache = Cache.default()
    if cache.problem is not None:
        typer.echo(f"{cache.root} is not used: {cache.problem}")
        return
    count = cache.clear()
    typer.echo(f"removed {count} kernel{'' if count == 1 else 's'} from {cache.root}")
