"""The task tree as folded HTML: tasks hold loops, loops hold launches, launches hold tasks."""

from __future__ import annotations

from collections.abc import Iterable

from septran.task.tree import Launch, Loop, Statement, TaskNode, TaskTree
from septran.views.pictures.html import (
    Markup,
    code,
    details,
    faint,
    join,
    mono,
    paragraph,
    picture,
    strong,
    table,
)
from septran.views.text.outline import Extents, extents_of, statement_text, view_text


def task_tree_panel(tree: TaskTree, svg: str | None = None) -> Markup:
    """The drawing, then the tree, then the text."""
    parts = [paragraph(summary(tree))]
    if svg:
        parts.append(details("drawing", picture(svg, f"Task tree of {tree.name}"), open=True))
    parts.append(_task(tree.root, "", open=True))
    parts.append(details("as text", code(str(tree), "python")))
    return join(parts)


def summary(tree: TaskTree) -> Markup:
    """One line of figures."""
    count = sum(1 for _ in tree.tasks())
    facts = [f"{count} task{'s' if count != 1 else ''}"]
    facts += [f"{name} = {extent}" for name, extent in tree.dims]
    facts += [f"{name} = {value} (static)" for name, value in tree.static]
    facts += [f"{scalar.name}: {scalar.dtype} (scalar)" for scalar in tree.scalars]
    facts += [f"traced from {tree.file}"] if tree.file else []
    return join(facts, ", ")


def _task(node: TaskNode, arguments: str, *, open: bool = False) -> Markup:
    variant = f" (variant {node.variant})" if node.variant != node.name else ""
    kind = "leaf" if node.leaf else "task"
    head = join([strong(kind, " ", node.name), variant, " ", mono(arguments)])
    rows = [
        (mono(p.name), _extents(p.shape), _existing(p.valid, p.shape), p.dtype, p.privilege)
        for p in node.params
    ]
    body = [
        paragraph(faint(node.doc.strip().split("\n")[0])) if node.doc.strip() else "",
        faint(f"{node.path}, defined at {node.location}"),
        table(("tensor", "shape", "exists", "dtype", "privilege"), rows),
    ]
    if node.tunables:
        chosen = ", ".join(f"{name} = {value}" for name, value in node.tunables)
        body.append(paragraph("tunables: ", mono(chosen)))
    return details(head, *body, *_statements(node.body, extents_of(node)), open=open)


def _statements(body: Iterable[Statement], known: Extents) -> list[Markup]:
    parts: list[Markup] = []
    for statement in body:
        match statement:
            case Loop():
                head = mono(statement_text(statement, known))
                parts.append(details(head, *_statements(statement.body, known), open=True))
            case Launch():
                arguments = ", ".join(view_text(view, known) for view in statement.arguments)
                parts.append(_task(statement.task, f"({arguments})"))
            case _:
                parts.append(paragraph(mono(statement_text(statement, known))))
    return parts


def _extents(shape: Iterable[object]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def _existing(valid: Iterable[object], shape: Iterable[int]) -> str:
    text = " x ".join(map(str, valid))
    return "all" if text == " x ".join(map(str, shape)) else text
