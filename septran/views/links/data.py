"""Linked panes as compact JSON-ready data: keys and sets of keys are sent once, by number."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from septran.location import Location
from septran.tile.nodes import Origin
from septran.views.links.model import Document, Graph, Keys, Linked, Pane, PassStep


class _Sets:
    """Numbers for sets of keys; 0 is the empty one."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.sets: dict[Keys, int] = {frozenset(): 0}

    def number(self, keys: Iterable[str]) -> int:
        whole = frozenset(keys)
        for key in sorted(whole):
            self.keys.setdefault(key, len(self.keys))
        return self.sets.setdefault(whole, len(self.sets))

    def table(self) -> list[list[int]]:
        return [sorted(self.keys[key] for key in own) for own in self.sets]


def linked_data(linked: Linked) -> dict[str, Any]:
    """All that the explorer shows."""
    sets = _Sets()
    panes = [_pane(pane, sets) for pane in linked.panes]
    passes = _passes(linked.steps, sets)
    return {
        "title": linked.title, "panes": panes, "passes": passes,
        "whys": [_why(origin) for origin in linked.whys],
        "about": {key: words for key, words in linked.about.items() if key in sets.keys},
        "keys": list(sets.keys), "sets": sets.table(),
    }  # fmt: skip


def _pane(pane: Pane, sets: _Sets) -> dict[str, Any]:
    return {
        "name": pane.name, "title": pane.title, "note": pane.note,
        "shown": pane.shown, "opened": pane.opened,
        "documents": [_document(document, sets) for document in pane.documents],
        "graph": _graph(pane.graph, sets) if pane.graph is not None else None,
    }  # fmt: skip


def _document(document: Document, sets: _Sets) -> dict[str, Any]:
    lines: list[int] = []
    for line, keys in document.lines.items():
        lines += (line, sets.number(keys))
    words: list[int] = []
    for word in document.words:
        words += (word.line, word.start, word.length, sets.number(word.keys))
    return {
        "title": document.title, "language": document.language, "text": document.text,
        "file": document.file, "lines": lines, "words": words, "leftOut": document.left_out,
        "start": document.start,
    }  # fmt: skip


def _graph(graph: Graph, sets: _Sets) -> dict[str, Any] | None:
    svg = graph.drawing.svg()
    if svg is None:
        return None
    return {"svg": svg, "boxes": {name: sets.number(keys) for name, keys in graph.boxes.items()}}


def _why(origin: Origin) -> dict[str, Any]:
    return {
        "rule": origin.rule, "task": origin.task, "instance": origin.instance,
        "logic": _place(origin.logic), "mapping": _place(origin.mapping),
    }  # fmt: skip


def _place(where: Location | None) -> dict[str, Any] | None:
    if where is None:
        return None
    name = PurePath(where.short_file).name
    return {"file": where.file, "name": name, "line": where.line, "text": where.text.strip()}


def _passes(steps: tuple[PassStep, ...], sets: _Sets) -> dict[str, Any]:
    """Each text once; a row is the sign, the text and the set of keys by their numbers."""
    texts: dict[str, int] = {}
    shown = []
    for step in steps:
        rows: list[int] = []
        for sign, text, keys in step.rows:
            number = texts.setdefault(text, len(texts))
            rows += (" +-".index(sign), number, sets.number(keys))
        shown.append(
            {
                "name": step.name, "summary": step.summary, "added": step.added,
                "removed": step.removed, "rows": rows,
            }
        )  # fmt: skip
    return {"texts": list(texts), "steps": shown}
