"""The explorer where no script runs: all stages, uncoloured and small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.views.links import Document, Linked
from septran.views.panels.explanation import limits_panel
from septran.views.pictures.graphs import draw_task_tree
from septran.views.pictures.html import (
    Markup,
    code,
    details,
    faint,
    mono,
    panel,
    picture,
    strong,
    table,
)
from septran.views.text.movements import Movement, place_text

if TYPE_CHECKING:
    from septran.views.explanation import Explanation

FEW = 12
"""Copies and waits that are shown unfolded."""
TEXT = 60_000
"""Characters of one text."""


def explore_panel(explanation: Explanation, linked: Linked) -> Markup:
    """The panes folded, and every copy and wait with its reason."""
    parts = [details("What limits it", limits_panel(explanation.prediction))]
    svg = draw_task_tree(explanation.task_tree).svg()
    if svg is not None:
        drawing = picture(svg, f"Task tree of {explanation.name}")
        parts.append(details("Task tree", drawing, open=True))
    found = explanation.movements
    few = svg is None or len(found) <= FEW
    parts.append(details("Copies and waits", _movements(found), open=few))
    for pane in linked.panes:
        if pane.name != "task_tree":
            documents = pane.documents[:1]
            parts.append(details(pane.title, *map(_text, documents), *_note(pane.note)))
    return panel(strong(linked.title), *parts)


def _text(document: Document) -> Markup:
    shown, rest = document.text[:TEXT], len(document.text) - TEXT
    more = [faint(f"{rest:,} more characters")] if rest > 0 else []
    return details(document.title, code(shown), *more, open=True)


def _note(note: str) -> list[Markup]:
    return [faint(note)] if note else []


def _movements(found: tuple[Movement, ...]) -> Markup:
    rows = [
        (m.number, mono(m.text), m.origin.rule, place_text(m.origin.logic),
         place_text(m.origin.mapping))
        for m in found
    ]  # fmt: skip
    return table(("", "what", "because", "logic", "mapping"), rows)
