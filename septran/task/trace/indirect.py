"""Indirect views: axes of a tensor whose coordinates are elements of a tensor of integers.

A view stays one index map: the coordinate along the axis is an `Element`, named by the entry's
parameter that it is read from. So that it means the same wherever it is read, the kernel writes
neither that parameter nor the tensor whose elements it chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from septran.dtypes import numpy_dtype
from septran.ir import expressions as ex
from septran.ir.atoms import Element
from septran.ir.index import Index
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import IndirectIndexError
from septran.task.tree import Assign, Launch, Loop, Primitive, TaskNode, statements

if TYPE_CHECKING:
    from septran.task.trace.tensors import Tile
    from septran.task.trace.tracing import Home

_INSTEAD = (
    "the kernel reads where it is when it reads what is there: compute it in a kernel of its own "
    "and pass it to this one"
)


def gathered(view: View, position: int, rows: Tile) -> View:
    """`view` with the axis at `position` replaced by those of `rows`, which choose along it.

    Raises IndirectIndexError.
    """
    extent = view.shape[position]
    if view.valid[position] != Index.of(extent):
        raise IndirectIndexError(
            f"axis {position} of {view.tensor} is ragged, and {rows.name} cannot choose of it",
            Location.of_caller(),
            hint="gather from the whole tensor, or from tiles that divide it",
        )
    return view.gathered(position, rows.view, element_of(rows, extent, view.tensor))


def element_of(rows: Tile, extent: int, of: str) -> Index:
    """An element of `rows`, over their axes, as one of `extent` places along an axis of a tensor.

    Raises IndirectIndexError.
    """
    frame, where = rows.frame, Location.of_caller()
    frame.require_live(rows)
    if frame.tracer.check and numpy_dtype(rows.own_dtype).kind not in "iu":
        raise IndirectIndexError(
            f"{rows.name} is {rows.own_dtype}, and rows are chosen by integers", where,
            hint=f"pass integers: {rows.name}: task.Tensor[..., task.int64]",
        )  # fmt: skip
    home = frame.home(rows.view)
    _require_passed(home, f"{rows.name} holds indices", where)
    _require_passed(frame.homes[of], f"{of} is indexed by a tensor", where)
    return Index(((Element(home.view.tensor, home.view.index, extent), 1),))


def count_of(element: Tile, most: int) -> Index:
    """An element of a tensor as a number of iterations, from 0 to `most`.

    Raises IndirectIndexError.
    """
    frame, where = element.frame, Location.of_caller()
    frame.require_live(element)
    if element.ndim:
        raise IndirectIndexError(
            f"{element.name} has {element.ndim} axes, and a count is one element", where,
            hint=f"name one: task.count({element.name}[b], most=..)",
        )  # fmt: skip
    if frame.tracer.check and numpy_dtype(element.own_dtype).kind not in "iu":
        raise IndirectIndexError(
            f"{element.name} is {element.own_dtype}, and iterations are counted by integers", where,
            hint=f"pass integers: {element.name}: task.Tensor[..., task.int64]",
        )  # fmt: skip
    home = frame.home(element.view)
    _require_passed(home, f"{element.name} holds counts", where)
    # From 0 to `most` there are `most` + 1 values.
    return Index(((Element(home.view.tensor, home.view.index, most + 1), 1),))


def _require_passed(home: Home, what: str, where: Location) -> None:
    if home.temporary:
        raise IndirectIndexError(f"{what}, and is a temporary of this kernel", where, hint=_INSTEAD)


def check_indirect(root: TaskNode) -> dict[str, int]:
    """The parameters that hold indices, and of how many places at most.

    Raises IndirectIndexError where what is read through an index, or the index, is written.
    """
    tables: dict[str, int] = {}
    written = {p.name for p in root.params if p.writes}
    for task in root.walk():
        for loop in statements(task.body):
            if isinstance(loop, Loop):
                _check_counts(task, loop, tables, written)
    for task, view, where, homes, writes in _uses(root, {p.name: p.name for p in root.params}):
        elements = view.elements()
        if not elements:
            continue
        for element in elements:
            # One tensor may index several others: the shortest one decides.
            most = tables.get(element.tensor, element.extent)
            tables[element.tensor] = min(most, element.extent)
        of = {homes.get(view.tensor, "")} if view.chosen() else set()
        for name in sorted({e.tensor for e in elements} | of):
            # Parts that are joined to chosen rows are what `reduce_into` alone writes so.
            index = name in {e.tensor for e in elements}
            if name in written and (index or not writes):
                raise IndirectIndexError(
                    f"{name} is used through an index in {task.name}, and this kernel writes it",
                    where, hint=_INSTEAD,
                )  # fmt: skip
    return tables


def _check_counts(task: TaskNode, loop: Loop, tables: dict[str, int], written: set[str]) -> None:
    for element in (e for extent in loop.extents for e in extent.elements()):
        tables[element.tensor] = min(tables.get(element.tensor, element.extent), element.extent)
        if element.tensor in written:
            raise IndirectIndexError(
                f"{element.tensor} counts iterations in {task.name}, and this kernel writes it",
                loop.location, hint=_INSTEAD,
            )  # fmt: skip


def _uses(
    task: TaskNode, homes: dict[str, str]
) -> Iterator[tuple[TaskNode, View, Location, dict[str, str], bool]]:
    """Every view that a statement uses, with the entry's parameter of each of a task's own.

    Last, whether a task that is launched on it writes it.
    """
    for statement in statements(task.body):
        match statement:
            case Primitive(operands=views) | Launch(arguments=views):
                pass
            case Assign():
                views = (statement.target, *ex.loads(statement.value))
            case _:
                continue
        params = statement.task.params if isinstance(statement, Launch) else ()
        for number, view in enumerate(views):
            writes = bool(params) and params[number].writes
            yield task, view, statement.location, homes, writes
        if isinstance(statement, Launch):
            pairs = zip(statement.task.params, statement.arguments, strict=True)
            inner = {p.name: homes[v.tensor] for p, v in pairs if v.tensor in homes}
            yield from _uses(statement.task, inner)
