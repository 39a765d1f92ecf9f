"""Groups of tensors that `mems` can name instead of each tensor."""

from __future__ import annotations

from collections.abc import Iterator

from septran.task.primitives import PRIMITIVES
from septran.task.tree import Allocate, Launch, Param, Primitive, TaskNode, statements


def groups_of(name: str, tensor: Param | Allocate, task: TaskNode) -> tuple[str, ...]:
    """The groups of `mems` that a tensor belongs to, most particular first."""
    operands = tuple(_operands(name, task))
    if isinstance(tensor, Allocate):
        sums = ("accumulators",) if _only_sums(name, task) else ()
        return (*operands, *sums, "temporaries", "*")
    sums = ("accumulators",) if tensor.accumulates else ()
    return (*operands, *sums, "writes" if tensor.writes else "reads", "*")


def _only_sums(name: str, task: TaskNode) -> bool:
    """Whether a temporary is only filled, summed into by launched tasks, and copied away."""
    sums = False
    for statement in statements(task.body):
        if not isinstance(statement, Launch) or statement.task.builtin:
            continue
        for param, view in zip(statement.task.params, statement.arguments, strict=True):
            if view.tensor == name:
                if not param.accumulates:
                    return False
                sums = True
    return sums


def _operands(name: str, task: TaskNode) -> Iterator[str]:
    """What the primitives of a task's own body call one of its tensors: ``gemm.A``."""
    for statement in statements(task.body):
        if isinstance(statement, Primitive) and statement.name in PRIMITIVES:
            operands = PRIMITIVES[statement.name].operands
            for view, operand in zip(statement.operands, operands, strict=True):
                if view.tensor == name:
                    yield f"{statement.name}.{operand}"
