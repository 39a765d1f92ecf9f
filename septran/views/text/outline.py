"""Stages as short indented text: what is shown where nothing can be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from septran.ir import expressions as ex
from septran.ir.expression_text import expression_text
from septran.ir.index import Index, is_axis
from septran.ir.views import View
from septran.machine.model import NONE
from septran.mapping.resolved import Instance, ResolvedMapping
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Primitive,
    Statement,
    TaskNode,
    TaskTree,
    statements,
)

_INDENT = "    "


Extents = Mapping[str, tuple[tuple[int, ...], tuple[Index, ...]]]
"""Nominal and existing extents of the tensors that a task knows, by name."""


def extents_of(node: TaskNode) -> Extents:
    """The extents of a task's parameters and temporaries."""
    known = {param.name: (param.shape, param.valid) for param in node.params}
    for statement in statements(node.body):
        if isinstance(statement, Allocate):
            known[statement.name] = (statement.shape, statement.valid)
    return known


def view_text(view: View, known: Extents) -> str:
    """A view with ``:`` for every axis that it takes whole; a whole tensor by its name.

    Tiles are given by nominal extents, ``64*i:+64``; axes in another order by ``.T``.
    """
    shape, valid = known.get(view.tensor, ((), ()))
    if len(shape) != len(view.index):
        return str(view)
    parts: list[str] = []
    order: list[int] = []
    for entry, extent, exists in zip(view.index, shape, valid, strict=True):
        axes = [v for v in entry.variables() if is_axis(v)]
        if not axes:
            parts.append(str(entry))
            continue
        n = int(axes[0].name[1:])
        if len(axes) > 1 or entry.coefficient(axes[0]) != 1:
            return str(view)
        whole = entry == Index.of(axes[0]) and view.shape[n] == extent and view.valid[n] == exists
        parts.append(":" if whole else f"{entry - axes[0]}:+{view.shape[n]}")
        order.append(n)
    if sorted(order) != list(range(view.rank)):
        return str(view)
    suffix = "" if order == sorted(order) else ".T" if len(order) == 2 else f".transpose{order}"
    return view.tensor + ("" if set(parts) <= {":"} else f"[{', '.join(parts)}]") + suffix


@dataclass(frozen=True)
class _Titled(View):
    """A view that prints as the text it was given."""

    text: str = ""

    def __str__(self) -> str:
        return self.text


def _titled(known: Extents) -> Callable[[ex.Expr], ex.Expr]:
    """Give the views of an expression's leaves their short texts."""

    def change(leaf: ex.Expr) -> ex.Expr:
        if not isinstance(leaf, ex.Load | ex.Position):
            return leaf
        v = leaf.view
        text = view_text(v, known)
        return replace(leaf, view=_Titled(v.tensor, v.index, v.shape, v.valid, v.padded, text))

    return change


def statement_text(statement: Statement, known: Extents) -> str:
    """One statement of a task on one line, without what is inside of it."""
    match statement:
        case Allocate():
            shape = ", ".join(map(str, statement.shape))
            fill = "" if statement.fill is None else f" = {statement.fill}"
            return f"{statement.name}: {statement.dtype}[{shape}]{fill}"
        case Primitive():
            parts = [view_text(view, known) for view in statement.operands]
            parts += [f"{key}={value}" for key, value in statement.attributes]
            return f"{statement.name}({', '.join(parts)})"
        case Assign():
            value = expression_text(ex.map_leaves(statement.value, _titled(known)))
            return f"{view_text(statement.target, known)} = {value}"
        case Launch():
            tiles = ", ".join(view_text(view, known) for view in statement.arguments)
            return f"launch {statement.task.name}({tiles})"
        case Loop():
            names = ", ".join(map(str, statement.variables))
            extents = ", ".join(map(str, statement.extents))
            return f"for {names} in {'parallel' if statement.parallel else 'range'}({extents}):"


def task_text(node: TaskNode) -> str:
    """A task's name and what it is given."""
    params = ", ".join(
        f"{p.name}: {p.dtype}[{', '.join(map(str, p.shape))}] {p.privilege}" for p in node.params
    )
    variant = f" as {node.variant}" if node.variant != node.name else ""
    return f"{node.name}{variant}({params})"


def tree_outline(tree: TaskTree) -> str:
    """Tasks, loops and launches, indented as they nest."""
    root = tree.root
    lines = [task_text(root), *_inside(root.body, _INDENT, extents_of(root))]
    return "\n".join(lines) + "\n"


def _inside(body: tuple[Statement, ...], indent: str, known: Extents) -> Iterator[str]:
    for statement in body:
        yield indent + statement_text(statement, known)
        if isinstance(statement, Loop):
            yield from _inside(statement.body, indent + _INDENT, known)
        elif isinstance(statement, Launch):
            task = statement.task
            yield from _inside(task.body, indent + _INDENT, extents_of(task))


def mapping_outline(resolved: ResolvedMapping) -> str:
    """Each task under its caller, with its processor and the memory of each tensor."""
    lines: list[str] = []
    for task in resolved.tree.tasks():
        instance = resolved.instance(task.path)
        lines.append(f"{_INDENT * task.level}{instance_text(instance)}")
    return "\n".join(lines) + "\n"


def instance_text(instance: Instance) -> str:
    """One instance on one line."""
    mems = ", ".join(f"{tensor}: {memory_text(instance, tensor)}" for tensor in instance.mems)
    return f"{instance.name} on {instance.proc} ({instance.path}): {mems}"


def memory_text(instance: Instance, tensor: str) -> str:
    """Return where a tensor is: ``SHARED``, or ``NONE (in GLOBAL)`` where it is passed through."""
    place = instance.mems[tensor]
    if place.value == NONE:
        return f"{NONE} (in {place.memory})"
    return f"{NONE} or {place}" if place.optional else place.value
