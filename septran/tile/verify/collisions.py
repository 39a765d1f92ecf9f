"""Test whether boxes of different owners have an element in common.

Boxes of a whole tensor are painted onto a grid that has one cell between two neighbouring edges
(coordinate compression): exact, and as small as there are tiles, not elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from septran.ir.index import Var
from septran.tile.interpret.storage import PreparedRegion
from septran.tile.nodes import Buffer, Region

Owned = tuple[int, tuple[tuple[int, int], ...]]
"""A box's owner, then first and last coordinate along each axis, the stage first."""
NOBODY = -1
MOST_CELLS = 1 << 22
"""The greatest number of cells of a grid: 32 MiB of owners."""


def owned_boxes(
    region: Region, buffer: Buffer, iterations: Iterable[Mapping[Var, int]], owner: Var
) -> list[Owned] | None:
    """Return the boxes that a region covers; None where one is not a box inside the buffer."""
    access = PreparedRegion(region, None)
    if access.rows is None or not _dense(access):
        return None
    found: dict[Owned, None] = {}
    for values in iterations:
        extents = access.extents(values)
        if 0 in extents:
            continue
        stage = region.stage.evaluate(values)
        box = [(stage, stage), *access.box(values, extents)]
        sizes = (buffer.stages, *buffer.shape)
        if any(low < 0 or high >= size for (low, high), size in zip(box, sizes, strict=True)):
            return None
        found[values[owner], tuple(box)] = None
    return list(found)


def _dense(access: PreparedRegion) -> bool:
    """Return whether a region has each element of its box: an axis of its own along each axis."""
    assert access.rows is not None
    used = [n for _, factors in access.rows for n, _ in factors]
    return len(used) == len(set(used)) and all(
        len(factors) <= 1 and all(abs(factor) == 1 for _, factor in factors)
        for _, factors in access.rows
    )


def collide(painted: Sequence[Owned], seen: Sequence[Owned]) -> bool | None:
    """Return whether two of `painted`, or one of them and one of `seen`, meet and differ in owner.

    None where the grid would have more than `MOST_CELLS` cells.
    """
    every = [box for _, box in (*painted, *seen)]
    if not every:
        return False
    # All elements between two neighbouring edges are in the same boxes: one cell stands for them.
    cuts = [
        np.unique([edge for low, high in along for edge in (low, high + 1)])
        for along in zip(*every, strict=True)
    ]
    shape = [len(along) - 1 for along in cuts]
    if math.prod(shape) > MOST_CELLS:
        return None
    places = [{int(edge): n for n, edge in enumerate(along)} for along in cuts]
    grid = np.full(shape, NOBODY, np.int64)
    for number, (owner, box) in enumerate((*painted, *seen)):
        cells = grid[
            tuple(slice(at[low], at[high + 1]) for at, (low, high) in zip(places, box, strict=True))
        ]
        if ((cells != owner) & (cells != NOBODY)).any():
            return True
        # Boxes of `seen` are compared and not painted: whether two of them meet is not asked here.
        if number < len(painted):
            cells[...] = owner
    return False
