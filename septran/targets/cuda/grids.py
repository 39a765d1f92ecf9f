"""Which loops of a kernel are its grid."""

from __future__ import annotations

from septran.targets.cuda.unsupported import unsupported
from septran.tile.nodes import For, Node


def grid(body: tuple[Node, ...]) -> tuple[list[For], tuple[Node, ...]]:
    """The parallel loops around a body whose iterations are blocks, and what is in them."""
    loops: list[For] = []
    while len(body) == 1:
        (node,) = body
        if not (isinstance(node, For) and node.kind == "parallel"):
            break
        if node.processor is None and loops and loops[-1].processor is not None:
            break  # the turns of one block
        if node.processor in ("WARPGROUP", "WARP", "THREAD"):
            raise unsupported(
                node.origin, f"parallel loops over {node.processor} are not written yet"
            )
        loops.append(node)
        body = node.body
    return loops, body
