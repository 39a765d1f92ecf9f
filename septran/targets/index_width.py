"""The width of index integers: 32 bits where extents prove that all indices fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from septran.ir import expressions as ex
from septran.ir.bounds import magnitude
from septran.ir.index import Index, Range, Var, axis
from septran.ir.views import View
from septran.tile.analyses.loops import ranges_of, walk
from septran.tile.nodes import (
    Acquire,
    Commit,
    Compute,
    For,
    Node,
    Release,
    TileProgram,
    Wait,
    regions,
)

LARGEST = 2**31 - 1
"""The greatest integer of 32 bits."""
_UNKNOWN = 1 << 62


def index_dtype(program: TileProgram, sizes: Iterable[int] = ()) -> str:
    """The type of a program's indices; `sizes` are those of further buffers, in elements.

    An index as a number of the logic, such as ``30_000 * i``, may pass 32 bits however short the
    tensors are; so may a coordinate that is computed only to see that it is beyond the end.
    """
    held = [math.prod(b.shape) * b.stages for b in program.buffers]
    greatest = max((*held, *sizes, *_reaches(program)), default=0)
    return "int32" if greatest <= LARGEST else "int64"


def _reach(index: Index, known: Mapping[Var, Range]) -> int:
    found = magnitude(index, known)
    return _UNKNOWN if found is None else found


def _reaches(program: TileProgram) -> Iterator[int]:
    """Yield the greatest values of all indices that a program's kernels count and compute."""
    strides = {b.name: _strides(b.shape) for b in program.buffers}
    for node, loops in walk(program.body):
        known = ranges_of(loops)
        yield from (_reach(index, known) for index in _own(node))
        for region in regions(node):
            parts = _of_view(region, known)
            yield from parts
            yield sum(r * s for r, s in zip(parts, strides.get(region.buffer, ()), strict=False))
        if isinstance(node, For):
            yield _iterations((*loops, node))
        if isinstance(node, Compute) and node.expression is not None:
            for part in ex.walk(node.expression):
                if isinstance(part, ex.IndexValue):
                    yield _reach(part.index, known)
                elif isinstance(part, ex.Position):
                    yield from _of_view(part.view, known)


def _iterations(loops: tuple[For, ...]) -> int:
    """Return the iterations of a nest's parallel loops together, as one loop may count them."""
    known = ranges_of(loops)  # of all of them, as one's extent may depend on any around it
    return math.prod(1 + known[loop.variable][1] for loop in loops if loop.kind == "parallel")


def _own(node: Node) -> tuple[Index, ...]:
    """Indices of a node that are of no region."""
    match node:
        case For():
            return (node.extent,)
        case Acquire() | Commit() | Wait() | Release():
            return (node.index,)
    return ()


def _of_view(view: View, known: Mapping[Var, Range]) -> tuple[int, ...]:
    """Return the greatest values of a view's entries, one an axis, and of its extents."""
    axes = {axis(n): (0, max(0, extent - 1)) for n, extent in enumerate(view.shape)}
    entries = (_reach(entry, {**known, **axes}) for entry in view.index)
    return (*entries, *(_reach(valid, known) for valid in view.valid))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[n + 1 :]) for n in range(len(shape)))
