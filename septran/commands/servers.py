"""``septran mcp`` and ``septran lsp``: servers for programs and for editors."""

from __future__ import annotations

from typing import Annotated

import typer

Folder = Annotated[
    str, typer.Option("--folder", metavar="DIR", help="The folder whose files a client may name.")
]
Seconds = Annotated[float, typer.Option("--seconds", min=1, help="That a call may take.")]

RunLogic = Annotated[
    bool,
    typer.Option(
        "--run-logic", help="Run the logic files that mappings name: Python that you trust."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(mcp)
    app.command()(lsp)


def mcp(folder: Folder = ".", seconds: Seconds = 120.0) -> None:
    """Serve tools for agents by the Model Context Protocol, on standard input and output.

    They list operators and machines, explain, compile, check, profile, compare mappings, and
    propose changes. There is no shell; files are those of one folder; each call has a time limit
    and runs in a child process, so that logic that crashes, hangs or fills the memory costs that
    call alone. Logic files are Python, which can do whatever you can: serve a folder of files that
    you trust. It needs the package `mcp`: pip install 'septran\\[agent]'.

    \b
    Examples:
      septran mcp --folder my-operators
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.agent.server import serve

    serve(folder, seconds)


def lsp(run_logic: RunLogic = False) -> None:
    """Serve an editor by the Language Server Protocol, on standard input and output.

    In mapping and machine files it tells mistakes as you type, completes keys and names, says what
    a key means, what the model predicts, and leads from a rule to the tasks that it is for. A first
    line such as `# logic: gemm M=512 N=512 K=512` says what a mapping is looked at with. It needs
    the package `pygls`: pip install 'septran\\[lsp]'.

    \b
    Examples:
      septran lsp
    """  # noqa: D301  # \b is typer's mark for lines to keep
    from septran.lsp.server import make_server

    make_server(run_logic).start_io()
