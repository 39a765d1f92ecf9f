"""Operands that arrive by engines that cannot transpose: kept as they come, and read transposed.

Where a tile of ``A.T`` is copied by an engine that moves contiguous rows only, the copy would
go element by element. If a matrix product is all that reads it, the buffer holds the tile the
other way round instead, and the product takes a transposed operand: same bytes, other order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from septran.ir.index import axis
from septran.targets.dsa.runs import fused, slope
from septran.tile.nodes import (
    Buffer,
    Compute,
    Copy,
    Node,
    Region,
    TileProgram,
    nodes,
    reads,
    rewrite,
    writes,
)


def transpose_operands(program: TileProgram) -> TileProgram:
    """`program` with such buffers transposed."""
    names = _to_transpose(program)
    if not names:
        return program
    buffers = tuple(_transposed_buffer(b) if b.name in names else b for b in program.buffers)

    def region(of: Region) -> Region:
        if of.tensor not in names:
            return of
        return replace(of, index=(*of.index[:-2], of.index[-1], of.index[-2]))

    def change(node: Node) -> tuple[Node, ...]:
        match node:
            case Copy(target=target, source=source):
                if target.tensor in names:  # axes in the order in which they lie
                    target, source = (r.transposed((1, 0)) for r in (target, source))
                return (replace(node, target=region(target), source=region(source)),)
            case Compute():
                return (replace(node, operands=tuple(map(region, node.operands))),)
            case _:
                return (node,)

    return replace(program, buffers=buffers, body=rewrite(program.body, change))


def _transposed_buffer(buffer: Buffer) -> Buffer:
    shape = buffer.shape
    return replace(buffer, shape=(*shape[:-2], shape[-1], shape[-2]))


def _to_transpose(program: TileProgram) -> frozenset[str]:
    """The buffers to transpose: first those that a transposed copy fills, then what these fill."""
    buffers = {b.name: b for b in program.buffers}
    # A buffer may be transposed only if all that it is copied to may: the greatest such set.
    able = {name for name in buffers if _able(program, buffers[name])}
    while True:
        kept = {name for name in able if _closed(program, name, able)}
        if kept == able:
            break
        able = kept
    found: set[str] = set()
    while True:
        # Of these, the ones worth it: filled across, or from one that is transposed already.
        more = {name for name in able - found if _comes_transposed(program, name, buffers, found)}
        if not more:
            return frozenset(found)
        found |= more


def _able(program: TileProgram, buffer: Buffer) -> bool:
    """Whether a buffer may be transposed, as far as it is concerned alone."""
    plain = buffer.layout.kind in ("row", "fractal") and len(buffer.shape) == 2
    # Fractals of m x n would become n x m, which the matrix unit does not read.
    square = len(set(buffer.layout.parameters)) <= 1
    return plain and square and buffer.name not in program.params


def _closed(program: TileProgram, name: str, able: set[str]) -> bool:
    """Whether only copies write it, and only products and copies into other such read it."""
    for node in nodes(program.body):
        if isinstance(node, Compute):
            operands = [r.buffer for r in node.operands]
            if name in operands and (node.primitive != "gemm" or operands[0] == name):
                return False
        if isinstance(node, Copy) and node.source.buffer == name and node.target.buffer not in able:
            return False
    return any(r.buffer == name for n in nodes(program.body) for r in reads(n))


def _comes_transposed(
    program: TileProgram, name: str, buffers: Mapping[str, Buffer], found: set[str]
) -> bool:
    """Whether every copy into a buffer would go element by element."""
    fills = list(_fills(program, name))
    return bool(fills) and all(
        copy.source.buffer in found
        if copy.source.buffer not in program.params
        else not program.machine.engine(copy.engine).transposes
        and _across(buffers[copy.source.buffer], copy)
        for copy in fills
    )


def _fills(program: TileProgram, name: str) -> Iterator[Copy]:
    for node in nodes(program.body):
        if isinstance(node, Copy) and any(r.buffer == name for r in writes(node)):
            yield node


def _across(buffer: Buffer, copy: Copy) -> bool:
    """Whether neighbours along the source's last axis are far apart, and along the other not."""
    region = copy.source
    if region.rank != 2:
        return False
    offset = fused(buffer.layout.offset(region.index, buffer.shape))
    return slope(offset, axis(1)) != 1 and slope(offset, axis(0)) == 1
