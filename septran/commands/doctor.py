"""``septran doctor``: whether everything that kernels need is installed, and in which version."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import typer

from septran.backends import backends
from septran.commands import arguments as options
from septran.commands.arguments import print_json
from septran.errors import SepTranError

PACKAGES = ("apache-tvm", "apache-tvm-ffi", "torch", "numpy", "pyyaml", "graphviz", "pandas")
TOOLS = {
    "gcc": "links kernels for the compile cache",
    "cc": "links kernels for the compile cache where there is no gcc",
}
"""Programs outside of Python, each with its purpose."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    found: str
    ok: bool = True
    """Whether kernels can be compiled and run with what was found."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(as_json: options.AsJson = False) -> None:
    """Show versions, processor, compilers and cache; the exit code is 1 if something lacks.

    \b
    Examples:
      septran doctor
      septran doctor --json
    """  # noqa: D301  # \b is typer's mark for lines to keep
    findings = list(examine())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            mark = "ok" if finding.ok else "!!"
            typer.echo(f"{mark}  {finding.what:{width}}  {finding.found}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Run all checks, one after another."""
    from septran import __version__

    yield Finding("septran", __version__)
    yield Finding("python", f"{platform.python_version()} ({sys.platform}, {platform.machine()})")
    for package in PACKAGES:
        yield _package(package)
    for tool, use in TOOLS.items():
        path = shutil.which(tool)
        yield Finding(tool, path or f"not found ({use})")
    for backend in backends().values():
        for what, look in backend.looks.items():
            yield _guarded(what, look)
    yield _guarded("dot", _dot)
    yield _guarded("cache", _cache)
    yield _guarded("kernel", _kernel)


def _guarded(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, look())
    except SepTranError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Finding(what, f"{error.message}{hint} [{error.code}]", ok=False)
    except Exception as error:  # whatever is wrong is what is looked for
        return Finding(what, f"{type(error).__name__}: {error}", ok=False)


def _package(name: str) -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding(name, version(name))
    except PackageNotFoundError:
        return Finding(name, "not installed", ok=False)


def _dot() -> str:
    from graphviz.backend import dot_command

    from septran.views.pictures.drawing import use_dot

    return str(dot_command.DOT_BINARY) if use_dot() else "not found: graphs are shown as text"


def _cache() -> str:
    from septran.runtime.cache import Cache

    return str(Cache.default().info())


def _kernel() -> str:
    import septran

    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 65, "N": 33, "K": 17})
    return str(kernel.check().raise_if_wrong())
