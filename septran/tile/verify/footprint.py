"""The exact elements that regions touch, where a box around them would include too many.

The tiles of a reshaped tensor lie beside each other in memory, but the boxes around them overlap:
the last row of one is the first of the next. So do those of even and of odd columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from septran.ir.gather import coordinates, extents
from septran.ir.index import Var
from septran.tile.analyses.loops import affine
from septran.tile.nodes import Region, TileProgram, nodes, regions, writes

Cells = np.ndarray[Any, np.dtype[np.int64]]
Box = tuple[tuple[int, int], ...]


def scattered(program: TileProgram) -> frozenset[str]:
    """Return buffers that a region touches through a map that is not affine, or writes in steps."""
    found: set[str] = set()
    for node in nodes(program.body):
        found |= {r.buffer for r in regions(node) if affine(r) is None}
        # What is only read in steps, as windows are, meets no other read: its box is enough.
        found |= {r.buffer for r in writes(node) if _in_steps(r)}
    return frozenset(found)


def _in_steps(region: Region) -> bool:
    """Return whether there are elements between those that neighbours along an axis touch."""
    rows = affine(region) or ()
    return any(len(factors) == 1 and abs(factors[0][1]) > 1 for _, factors in rows)


def footprint(
    region: Region, shape: tuple[int, ...], values: Mapping[Var, int]
) -> tuple[Box, Cells]:
    """Return the smallest box around the elements of a buffer of `shape`, and their numbers."""
    size = extents(region, values)
    places = [np.broadcast_to(c, size).ravel() for c in coordinates(region, values)]
    inside = np.ones(places[0].shape, bool) if places else np.zeros(0, bool)
    for place, extent in zip(places, shape, strict=True):
        inside &= (place >= 0) & (place < extent)  # windows reach into their padding
    if not inside.any():
        return ((0, -1),) * len(shape), np.zeros(0, np.int64)
    kept = [place[inside] for place in places]
    box = tuple((int(place.min()), int(place.max())) for place in kept)
    return box, np.unique(np.ravel_multi_index(kept, shape).astype(np.int64))


def meet(a: Cells | None, b: Cells | None) -> bool:
    """Return whether two footprints share an element; unknown ones (None) count as sharing."""
    if a is None or b is None:
        return True
    # `footprint` gives each number once, which saves the search for repeats.
    return bool(np.isin(a, b, assume_unique=True).any())
