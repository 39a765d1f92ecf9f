"""Whose each of a block's named barriers is (PTX ISA, bar: a block has 16).

The first is the whole block's, and each role has one. Ping-pong has the last ones, one a
warpgroup, and the warpgroups that store by TMA have those before. With up to four warpgroups
both begin at the same numbers in every kernel, which makes texts easy to compare.
"""

from __future__ import annotations

from septran.targets.cuda.context import Context
from septran.targets.cuda.fragment.fragments import GROUP
from septran.tile.nodes import Role

MOST = 16
"""Named barriers of a block."""
TURNS, STORES = 12, 8
"""The first ones of ping-pong and of stores where they have room from there on."""


def first_of_turns(warpgroups: int) -> int:
    """Return ping-pong's first barrier for so many warpgroups."""
    return min(TURNS, MOST - warpgroups)


def first_of_stores(context: Context) -> int | None:
    """Return the first barrier of the running role's warpgroups; None if they are too many."""
    role: Role | None = context.state.pingpong
    groups = context.threads.count // GROUP
    end = first_of_turns(role.count) if role is not None else MOST
    first = min(STORES, end - groups)
    taken = max((t.barrier for t in context.state.roles.values()), default=0)
    return first if first > taken else None
