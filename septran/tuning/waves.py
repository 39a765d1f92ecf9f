"""What blocks that run at one time read in common comes from main memory once.

A GPU's cache is as good as the order in which tiles are taken: of the copies that one wave of
blocks makes, those of the same region are served by one read. What later waves could still find
in the cache is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from septran.ir.index import Index, Var
from septran.tile.analyses.loops import ranges_of
from septran.tile.interpret.storage import evaluate_index
from septran.tile.nodes import For, Region

MOST = 1 << 22
"""Iterations that are looked at one by one; of more, no reuse is counted."""


def distinct_share(region: Region, loops: Sequence[For], units: int, level: str) -> float:
    """Of all reads of a region under `loops`, the part that is the first in its wave.

    `level` is the processor level whose `units` run side by side; loops inside of it over
    no processor of their own are the turns of units that stay.
    """
    spread = [loop for loop in loops if loop.processor == level]
    turns = [loop for loop in loops if loop.kind == "parallel" and loop.processor is None]
    order = [*turns, *spread]
    known = ranges_of(tuple(loops))
    sizes = [known[loop.variable][1] + 1 for loop in order]
    total = math.prod(sizes)
    if not spread or total > MOST:
        return 1.0
    flat = np.arange(total)
    values: dict[Var, Any] = {loop.variable: np.zeros(total, np.int64) for loop in loops}
    for loop, digit in zip(order, np.unravel_index(flat, sizes), strict=True):
        values[loop.variable] = digit
    runs = np.ones(total, bool)
    for loop in order:
        runs &= values[loop.variable] < evaluate_index(loop.extent, values)
    width = math.prod(sizes[len(turns) :])
    waves = flat // width * -(-width // units) + flat % width // units
    keys = [np.broadcast_to(evaluate_index(e, values), (total,)) for e in _starts(region)]
    rows = np.stack([waves, *keys], axis=1)[runs]
    return len(np.unique(rows, axis=0)) / len(rows) if len(rows) else 1.0


def _starts(region: Region) -> list[Index]:
    """Where a region begins along each axis of its tensor."""
    return list(region.origin())
