"""Zeros at the edges of tiles for instructions that always sum over whole tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from septran.ir.index import Index
from septran.tile.nodes import Compute, Copy, Node, TileProgram, nodes, rewrite

SUMMED = {1: 1, 2: 0}
"""The summed axis of gemm's operands A and B."""


def zero_edges(program: TileProgram) -> TileProgram:
    """Let copies put zeros where a tile that is summed over whole has no elements."""
    whole = frozenset(_summed_whole(program))
    if not whole:
        return program

    def change(node: Node) -> tuple[Node, ...]:
        if isinstance(node, Copy) and node.target.buffer in whole and node.target.ragged:
            return (replace(node, zero_fill=True),)
        return (node,)

    return replace(program, body=rewrite(program.body, change))


def whole_products(program: TileProgram) -> Iterator[Compute]:
    """Yield the gemms whose instruction sums over whole tiles, even where parts do not exist."""
    for node in nodes(program.body):
        if not isinstance(node, Compute) or node.primitive != "gemm":
            continue
        if program.machine.instruction(node.instruction).options.get("whole_tiles"):
            yield node


def _summed_whole(program: TileProgram) -> set[str]:
    """Return operands of which an instruction sums a ragged axis as if it were not."""
    found: set[str] = set()
    for node in whole_products(program):
        for position, axis in SUMMED.items():
            region = node.operands[position]
            if region.valid[axis] != Index.of(region.shape[axis]):
                found.add(region.buffer)
    return found
