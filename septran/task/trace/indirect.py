"""Indirect views: axes of a tensor whose coordinates are elements of a tensor of integers.

A view stays one index map: the coordinate along the axis is an `Element`, named by the tensor that
it is read from. So that it means the same wherever it is read, that tensor, and the one whose
elements it chooses, are the caller's or are complete before the statement that reads them
(`septran.task.check.computed_indices`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.dtypes import numpy_dtype
from septran.ir.atoms import Element
from septran.ir.index import Index, minimum
from septran.ir.views import View
from septran.location import Location
from septran.task.errors import IndirectIndexError

if TYPE_CHECKING:
    from septran.task.trace.tensors import Tile
    from septran.task.trace.tracing import Home

_OUTSIDE = (
    "allocate and compute it outside of all loops, by launches that end before what reads it is "
    "launched; what parts are joined to has an axis more there, with a place for each iteration: "
    "parts[i]"
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
    _require_lasting(home, f"{rows.name} holds indices", where)
    _require_lasting(frame.homes[of], f"{of} is indexed by a tensor", where)
    return Index(((Element(home.table, home.view.index, extent), 1),))


def count_of(element: Tile, most: int, less: Index | None = None) -> Index:
    """An element of a tensor as a number of iterations, from 0 to `most`, or `less` of some tiles.

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
    _require_lasting(home, f"{element.name} holds counts", where)
    # From 0 to `most` there are `most` + 1 values.
    counted = Index(((Element(home.table, home.view.index, most + 1, less), 1),))
    # A kernel takes the nearest number; a run of the program judges the element itself.
    return counted if less is None else minimum(counted, less)


def _require_lasting(home: Home, what: str, where: Location) -> None:
    """Refuse a temporary of which there is another one in each iteration of a loop."""
    if home.temporary and home.opened:
        message = f"{what}, and is a temporary of a loop's iteration"
        raise IndirectIndexError(message, where, hint=_OUTSIDE)
