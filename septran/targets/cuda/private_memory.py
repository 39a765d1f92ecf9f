"""Temporaries in GLOBAL that each block has for itself: a part each of one allocation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from septran.ir.index import Index
from septran.targets.cuda.kernels import grid
from septran.tile.analyses.loops import ranges, used
from septran.tile.layouts import ROW
from septran.tile.nodes import Buffer, For, Node, Region, TileProgram, nodes, regions
from septran.tile.substitution import change_regions


def privatised(program: TileProgram) -> TileProgram:
    """`program` with an axis of blocks in front of what each block fills for itself."""
    for buffer in program.buffers:
        if buffer.memory == "GLOBAL" and buffer.name not in program.params:
            loops = _shared_by(program, buffer)
            if loops:
                program = _with_parts(program, buffer, loops)
    return program


def _shared_by(program: TileProgram, buffer: Buffer) -> list[For]:
    """The loops over blocks of which several use the same elements; none where none do."""
    users = [nest for nest in _nests(program.body) if buffer.name in used((nest,))]
    if len(users) != 1:
        return []  # what one kernel leaves to the next is common to all blocks
    loops, inside = grid((users[0],))
    own = [r for n in nodes(inside) for r in regions(n) if r.buffer == buffer.name]
    # Blocks have different elements already where every index names them.
    apart = all(loop.variable in _variables(r) for loop in loops for r in own)
    return [] if apart else loops


def _variables(region: Region) -> set[object]:
    return {variable for entry in region.index for variable in entry.variables()}


def _nests(body: tuple[Node, ...]) -> Iterator[Node]:
    """Parallel loops, as each is a kernel, and what is outside of them."""
    for node in body:
        if isinstance(node, For) and node.kind != "parallel":
            yield from _nests(node.body)
        else:
            yield node


def _with_parts(program: TileProgram, buffer: Buffer, loops: list[For]) -> TileProgram:
    known = ranges(program.body)
    sizes = [max(1, loop.extent.bounds(known)[1]) for loop in loops]
    part = Index()
    for loop, size in zip(loops, sizes, strict=True):
        part = part * size + Index.of(loop.variable)

    def change(region: Region) -> Region:
        if region.buffer != buffer.name:
            return region
        return replace(region, index=(part, *region.index))

    # The part comes first, so that what a block has is in one piece.
    wider = replace(buffer, shape=(math.prod(sizes), *buffer.shape), layout=ROW)
    buffers = tuple(wider if b.name == buffer.name else b for b in program.buffers)
    body = tuple(change_regions(node, change) for node in program.body)
    return replace(program, body=body, buffers=buffers)
