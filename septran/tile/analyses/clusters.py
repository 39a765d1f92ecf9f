"""Clusters of blocks: their loops, and the copies that could be made once for several blocks."""

from __future__ import annotations

from collections.abc import Sequence

from septran.ir.index import Var
from septran.tile.analyses.engine_limits import BOX
from septran.tile.analyses.loops import depends, walk
from septran.tile.nodes import Acquire, Commit, Copy, For, Release, TileProgram, Wait


def shareable(program: TileProgram, copy: Copy) -> bool:
    """Return whether the copy's engine can multicast its data to several blocks."""
    engine = program.machine.engine(copy.engine)
    ends = [program.buffer(r.buffer).memory for r in (copy.source, copy.target)]
    main = program.machine.main_memory.name
    return engine.completes_by == BOX and ends[0] == main and ends[1] != main


def same_for_all(copy: Copy, loops: Sequence[For], variable: Var) -> bool:
    """Return whether a copy under `loops` is the same in all iterations of an outer loop."""
    extents = {v for loop in loops for v in loop.extent.variables()}
    regions = (copy.source, copy.target)
    return variable not in extents and not any(depends(r, variable) for r in regions)


def grid(loop: For) -> list[For]:
    """Return the nest of parallel loops that begins here, over one level."""
    nest = [loop]
    while len(nest[-1].body) == 1:
        inner = nest[-1].body[0]
        if not isinstance(inner, For) or inner.kind != "parallel" or inner.cluster:
            break
        if inner.processor != loop.processor:
            break
        nest.append(inner)
    return nest


def in_step(program: TileProgram, channel: str | None, variable: Var) -> bool:
    """Whether a channel has the same number of fills and uses in all iterations of a loop."""
    return not any(
        isinstance(node, Copy | Acquire | Commit | Wait | Release)
        and node.channel == channel
        and any(variable in loop.extent.variables() for loop in loops)
        for node, loops in walk(program.body)
    )
