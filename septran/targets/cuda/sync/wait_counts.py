"""Wait counts: groups of asynchronous copies that may be in flight when a fill has landed.

Groups complete in the order in which a thread committed them, so waiting for one is to count
the commits behind it. The count is that of a run of the program on its handshake alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from septran.ir.atoms import Assumed, table_of
from septran.ir.bounds import Ranges, loop_range
from septran.ir.index import Var
from septran.targets.cuda.context import Context
from septran.tile.analyses.indirect import indirect
from septran.tile.nodes import Commit, For, Node, Role, Wait

MOST_YOUNGER = 7
"""Younger groups that a wait leaves under way at most. A smaller count is right as well: it
only waits longer."""
TRIPS = 24
"""Iterations at the start and at the end of a long loop that stand for all of it."""


def pending(context: Context, node: Wait) -> int:
    """The least number of younger groups at any execution of a wait."""
    if context.state.pending is None:
        context.state.pending = _counts(context)
    return context.state.pending.get((node.channel, node.index), 0)


def _counts(context: Context) -> dict[tuple[str, object], int]:
    found: dict[tuple[str, object], int] = {}
    for values in _corners(context):
        # Groups of cp.async and bulk groups are counted apart.
        order: dict[bool, list[tuple[str, int]]] = {True: [], False: []}
        for node, known in _run(context, context.state.body, dict(values), context.indices.ranges):
            inward = _inward(context, node.channel)
            if inward is None:
                continue
            number = (node.channel, node.index.evaluate(known))
            if isinstance(node, Commit):
                order[inward].append(number)
                continue
            issued = order[inward]
            behind = len(issued)
            # A fill of an iteration that was left out is not there: then other executions decide.
            if number in issued:
                behind = len(issued) - 1 - _last(issued, number)
            key = (node.channel, node.index)
            found[key] = min(found.get(key, MOST_YOUNGER), behind)
    return found


def runs(context: Context) -> Iterator[Iterator[Commit | Wait]]:
    """The commits and waits of the kernel in order, at the least and greatest indices around it."""
    for values in _corners(context):
        found = _run(context, context.state.body, dict(values), context.indices.ranges)
        yield (node for node, _ in found)


def _inward(context: Context, channel: str) -> bool | None:
    """Whether it is a channel of cp.async loads; None where it has mbarriers."""
    ring = context.state.rings.get(channel)
    if ring is None or ring.mbarriers:
        return None
    return bool(ring.inward)


def _last(issued: list[tuple[str, int]], number: tuple[str, int]) -> int:
    return len(issued) - 1 - issued[::-1].index(number)


def _corners(context: Context) -> Iterator[dict[Var, int]]:
    """Least and greatest values of the loop indices around the kernel's body.

    Loops whose counts the caller's integers say turn a few times, and often.
    """
    outer = dict(context.indices.ranges)
    names = indirect(context.state.body)
    for pick in (0, 1):
        for trips in (*range(MOST_YOUNGER + 2), TRIPS) if names else (0,):
            assumed: dict[Var, Any] = {table_of(name): Assumed(trips) for name in names}
            yield {**assumed, **{v: r[pick] for v, r in outer.items()}}


def _run(
    context: Context, body: tuple[Node, ...], known: dict[Var, int], ranges: Ranges
) -> Iterator[tuple[Commit | Wait, dict[Var, int]]]:
    """The commits and waits of a body in the order in which they are carried out."""
    from septran.targets.cuda.sync.ring_loops import in_order

    for node in body:
        if isinstance(node, Commit | Wait):
            yield node, known
        elif isinstance(node, Role):
            yield from _run(context, node.body, known, ranges)
        elif isinstance(node, For):
            extent = max(0, node.extent.evaluate(known))
            trips = range(extent)
            if extent > 2 * TRIPS:
                trips = [*range(TRIPS), *range(extent - TRIPS, extent)]  # type: ignore[assignment]
            inside = in_order(context, node, ranges)
            around = {**ranges, node.variable: loop_range(node.extent, ranges)}
            for trip in trips:
                yield from _run(context, inside, {**known, node.variable: trip}, around)
