"""``septran mcp``: the server for programs that write mappings."""

from __future__ import annotations

from typing import Annotated

import typer

Folder = Annotated[
    str, typer.Option("--folder", metavar="DIR", help="The folder whose files a client may name.")
]
Seconds = Annotated[float, typer.Option("--seconds", min=1, help="That a call may take.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mcp)


def mcp(folder: Folder = ".", seconds: Seconds = 120.0) -> None:
    """Serve tools for agents by the Model Context Protocol, on standard input and output.

    They list operators and machines, explain, compile, check, profile, compare mappings, and
    propose changes. There is no shell; files are those of one folder; each call has a time limit
    and runs in a child process, so that logic that crashes, hangs or fills the memory costs that
    call alone. Logic files are Python, which can do whatever you can: serve a folder of files that
    you trust. It needs the package `mcp`: pip install 'septran[agent]'.

    \b
    Examples:
      septran mcp --folder my-operators
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.agent.server import serve

    serve(folder, seconds)
