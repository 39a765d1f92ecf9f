"""Task trees as text that reads like the logic."""

from __future__ import annotations

from collections.abc import Iterator

from septran.task import expressions as ex
from septran.task.tree import (
    Allocate,
    Assign,
    Launch,
    Loop,
    Primitive,
    Statement,
    TaskNode,
    TaskTree,
)

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//",
    "remainder": "%", "power": "**", "and": "&", "or": "|", "xor": "^", "left_shift": "<<",
    "right_shift": ">>", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip


def to_text(tree: TaskTree) -> str:
    """The tree, each launched task indented under its launch."""
    lines = list(_task(tree.root, 0))
    if tree.dims:
        lines.insert(0, "# " + ", ".join(f"{n} = {e}" for n, e in tree.dims))
    return "\n".join(lines)


def _task(task: TaskNode, depth: int) -> Iterator[str]:
    pad = "    " * depth
    params = ", ".join(
        f"{p.name}: {p.privilege} {p.dtype}[{', '.join(map(str, p.shape))}]" for p in task.params
    )
    kind = "leaf " if task.leaf else ""
    variant = "" if task.variant == task.name else f" as {task.variant}"
    tunables = "".join(f"  {n} = {v}" for n, v in task.tunables)
    yield f"{pad}{kind}task {task.name}{variant}({params}){tunables}  # {task.location}"
    yield from _body(task.body, depth + 1)


def _body(body: tuple[Statement, ...], depth: int) -> Iterator[str]:
    pad = "    " * depth
    for statement in body:
        match statement:
            case Loop():
                names = ", ".join(map(str, statement.variables))
                extents = ", ".join(map(str, statement.extents))
                kind = "parallel" if statement.parallel else "sequential"
                yield f"{pad}for {names} in {kind}({extents}):"
                yield from _body(statement.body, depth + 1)
            case Launch():
                arguments = ", ".join(map(str, statement.arguments))
                yield f"{pad}launch {statement.task.name}({arguments})  # {statement.location}"
                yield from _task(statement.task, depth + 1)
            case Allocate():
                extents = ", ".join(map(str, statement.valid))
                fill = "" if statement.fill is None else f" = {statement.fill:g}"
                yield f"{pad}{statement.name}: {statement.dtype}[{extents}]{fill}"
            case Primitive():
                operands = ", ".join(map(str, statement.operands))
                extra = "".join(f", {n}={v}" for n, v in statement.attributes)
                yield f"{pad}{statement.name}({operands}{extra})  # {statement.location}"
            case Assign():
                value = expression_text(statement.value)
                yield f"{pad}{statement.target} = {value}  # {statement.location}"


def expression_text(expr: ex.Expr) -> str:
    """An expression as an author would write it."""
    match expr:
        case ex.Load(view=view):
            return str(view)
        case ex.Constant(value=value):
            return f"{value:g}" if isinstance(value, float) else str(value)
        case ex.Scalar(name=name):
            return name
        case ex.IndexValue(index=index):
            return f"({index})"
        case ex.Position(view=view, axis=axis):
            return f"index({view}, {axis})"
        case ex.Unary(function=function, operand=operand):
            return f"{function}({expression_text(operand)})"
        case ex.Binary(function=function, left=left, right=right):
            first, second = expression_text(left), expression_text(right)
            sign = _SIGNS.get(function)
            return f"({first} {sign} {second})" if sign else f"{function}({first}, {second})"
        case ex.Select(condition=condition, yes=yes, no=no):
            parts = ", ".join(map(expression_text, (condition, yes, no)))
            return f"where({parts})"
        case ex.Cast(operand=operand, dtype=dtype):
            return f"{dtype}({expression_text(operand)})"
        case ex.Expand(operand=operand, axes=axes, shape=shape):
            marks = ", ".join("None" if n in axes else ":" for n in range(len(shape)))
            return f"{expression_text(operand)}[{marks}]"
        case ex.Reduce(function=function, operand=operand, axis=axis):
            return f"{function}({expression_text(operand)}, axis={axis})"
