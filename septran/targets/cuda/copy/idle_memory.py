"""Shared memory that nothing uses any more where a kernel's results are stored."""

from __future__ import annotations

from septran.targets.cuda.context import Context
from septran.tile.analyses.loops import used
from septran.tile.nodes import Copy, Node, Role, TileProgram, Wait, nodes, regions
from septran.tile.records import Placement

ALIGNMENT = 1024


def idle(context: Context, node: Copy, size: int) -> int | None:
    """A byte of shared memory from which on `size` of them are free from `node` on.

    Free are the tiles of which every fill has been waited for: those of a kernel whose `node`
    is in no loop. The threads that run `node` still have to meet.
    """
    body = context.state.body
    held = _holders(body, node)
    if held is None:
        return None
    role, later = held
    beside = [n for n in body if isinstance(n, Role) and n is not role] if role else []
    ours = role.body if role else body
    busy = used(later) | _shared_with(context.program, ours, beside)
    mine = used(body)
    plan = [p for p in context.program.plan if p.memory == "SHARED" and p.buffer in mine]
    for place in sorted(plan, key=lambda p: -p.size_bytes):
        start = -(-place.offset_bytes // ALIGNMENT) * ALIGNMENT
        around = [p for p in plan if _overlaps(p, start, size)]
        inside = start + size <= place.offset_bytes + place.size_bytes
        if inside and not any(p.buffer in busy for p in around):
            return start
    return None


def reused(context: Context, base: int) -> bool:
    """Whether a byte of shared memory belongs to a tile of the program."""
    return any(
        p.memory == "SHARED" and p.buffer in context.storages and _overlaps(p, base, 1)
        for p in context.program.plan
    )


def _holders(body: tuple[Node, ...], node: Copy) -> tuple[Role | None, tuple[Node, ...]] | None:
    """The role that holds a node, and what follows it there; None where it is in a loop."""
    for role in (None, *(n for n in body if isinstance(n, Role))):
        inside = role.body if role else body
        at = next((n for n, other in enumerate(inside) if other is node), None)
        if at is not None:
            return role, inside[at + 1 :]
    return None


def _shared_with(
    program: TileProgram, ours: tuple[Node, ...], beside: list[Role]
) -> frozenset[str]:
    """Tiles that other roles may use still: all but those that they filled, as we waited for."""
    waited = {n.channel for n in nodes(ours) if isinstance(n, Wait)}
    found: set[str] = set()
    for role in beside:
        for node in nodes(role.body):
            fills = isinstance(node, Copy) and node.channel in waited
            touched = regions(node)[1:] if fills else regions(node)
            found.update(r.buffer for r in touched)
    return frozenset(found)


def _overlaps(place: Placement, start: int, size: int) -> bool:
    return start < place.offset_bytes + place.size_bytes and place.offset_bytes < start + size
