"""Graphviz drawings: the first `dot` found, or the same facts as text where there is none."""

from __future__ import annotations

import html
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import graphviz
from graphviz.backend import dot_command

from septran.views.pictures import colours

MEASURED = "Courier"
"""The font that sizes are computed with: all fonts of one width have nearly its metrics."""
SHOWN = "ui-monospace,Menlo,Consolas,DejaVu Sans Mono,Courier New,monospace"
"""The fonts that a viewer shows the picture with, the first it has."""


class Drawing(graphviz.Digraph):  # type: ignore[misc]
    """A directed graph that displays itself; `.source` is the DOT text.

    Where no `dot` can be found, notebooks show `outline` in its place.
    """

    outline: str = ""
    """The same facts as an indented text."""
    subjects: dict[str, Any]
    """What the boxes stand for, by their names, where a view asks for it."""

    def svg(self) -> str | None:
        """The picture as SVG; None where there is no `dot` to lay it out."""
        if not use_dot():
            return None
        try:
            text: str = self.pipe(format="svg", encoding="utf-8", quiet=True)
        except (OSError, graphviz.CalledProcessError):
            return None  # a broken or missing dot is no reason to fail: there is the outline
        if "<svg" not in text:
            return None
        text = text[text.index("<svg") :]
        return re.sub(rf'font-family="{MEASURED}[^"]*"', f'font-family="{SHOWN}"', text)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> Any:
        del include, exclude
        bundle = {"text/plain": self.outline}
        svg = self.svg()
        return bundle | {"image/svg+xml": svg} if svg else bundle


def use_dot() -> bool:
    """Make Graphviz use the first executable found: `dot`, else graphviz-pure's."""
    if shutil.which(str(dot_command.DOT_BINARY)):
        return True
    pure = Path(sys.prefix, "bin", "graphviz-pure")
    if not pure.exists():
        return False
    dot_command.DOT_BINARY = pure
    return True


def new(name: str, direction: str = "TB") -> Drawing:
    """An empty drawing in the house style."""
    drawing = Drawing(name=_identifier(name))
    drawing.subjects = {}
    drawing.attr(
        rankdir=direction, bgcolor=colours.PAPER, fontname=MEASURED, fontsize="11", nodesep="0.25",
        ranksep="0.45", fontcolor=colours.INK, pad="0.15", compound="true",
    )  # fmt: skip
    drawing.attr(
        "node", shape="box", style="rounded,filled", fillcolor="#ffffff", color=colours.LINE,
        fontname=MEASURED, fontsize="10", fontcolor=colours.INK, margin="0.12,0.06", penwidth="1",
    )  # fmt: skip
    drawing.attr(
        "edge", color=colours.LINE, fontname=MEASURED, fontsize="9", fontcolor=colours.INK,
        arrowsize="0.7", penwidth="1",
    )  # fmt: skip
    return drawing


def label(*lines: str, align: str = "l") -> str:
    """Lines of text as a label in which nothing is markup or an escape sequence."""
    mark = f"\\{align}" if align else ""
    text = "".join(_escaped(line) + mark for line in lines)
    quoted: str = graphviz.nohtml(text)
    return quoted


def tooltip(text: str) -> str:
    """Return what is shown while the pointer rests on something."""
    return label(text, align="")


def plain(text: str, limit: int = 200) -> str:
    """One printable line of a bearable length."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _escaped(text: str) -> str:
    # Graphviz reads entities, so an ampersand has to be spelled out.
    escaped: str = graphviz.escape(plain(text).replace("&", "&amp;"))
    return escaped


def cell(text: str, **attributes: str) -> str:
    """One cell of an HTML-like label, its text escaped."""
    words = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<TD{words}>{html.escape(plain(text))}</TD>"


def boxed(rows: list[str], border: str) -> str:
    """An HTML-like label of rows made by `cell`."""
    inside = "".join(f"<TR>{row}</TR>" for row in rows)
    return (
        f'<<TABLE BORDER="1" COLOR="{border}" CELLBORDER="0" CELLSPACING="2" CELLPADDING="3" '
        f'BGCOLOR="#ffffff" STYLE="ROUNDED">{inside}</TABLE>>'
    )


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
