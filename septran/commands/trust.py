"""``septran trust``: let the header of a machine file be compiled and run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from septran.machine.model import Machine

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Machine files of DSAs.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(trust)


def trust(files: Files) -> None:
    """Let the C header beside a machine file be compiled, and run in your processes.

    A header that does not come with SepTran is not compiled unless it is trusted: kernels run
    without it, but nothing checks that the header agrees with the machine file. Trust holds for
    the present content of the header and of the files that it includes; it ends when they change.

    \b
    Examples:
      septran trust my-dsa.yaml
      SEPTRAN_DSA_TRUST=DIGEST septran run gemm --on my-dsa.yaml
    """  # noqa: D301  # \b is typer's mark for lines to keep
    import septran

    for file in files:
        digest = septran.trust(file)
        typer.echo(f"{file}: its header is trusted, as it is now: {digest}")


def offer(machine: Machine, as_json: bool) -> None:
    """Ask on a terminal whether a header is trusted; elsewhere it is not, without waiting."""
    if as_json or not _person():
        return
    from septran.targets.dsa.code.toolchain import compiler
    from septran.targets.dsa.code.trust import trust, untrusted

    header = untrusted(machine) if compiler() is not None else None
    if header is None:
        return
    question = (
        f"{header.path} is C code that does not come with SepTran. Compile it, and run it in this "
        "process, now and whenever it is the same? Without, LLVM records the same commands."
    )
    if typer.confirm(question, default=False, err=True):
        trust(machine)


def _person() -> bool:
    """Return whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()
