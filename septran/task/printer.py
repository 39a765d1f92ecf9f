"""Task trees as text that reads like the logic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.ir.expression_text import expression_text
from septran.ir.expressions import loads
from septran.ir.index import Index, axis
from septran.ir.size_names import name_sizes
from septran.ir.views import View, transposition_text
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


def to_text(tree: TaskTree) -> str:
    """Return the tree as text, each launched task indented under its launch."""
    found = (view for task in tree.tasks() for s in statements(task.body) for view in _views(s))
    sizes, lines = name_sizes(list(_task(tree.root)), found)
    heads = [f"# {size}" for size in sizes]
    if tree.scalars:
        heads.insert(0, "# scalars: " + ", ".join(f"{s.name}: {s.dtype}" for s in tree.scalars))
    if tree.dims:
        heads.insert(0, "# " + ", ".join(f"{n} = {e}" for n, e in tree.dims))
    return "\n".join([*heads, *lines])


def _task(task: TaskNode) -> Iterator[str]:
    params = ", ".join(
        f"{p.name}: {p.privilege} {p.dtype}[{', '.join(map(str, p.shape))}]" for p in task.params
    )
    kind = "leaf " if task.leaf else ""
    variant = "" if task.variant == task.name else f" as {task.variant}"
    tunables = "".join(f"  {n} = {v}" for n, v in task.tunables)
    yield f"{kind}task {task.name}{variant}({params}){tunables}  # {task.location}"
    sizes = {p.name: p.valid for p in task.params}
    sizes |= {s.name: s.valid for s in statements(task.body) if isinstance(s, Allocate)}
    yield from _indented(_Body(sizes).lines(task.body))


def _views(statement: Statement) -> tuple[View, ...]:
    match statement:
        case Launch():
            return statement.arguments
        case Primitive():
            return statement.operands
        case Assign():
            return (statement.target, *loads(statement.value))
        case _:
            return ()


def _indented(lines: Iterator[str]) -> Iterator[str]:
    yield from (f"{_INDENT}{line}" for line in lines)


@dataclass(frozen=True)
class _Body:
    """Prints the statements of a task whose tensors have the given extents."""

    sizes: dict[str, tuple[Index, ...]]

    def lines(self, body: tuple[Statement, ...]) -> Iterator[str]:
        for statement in body:
            match statement:
                case Loop():
                    names = ", ".join(map(str, statement.variables))
                    extents = ", ".join(map(str, statement.extents))
                    kind = "parallel" if statement.parallel else "sequential"
                    yield f"for {names} in {kind}({extents}):"
                    yield from _indented(self.lines(statement.body))
                case Launch():
                    yield f"launch {self._call(statement.task.name, statement.arguments)}" + (
                        f"  # {statement.location}"
                    )
                    yield from _indented(_task(statement.task))
                case Allocate():
                    extents = ", ".join(map(str, statement.valid))
                    fill = "" if statement.fill is None else f" = {statement.fill:g}"
                    yield f"{statement.name}: {statement.dtype}[{extents}]{fill}"
                case Primitive(attributes=attributes):
                    extra = tuple(f"{n}={v}" for n, v in attributes)
                    call = self._call(statement.name, statement.operands, extra)
                    yield f"{call}  # {statement.location}"
                case Assign():
                    value = expression_text(statement.value, self._view)
                    yield f"{self._view(statement.target)} = {value}  # {statement.location}"

    def _call(self, name: str, views: tuple[View, ...], extra: tuple[str, ...] = ()) -> str:
        return f"{name}({', '.join([*map(self._view, views), *extra])})"

    def _view(self, view: View) -> str:
        """Return a whole tensor by its name alone, else the part of it."""
        plain = tuple(Index.of(axis(n)) for n in range(view.rank))
        order = sorted(range(len(view.index)), key=lambda n: str(view.index[n]))
        if sorted(map(str, view.index)) != sorted(map(str, plain)) or not view.rank:
            return str(view)
        held = self.sizes.get(view.tensor, ())
        if tuple(held[n] for n in order) != view.valid:
            return str(view)
        return f"{view.tensor}{transposition_text(view)}"
