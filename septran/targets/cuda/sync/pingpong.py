"""Warpgroups that take turns in issuing products, so that one computes while another's run.

Warpgroup w waits for its own named barrier, issues, and arrives on that of warpgroup w + 1. The
last one arrives on the first one's at the start, who takes what is left over at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tvm.script.ir_builder import tirx as T  # noqa: N812  # as TVM itself spells it

from septran.ir.index import Index
from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import GROUP
from septran.targets.cuda.sync.named_barriers import first_of_turns
from septran.targets.cuda.text.ptx import ptx
from septran.targets.cuda.warps import warpgroup
from septran.tile.analyses.asynchronous_products import asynchronous
from septran.tile.nodes import Node, Release, Role, Wait


@contextmanager
def taken(context: Context, role: Role | None) -> Iterator[None]:
    """The body of a role whose warpgroups take turns is written inside."""
    if role is None or not role.pingpong:
        yield
        return
    context.state.pingpong = role
    last = context.lower(warpgroup(context)) == context.writer.index(role.count - 1)
    with context.writer.when(last):
        _bar(context, "bar.arrive", Index())
    yield
    first = context.lower(warpgroup(context)) == context.writer.index(0)
    with context.writer.when(first):
        _bar(context, "bar.sync", Index())
    context.state.pingpong = None


def before(context: Context, body: tuple[Node, ...], position: int) -> None:
    """Wait for this warpgroup's turn where a run of products begins."""
    if _edge(context, body, position, -1):
        _bar(context, "bar.sync", _group(context))


def after(context: Context, body: tuple[Node, ...], position: int) -> None:
    """Hand the turn on where a run of products ends."""
    if _edge(context, body, position, 1):
        role = context.state.pingpong
        assert role is not None
        _bar(context, "bar.arrive", (_group(context) + 1) % role.count)


def _edge(context: Context, body: tuple[Node, ...], position: int, step: int) -> bool:
    """Whether a node is the first (-1) or last (1) product of a run in which turns are taken."""
    program = context.program
    if context.state.pingpong is None or not asynchronous(program, body[position]):
        return False
    position += step
    # Waits and releases between two products do not end a run.
    while 0 <= position < len(body) and isinstance(body[position], Wait | Release):
        position += step
    return not (0 <= position < len(body) and asynchronous(program, body[position]))


def _group(context: Context) -> Index:
    return warpgroup(context)


def _bar(context: Context, text: str, number: Index) -> None:
    """One warpgroup arrives and another one waits."""
    role = context.state.pingpong
    assert role is not None
    barrier = T.Cast("uint32", context.lower(number + first_of_turns(role.count)))
    ptx(context, text, barrier, T.uint32(2 * GROUP))
