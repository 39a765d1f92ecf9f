"""The pane of the task tree: its outline and its drawing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from septran.task.tree import Launch, Loop, Statement, TaskNode
from septran.views.links.logic import statement_keys
from septran.views.links.model import Document, Graph, Keys, Word
from septran.views.links.origins import Origins
from septran.views.pictures.graphs import draw_task_tree
from septran.views.text.outline import Extents, extents_of, statement_text, task_text

_INDENT = "    "
Row = tuple[str, Keys, TaskNode]
"""A line, its keys and the task whose tensors it names."""


def tree_document(origins: Origins) -> Document:
    """Tasks, loops and launches, indented as they nest."""
    rows = list(_task(origins.tree.root, "", origins))
    lines = {n: keys for n, (_, keys, _) in enumerate(rows, 1) if keys}
    words = tuple(_words(rows, origins))
    return Document("outline", "tile", "\n".join(text for text, _, _ in rows), lines, words)


def task_keys(task: TaskNode, origins: Origins) -> Keys:
    """A task, and all that is there because of it."""
    return frozenset({f"task:{task.path}"}) | origins.whys_of_task(task.path)


def _task(task: TaskNode, indent: str, origins: Origins) -> Iterator[Row]:
    yield indent + task_text(task), task_keys(task, origins), task
    yield from _inside(task.body, indent + _INDENT, task, extents_of(task), origins)


def _inside(
    body: Iterable[Statement], indent: str, task: TaskNode, known: Extents, origins: Origins
) -> Iterator[Row]:
    for statement in body:
        text = indent + statement_text(statement, known)
        yield text, statement_keys(statement, task, origins), task
        if isinstance(statement, Loop):
            yield from _inside(statement.body, indent + _INDENT, task, known, origins)
        elif isinstance(statement, Launch):
            yield from _task(statement.task, indent + _INDENT, origins)


def _words(rows: list[Row], origins: Origins) -> Iterator[Word]:
    for number, (text, _, task) in enumerate(rows, 1):
        for match in re.finditer(r"[^\W\d]\w*", text):
            keys = origins.tensor(task.path, match[0])
            if keys:
                yield Word(number, match.start(), len(match[0]), keys)


def tree_graph(origins: Origins) -> Graph:
    """The drawing, its tasks and loops keyed as in the outline."""
    drawing = draw_task_tree(origins.tree)
    owners: dict[int, TaskNode] = {}
    for task in origins.tree.tasks():
        owners |= {id(statement): task for statement in _loops(task.body)}
    boxes = {}
    for name, subject in drawing.subjects.items():
        if isinstance(subject, TaskNode):
            boxes[name] = task_keys(subject, origins)
        elif id(subject) in owners:
            boxes[name] = statement_keys(subject, owners[id(subject)], origins)
    return Graph(drawing, boxes)


def _loops(body: Iterable[Statement]) -> Iterator[Loop]:
    for statement in body:
        if isinstance(statement, Loop):
            yield statement
            yield from _loops(statement.body)
