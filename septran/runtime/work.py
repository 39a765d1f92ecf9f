"""The operations and the compulsory traffic of a task tree, counted exactly, ragged edges too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from septran.dtypes import itemsize
from septran.ir import expressions as ex
from septran.ir.gather import evaluate
from septran.ir.index import Index, Var
from septran.ir.primitives import PRIMITIVES, Contract
from septran.task.tree import Assign, Launch, Loop, Primitive, Statement, TaskTree

Loops = tuple[tuple[Var, Index], ...]


@dataclass(frozen=True)
class Work:
    """Operations by kind, and the bytes of the tensors that the caller passes."""

    operations: Mapping[str, int]
    """Operations by primitive; ``map`` are the element-wise operations and reductions."""
    bytes_read: int
    """The bytes of all inputs, each once."""
    bytes_written: int
    """The bytes of all outputs, each once."""

    @property
    def flops(self) -> int:
        """The number of all operations; a multiply-add is two."""
        return sum(self.operations.values())

    @property
    def bytes_moved(self) -> int:
        """The compulsory traffic in bytes over main memory's bus."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Operations a byte; infinite where nothing is moved."""
        return self.flops / self.bytes_moved if self.bytes_moved else math.inf


def work(tree: TaskTree) -> Work:
    """Return the work of one run of `tree`."""
    operations: dict[str, int] = {}
    for statement, loops in _statements(tree.root.body, ()):
        if isinstance(statement, Primitive):
            contract = PRIMITIVES[statement.name]
            extents = [view.valid for view in statement.operands]
            name, count = statement.name, _total(loops, extents, _primitive(contract))
        else:
            name, count = "map", _expression(statement.value, loops)
        if count:
            operations[name] = operations.get(name, 0) + count
    params = tree.root.params
    sizes = {p.name: math.prod(p.shape) * itemsize(p.dtype) for p in params}
    return Work(
        operations,
        sum(sizes[p.name] for p in params if p.reads),
        sum(sizes[p.name] for p in params if p.writes),
    )


def steps(tree: TaskTree) -> int:
    """Return the number of primitives and assignments that one run of `tree` carries out."""
    return sum(_total(loops, [], lambda _: 1) for _, loops in _statements(tree.root.body, ()))


def _statements(
    body: tuple[Statement, ...], loops: Loops
) -> Iterator[tuple[Primitive | Assign, Loops]]:
    for statement in body:
        match statement:
            case Loop():
                most = (extent.estimate() for extent in statement.extents)
                inner = tuple(zip(statement.variables, most, strict=True))
                yield from _statements(statement.body, loops + inner)
            case Launch():
                yield from _statements(statement.task.body, loops)
            case Primitive() | Assign():
                yield statement, loops


def _primitive(contract: Contract) -> Any:
    def count(extents: list[list[Any]]) -> Any:
        sizes: dict[str, Any] = {}
        for letters, shape in zip(contract.axes, extents, strict=True):
            names = "*" if letters == "*" else letters
            values = [_product(shape)] if letters == "*" else shape
            sizes.update(zip(names, values, strict=True))
        return contract.flops(sizes)

    return count


def _expression(value: ex.Expr, loops: Loops) -> int:
    """Operations: one for each element, for a reduction one for each element that it reads."""
    total = 0
    for node in ex.walk(value):
        counted: ex.Expr | None = None
        if isinstance(node, ex.Unary | ex.Binary | ex.Select):
            counted = node
        elif isinstance(node, ex.Reduce):
            counted = node.operand
        if counted is not None:
            total += _total(loops, [counted.valid], lambda extents: _product(extents[0]))
    return total


def _product(extents: list[Any]) -> Any:
    total: Any = 1
    for extent in extents:
        total = total * extent
    return total


def _total(loops: Loops, extents: list[tuple[Index, ...]], count: Any) -> int:
    """Return the sum of ``count(extents)`` over all iterations of `loops`."""
    extents = [tuple(e.estimate() for e in axes) for axes in extents]
    # Loops that neither the extents nor other loops depend on are multiplied; only the others are
    # enumerated, as arrays.
    needed = {v for axes in extents for e in axes for v in e.variables()}
    for variable, extent in reversed(loops):
        if variable in needed or extent.variables():
            needed |= {variable, *extent.variables()} if variable in needed else extent.variables()
    values: dict[Var, Any] = {}
    times = np.ones(1, dtype=object)  # integers of any size
    for variable, extent in loops:
        trips = np.broadcast_to(np.maximum(evaluate(extent, values), 0), times.shape)
        if variable not in needed:
            times = times * trips
            continue
        repeats = trips.astype(np.int64)
        # Each row of values so far is repeated for its trips, which are counted from where they
        # begin.
        starts = np.repeat(np.cumsum(repeats) - repeats, repeats)
        values = {v: np.repeat(column, repeats) for v, column in values.items()}
        times = np.repeat(times, repeats)
        values[variable] = np.arange(len(times)) - starts
    sizes = [[np.maximum(evaluate(e, values), 0) for e in axes] for axes in extents]
    return int(np.sum(times * count(sizes))) if len(times) else 0
