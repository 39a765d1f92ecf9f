"""Multicast: copies that are the same for several blocks of a cluster are made once for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from septran.tile.analyses.clusters import in_step, same_for_all, shareable
from septran.tile.analyses.loops import walk
from septran.tile.nodes import Copy, For, Node, Role, TileProgram

NAME = "multicast"


def multicast(program: TileProgram) -> TileProgram:
    """Let each block of a cluster bring a part of a common tile, and send it to the others."""
    if not any(isinstance(n, For) and n.cluster for n, _ in walk(program.body)):
        return program
    work = _Multicast(program)
    return replace(program, body=work.body(program.body, ()))


@dataclass
class _Multicast:
    program: TileProgram

    def body(self, body: tuple[Node, ...], loops: tuple[For, ...]) -> tuple[Node, ...]:
        return tuple(self.node(node, loops) for node in body)

    def node(self, node: Node, loops: tuple[For, ...]) -> Node:
        if isinstance(node, For):
            return replace(node, body=self.body(node.body, (*loops, node)))
        if isinstance(node, Role):
            return replace(node, body=self.body(node.body, loops))
        if isinstance(node, Copy) and node.channel and shareable(self.program, node):
            return self.shared(node, loops)
        return node

    def shared(self, copy: Copy, loops: Sequence[For]) -> Copy:
        """Return a copy with the loops over blocks on which it does not depend."""
        over = [
            loop
            for n, loop in enumerate(loops)
            if loop.cluster
            and same_for_all(copy, loops[n + 1 :], loop.variable)
            and in_step(self.program, copy.channel, loop.variable)
        ]
        if not over:
            return copy
        many = tuple((loop.variable, loop.extent.as_int()) for loop in over)
        found = replace(copy, multicast=many)
        count = found.receivers
        rule = (
            f"{copy.origin.rule}; it is the same for {count} blocks of the cluster, so each "
            f"brings 1/{count} of it and sends that to all (multicast)"
        )
        return replace(found, origin=replace(copy.origin, rule=rule))
