"""Whether what blocks of a cluster share is the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator

from septran.errors import TileError
from septran.tile.analyses.clusters import in_step, same_for_all, shareable
from septran.tile.analyses.loops import walk
from septran.tile.interpret.channel_state import located
from septran.tile.nodes import Copy, For, TileProgram


class ClusterError(TileError):
    """A cluster is none, or blocks of one share a copy that is not the same for all of them."""

    code = "SEP435"


def check_clusters(program: TileProgram) -> Iterator[TileError]:
    """Loops over the blocks of a cluster, and the copies that they make together."""
    for node, loops in walk(program.body):
        if isinstance(node, For) and node.cluster:
            if node.kind != "parallel" or not node.extent.is_constant:
                message = f"the loop over {node.variable} is a cluster of no fixed number of blocks"
                yield located(ClusterError, message, node.origin)
        elif isinstance(node, For) and node.processor is not None:
            if any(n.cluster and n.processor == node.processor for n in loops):
                message = f"the loop over {node.variable} is inside of a cluster of the same level"
                yield located(ClusterError, message, node.origin)
        elif isinstance(node, Copy) and node.multicast:
            why = _refusal(program, node, loops)
            if why is not None:
                yield located(ClusterError, f"{node.target} is multicast, but {why}", node.origin)


def _refusal(program: TileProgram, copy: Copy, loops: tuple[For, ...]) -> str | None:
    """Why blocks cannot make a copy together; None where they can."""
    if copy.channel is None or not shareable(program, copy):
        return f"{copy.engine} cannot send it to several blocks"
    for variable, extent in copy.multicast:
        at = next((n for n, x in enumerate(loops) if x.variable == variable and x.cluster), None)
        if at is None or loops[at].extent.as_int() != extent:
            return f"{variable} is no loop over {extent} blocks of a cluster around it"
        if not same_for_all(copy, loops[at + 1 :], variable):
            return f"it is not the same for all blocks along {variable}"
        if not in_step(program, copy.channel, variable):
            return f"blocks along {variable} do not fill {copy.channel} equally often"
    return None
