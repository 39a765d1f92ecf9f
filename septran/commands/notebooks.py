"""``septran notebooks`` and ``septran docs``: the tutorials, and the documentation site."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from septran.errors import CallError
from septran.user_folder import user_folder

TUTORIALS = {"en": ".", "zh": "zh"}
"""The folder of each language, inside the folder of the notebooks."""


class Language(StrEnum):
    """The languages of the tutorials."""

    en = "en"
    zh = "zh"


class TutorialExistsError(CallError):
    """A file that copied tutorials would replace."""

    code = "SEP657"


Target = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="Where to copy them; a list if absent.")
]
Chosen = Annotated[Language, typer.Option("--language", "-l", help="English or Chinese.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace notebooks that are there.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(notebooks)
    app.command()(docs)


def notebooks(folder: Target = None, language: Chosen = Language.en, force: Force = False) -> None:
    """List the tutorials, or copy them to a folder of yours.

    \b
    Examples:
      septran notebooks
      septran notebooks tutorials
      septran notebooks tutorials --language zh
    """  # noqa: D301  # \b is typer's mark for lines to keep
    found = tutorials(language)
    if folder is None:
        width = max(len(path.stem) for path in found)
        typer.echo("\n".join(f"{path.stem:{width}}  {title(path)}" for path in found))
        return
    there = [path.name for path in found if (folder / path.name).exists()]
    if there and not force:
        raise TutorialExistsError(
            f"{folder} already has {', '.join(there)}", hint="another folder, or --force"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in found:
            (folder / path.name).write_bytes(path.read_bytes())
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror or error}"
        raise typer.BadParameter(message, param_hint="DIR") from None
    typer.echo(f"{len(found)} notebooks are in {folder}; open them with: jupyter lab {folder}")


Site = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where to make it.")
]
Again = Annotated[bool, typer.Option("--build", help="Make it again, though it is there.")]
Shown = Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")]


def docs(output: Site = None, build: Again = False, show: Shown = True) -> None:
    """Open the documentation site in a browser; make it first where it is not there.

    It needs `pip install "septran\\[docs]"` and a checkout, takes a minute, and asks no server.

    \b
    Examples:
      septran docs
      septran docs --build --no-open -o site
    """  # noqa: D301  # \b is typer's mark for lines to keep
    site = (output or user_folder() / "site").resolve()
    page = site / "html" / "index.html"
    if build or not page.exists():
        maker = Path(__file__).resolve().parents[2] / "docs" / "site" / "build.py"
        if not maker.exists():
            raise typer.BadParameter("the site is made in a checkout of SepTran; this is a package")
        if importlib.util.find_spec("myst_nb") is None:
            raise typer.BadParameter('making the site needs: pip install "septran[docs]"')
        made = subprocess.run([sys.executable, str(maker), str(site)], check=False)
        if made.returncode:
            raise typer.Exit(made.returncode)
    typer.echo(page)
    if show:
        webbrowser.open(page.as_uri())


def notebooks_root() -> Path:
    """Return the folder of the notebooks, in a checkout or in an installed package."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_notebooks"
    return installed if installed.is_dir() else package.parent / "notebooks"


def tutorials(language: str = "en") -> list[Path]:
    """Return the notebooks of a language, in order."""
    return sorted((notebooks_root() / TUTORIALS[language]).glob("[0-9]*.ipynb"))


def title(notebook: Path) -> str:
    """Return a notebook's first heading."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "".join(cells[0]["source"])
    return text.splitlines()[0].lstrip("# ")
