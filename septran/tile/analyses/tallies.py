"""How often nodes of a tile program run, and how many elements they touch in all runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from septran.ir.index import Index, Var
from septran.tile.analyses.loops import most_iterations, ranges_of
from septran.tile.interpret.storage import evaluate_index
from septran.tile.nodes import For, Region

_GRID = 1 << 22
"""The number of iterations up to which ragged extents are summed one by one.

For more of them, the nominal tile counts in each.
"""


def amount(region: Region, loops: tuple[For, ...]) -> tuple[int, int]:
    """Return the runs of a node under `loops`, and the elements of its region in all of them."""
    return tally(region.valid, region.shape, loops)


def tally(
    valid: tuple[Index, ...],
    shape: tuple[int, ...],
    loops: tuple[For, ...],
    steps: tuple[int, ...] = (),
) -> tuple[int, int]:
    """Return how often a node under `loops` runs, and the points of `valid` in all runs.

    With `steps`, blocks of that many points along each axis are counted, parts as wholes. `shape`
    has the greatest extents that `valid` can have.
    """
    steps = steps or (1,) * len(shape)
    valid = tuple(extent.estimate() for extent in valid)
    needed = {v for extent in valid for v in extent.variables()}
    for loop in reversed(loops):  # a ragged loop brings in the indices of its extent
        if loop.variable in needed or not loop.extent.estimate().is_constant:
            needed |= {loop.variable, *loop.extent.variables()}
    known = ranges_of(loops)
    # Only loops whose index some extent needs are enumerated; the others multiply the result.
    ragged = [loop for loop in loops if loop.variable in needed]
    plain = math.prod(
        max(0, x.extent.estimate().constant) for x in loops if x.variable not in needed
    )
    if math.prod(known[x.variable][1] + 1 for x in ragged) > _GRID:
        whole = math.prod(-(-n // step) for n, step in zip(shape, steps, strict=True))
        most = math.prod(most_iterations(loops))
        return most, most * whole
    every = [known[loop.variable][1] + 1 for loop in ragged]
    trips, points = _counted(valid, ragged, steps, every)
    return trips * plain, points * plain


def _counted(
    valid: Sequence[Index], loops: Sequence[For], steps: Sequence[int], every: Sequence[int]
) -> tuple[int, int]:
    """Return iterations of `loops`, at most `every`, and the blocks in all of them, one by one."""
    grid = np.meshgrid(*map(np.arange, every), indexing="ij", sparse=True)
    values: dict[Var, Any] = {loop.variable: at for loop, at in zip(loops, grid, strict=True)}
    runs: Any = np.ones((1,) * len(loops), np.int64)
    # The grid is as large as the greatest extents; iterations that a ragged loop leaves out count
    # nothing.
    for loop in loops:
        runs = runs * (values[loop.variable] < evaluate_index(loop.extent.estimate(), values))
    sizes: Any = runs
    for extent, step in zip(valid, steps, strict=True):
        sizes = sizes * (-(-np.maximum(0, evaluate_index(extent, values)) // step))
    trips, points = (int(np.sum(np.broadcast_to(n, every))) for n in (runs, sizes))
    return trips, points
