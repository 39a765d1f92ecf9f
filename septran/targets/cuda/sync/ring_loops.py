"""Loops of rings: products that run on into the next iteration, one barrier an iteration."""

from __future__ import annotations

import math
from dataclasses import replace

from septran.ir.bounds import Ranges, loop_range
from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.gemm import wgmma
from septran.targets.cuda.gemm.wgmma_scoreboard import WAIT, hold
from septran.targets.cuda.lowering import describe
from septran.targets.cuda.lowering import emit_for as plain_for
from septran.targets.cuda.run.instrumentation import marked
from septran.targets.cuda.sync import channels
from septran.targets.cuda.text.ptx import ptx
from septran.targets.cuda.writer import UNROLL
from septran.tile.nodes import Acquire, Commit, Compute, Copy, For, Node, Release, Wait

MOST_PRODUCTS = 64
"""Instructions of products that a loop's text may have, which all have to fit the cache."""


def emit_for(context: Context, loop: For) -> None:
    """A loop of waits, one product and releases keeps a product in flight; others as they are."""
    product = _only_product(loop.body)
    # Only where nothing else of the body could need the product is it left in flight.
    if product is None or not _divisible(context, loop):
        plain_for(context, replace(loop, body=in_order(context, loop, context.indices.ranges)))
        return
    turn = _turn(context, loop, product)
    if turn > 1:
        context.writer.note(f"{UNROLL}{turn}")
    with context.loop(loop.variable.name, loop.extent) as index:
        context.alias(loop.variable, index)
        for node in loop.body:
            if not isinstance(node, Release):
                context.writer.note(describe(node))
            with marked(context, node):
                _steady(context, loop, node, index)
    context.loops.pop(loop.variable.name, None)
    with marked(context, "wait for products"):
        ptx(context, WAIT, 0)
        hold(context)
    # The last product's stages: each iteration released those of the one before.
    last = context.indices.simplify(loop.extent - 1)
    for node in loop.body:
        if isinstance(node, Release):
            context.writer.note(describe(node))
            channels.release(context, _at(node, loop, last))


def in_order(context: Context, loop: For, ranges: Ranges) -> tuple[Node, ...]:
    """A loop's body, fills by groups of chunks behind the first wait, whose barrier frees stages.

    `ranges` are those of the indices around the loop.
    """
    body, inside = loop.body, {**ranges, loop.variable: loop_range(loop.extent, ranges)}
    first = next((n for n, node in enumerate(body) if not _fills(context, node)), 0)
    wait = body[first]
    if first == 0 or not isinstance(wait, Wait) or not _grouped(context, wait):
        return body
    if any(isinstance(n, Commit) and not _younger(n, wait, inside) for n in body[:first]):
        return body
    context.state.covered.update(id(n) for n in body[:first])
    return (wait, *body[:first], *body[first + 1 :])


def _younger(fill: Commit, wait: Wait, ranges: Ranges) -> bool:
    """Whether a fill is surely not the one that is waited for, but comes behind it."""
    ahead = (fill.index - wait.index).simplify(ranges).bounds(ranges)[0]
    return fill.channel != wait.channel or ahead > 0


def _fills(context: Context, node: Node) -> bool:
    """Whether a node is a part of a fill by chunks that their own threads wait for."""
    return isinstance(node, Acquire | Copy | Commit) and _grouped(context, node)


def _grouped(context: Context, node: Node) -> bool:
    name = getattr(node, "channel", None)
    if name is None:
        return False
    found = channels.ring(context, name)
    return found.inward and not found.mbarriers


def _steady(context: Context, loop: For, node: Node, index: Index) -> None:
    """A node of the body; what the product before this one read is released behind it."""
    match node:
        case Wait():
            channels.wait(context, node)
        case Compute():
            wgmma.issue(context, node)
            # All but the product just issued are complete: what the one before it read is free.
            ptx(context, WAIT, 1)
            releases = [n for n in loop.body if isinstance(n, Release)]
            begun = context.lower(index) > context.writer.index(0)
            with context.writer.when(begun):
                for release in releases:
                    context.writer.note(describe(release))
                    channels.release(context, _at(release, loop, index - 1))


def _at(node: Release, loop: For, value: Index) -> Release:
    return Release(node.channel, node.index.substitute({loop.variable: value}), node.origin)


def _only_product(body: tuple[Node, ...]) -> Compute | None:
    """The product, where a body is waits, one product by wgmma, and releases."""
    kinds = [n for n in body if not isinstance(n, Wait)]
    if not kinds or not isinstance(kinds[0], Compute) or kinds[0].instruction not in wgmma.NAMES:
        return None
    if not all(isinstance(n, Release) for n in kinds[1:]):
        return None
    return kinds[0]


def _turn(context: Context, loop: For, product: Compute) -> int:
    """How many iterations are written side by side: one for each stage of the rings.

    Then stages, addresses of barriers and descriptors are numbers that the compiler knows.
    """
    names = {n.channel for n in loop.body if isinstance(n, Release)}
    turn = math.lcm(*(context.program.channel(name).stages for name in names))
    least = context.indices.bounds(loop.extent)[0]
    fits = turn * wgmma.instructions(context, product) <= MOST_PRODUCTS
    return turn if names and fits and least > turn else 1


def _divisible(context: Context, loop: For) -> bool:
    """Whether it has an iteration, and each fill's number follows from the iteration's."""
    least = context.indices.bounds(loop.extent)[0]
    rings = [channels.ring(context, n.channel) for n in loop.body if isinstance(n, Release)]
    return least >= 1 and all(r.mbarriers for r in rings)
