"""Fusion of zero fills into accumulations, whose first step overwrites instead."""

from __future__ import annotations

from dataclasses import replace

from septran.ir.bounds import least
from septran.ir.index import Index, Range, Var, axis
from septran.tile.analyses.loops import depends, ranges
from septran.tile.nodes import Compute, Copy, For, Node, Region, TileProgram, nodes, reads, writes
from septran.tile.substitution import FIRST


def fuse_fills(program: TileProgram) -> TileProgram:
    """Drop the zeroing of what a following loop of gemms overwrites in its first step."""
    return replace(program, body=_fuse(program.body, ranges(program.body)))


def _fuse(body: tuple[Node, ...], known: dict[Var, Range]) -> tuple[Node, ...]:
    result: list[Node] = []
    rest = [replace(n, body=_fuse(n.body, known)) if isinstance(n, For) else n for n in body]
    while rest:
        node = rest.pop(0)
        at = _reader(node, rest) if _zeroes(node) else None
        if at is not None and isinstance(node, Compute):
            fused = _without_fill(node, rest[at], known)
            if fused is not None:
                rest[at] = fused
                continue
            if _staged(node, at, rest, known):
                continue
        result.append(node)
    return tuple(result)


def _staged(fill: Compute, at: int, rest: list[Node], known: dict[Var, Range]) -> bool:
    """Fuse zeros that are copied to where a gemm adds to them, and whose place is then rewritten.

    So they are where the zeroing and the gemm are leaves of their own. Returns whether they were:
    the copy is gone from `rest` then, and the fill is not needed.
    """
    copy, zeros = rest[at], fill.operands[0]
    if not isinstance(copy, Copy) or copy.source != zeros:
        return False
    later = rest[at + 1 :]
    there = replace(fill, operands=(copy.target,))
    user, again = _reader(there, later), _reader(fill, later)
    if user is None or again is None:
        return False
    back = later[again]  # what comes next to the place of the zeros
    fused = _without_fill(there, later[user], known)
    if fused is None or not isinstance(back, Copy) or back.target != zeros:
        return False
    later[user] = fused
    rest[at:] = later
    return True


def _zeroes(node: Node) -> bool:
    return (
        isinstance(node, Compute)
        and node.primitive == "fill"
        and dict(node.attributes).get("value") == 0
    )


def _reader(fill: Node, rest: list[Node]) -> int | None:
    """Return the position of the next node that touches the filled buffer."""
    target = writes(fill)[0].buffer
    for at, node in enumerate(rest):
        if any(r.buffer == target for n in nodes((node,)) for r in (*reads(n), *writes(n))):
            return at
    return None


def _without_fill(fill: Compute, node: Node, known: dict[Var, Range]) -> Node | None:
    """Return `node` with its gemm overwriting in the first step; None if that is not the same."""
    loops, gemm = _only_gemm(fill.operands[0].buffer, node)
    if gemm is None:
        return None
    steps = [loop for loop in loops if not depends(gemm.operands[0], loop.variable)]
    tiles = [loop for loop in loops if loop not in steps]
    # Of two summed loops no single index names the first step, and a loop without iterations would
    # leave the tile unset.
    tops = {loop.variable: loop.extent for loop in loops}
    if len(steps) > 1 or any(least(s.extent, known, tops) < 1 for s in steps):
        return None
    if not _tiles_cover(gemm.operands[0], fill.operands[0], tiles):
        return None
    if least(gemm.operands[1].valid[1], known, tops) < 1:  # an empty sum leaves the zeros
        return None
    first = steps[0].variable.name if steps else ""
    marked = replace(gemm, attributes=(*gemm.attributes, (FIRST, first)))
    return _swap(node, gemm, marked)


def _only_gemm(buffer: str, node: Node) -> tuple[list[For], Compute | None]:
    """Return the single user of `buffer` in a nest, if it is a gemm, and the loops around it."""
    loops: list[For] = []
    users: list[tuple[list[For], Node]] = []

    def visit(node: Node, around: list[For]) -> None:
        if isinstance(node, For):
            for inner in node.body:
                visit(inner, [*around, node])
        elif any(r.buffer == buffer for r in (*reads(node), *writes(node))):
            users.append((around, node))

    visit(node, loops)
    if len(users) != 1:
        return [], None
    around, user = users[0]
    fits = isinstance(user, Compute) and user.primitive == "gemm"
    fits = (
        fits and all(r.buffer != buffer for r in user.operands[1:])
        if isinstance(user, Compute)
        else False
    )
    return around, user if fits and isinstance(user, Compute) else None


def _tiles_cover(tile: Region, whole: Region, tiles: list[For]) -> bool:
    """Return whether the tiles of all iterations make up `whole`: one loop an axis, no gaps."""
    if tile == whole:
        return not tiles
    left = {loop.variable: loop for loop in tiles}
    for n in range(len(tile.index)):
        start = tile.index[n] - axis(n)
        base = whole.index[n] - axis(n)
        step = start - base
        if tile.index[n].coefficient(axis(n)) != 1 or whole.index[n].coefficient(axis(n)) != 1:
            return False
        # Along this axis no loop moves the tile, so it must be all there is.
        if step == Index():
            if tile.valid[n] != whole.valid[n]:
                return False
            continue
        loop = next((v for v in left if step == Index.of(v) * tile.shape[n]), None)
        if loop is None:
            return False
        extent = left.pop(loop).extent
        if not extent.is_constant or extent.constant * tile.shape[n] < whole.shape[n]:
            return False
    return not left


def _swap(node: Node, old: Node, new: Node) -> Node:
    if node is old:
        return new
    if isinstance(node, For):
        return replace(node, body=tuple(_swap(n, old, new) for n in node.body))
    return node
