"""Dependence between iterations: which copies of a loop may run ahead of it or behind it."""

from __future__ import annotations

from collections.abc import Iterable

from septran.ir.index import Var, axis
from septran.tile.nodes import Copy, For, Node, Region, Role, TileProgram, nodes, regions, writes


def homes(body: tuple[Node, ...]) -> dict[str, tuple[Var, ...]]:
    """Return, for each buffer, the loop indices around all of its uses, outermost first."""
    found: dict[str, tuple[Var, ...]] = {}

    def visit(body: tuple[Node, ...], loops: tuple[Var, ...]) -> None:
        for node in body:
            for region in regions(node):
                known = found.get(region.buffer, loops)
                same = (a == b for a, b in zip(known, loops, strict=False))
                shared = next((n for n, equal in enumerate(same) if not equal), None)
                length = min(len(known), len(loops)) if shared is None else shared
                found[region.buffer] = loops[:length]
            if isinstance(node, For):
                visit(node.body, (*loops, node.variable))
            elif isinstance(node, Role):
                visit(node.body, loops)

    visit(body, ())
    return found


def is_asynchronous(program: TileProgram, node: Node) -> bool:
    """Return whether a node is a copy that could be asynchronous and has no channel yet."""
    if not isinstance(node, Copy) or node.channel is not None:
        return False
    return program.machine.engine(node.engine).asynchronous


def is_load(program: TileProgram, copy: Copy) -> bool:
    """Return whether a copy moves data towards its use, rather than results away from it."""
    target, source = (program.buffer(r.buffer).memory for r in (copy.target, copy.source))
    depth = program.machine.depth
    inward = depth(program.machine.memory(target).visible_to) - depth(
        program.machine.memory(source).visible_to
    )
    if inward == 0:
        # Memories of one level: machine files list larger ones first, so data moves inwards along
        # them.
        order = [m.name for m in program.machine.memories]
        inward = order.index(target) - order.index(source)
    return copy.target.buffer not in program.params and inward >= 0


def hindrance(
    copy: Copy, position: int, loop: For, loaded: frozenset[str] = frozenset()
) -> str | None:
    """Return why the load at `position` cannot have a ring of its own; None if it can.

    Nothing before it in its own iteration may touch its target or change its source, nothing after
    it may change its target (whose store would have to be waited for before the next fill). In a
    sequential loop no other iteration may change its source either. Its source may also be one of
    the `loaded` buffers, which a load before it has filled.
    """
    before = tuple(loop.body[:position])
    target, source = copy.target.buffer, copy.source.buffer
    if _touched(target, (n for n in before if not _same_fill(n, copy))):
        return f"{target} is used before it in the same iteration"
    after = (n for n in loop.body[position + 1 :] if not _same_fill(n, copy))
    if target in _written(tuple(after)):
        return f"{target} is changed after it in the same iteration"
    if source in loaded and _filled_once(source, before):
        return None
    if source in _written(before):
        return f"{source} is written before it in the same iteration"
    # Parallel iterations are independent, which the verifier checks for every such loop.
    if loop.kind == "parallel" or source not in _written(loop.body):
        return None
    if _apart(_on(source, loop.body), loop.variable):
        return None
    return f"{source} is written by the iteration before"


def may_lag(copy: Copy, position: int, loop: For) -> bool:
    """Return whether the store at `position` may still run during later iterations."""
    after = tuple(loop.body[position + 1 :])
    if _touched(copy.target.buffer, after) or copy.source.buffer in _written(after):
        return False
    return loop.kind == "parallel" or _apart(_on(copy.target.buffer, loop.body), loop.variable)


def _filled_once(buffer: str, before: tuple[Node, ...]) -> bool:
    """Return whether only loads at the level of the loop's body write a buffer."""
    deep = (n for node in before if not isinstance(node, Copy) for n in nodes((node,)))
    return buffer not in {r.buffer for n in deep for r in writes(n)}


def _same_fill(node: Node, copy: Copy) -> bool:
    """Whether another load fills the same buffer, and thus runs ahead together with this one."""
    return (
        isinstance(node, Copy)
        and node.engine == copy.engine
        and node.target.buffer == copy.target.buffer
    )


def _touched(buffer: str, body: Iterable[Node]) -> bool:
    return any(r.buffer == buffer for n in nodes(tuple(body)) for r in regions(n))


def _written(body: tuple[Node, ...]) -> frozenset[str]:
    return frozenset(r.buffer for n in nodes(body) for r in writes(n))


def _on(buffer: str, body: tuple[Node, ...]) -> list[Region]:
    return [r for n in nodes(body) for r in regions(n) if r.buffer == buffer]


def _apart(touched: list[Region], variable: Var) -> bool:
    """Return whether iterations touch different elements: one axis steps past its extent."""
    first = touched[0]
    for number, entry in enumerate(first.index):
        # One iteration touches at most `reach` coordinates in a row: a step of so many clears
        # them.
        reach = 1 + sum(
            abs(entry.coefficient(axis(n))) * (extent - 1) for n, extent in enumerate(first.shape)
        )
        alike = all(r.index[number] == entry and r.shape == first.shape for r in touched)
        if alike and abs(entry.coefficient(variable)) >= reach:
            return True
    return False
