"""Flags that are set as often as they are waited for."""

from __future__ import annotations

import numpy as np

from septran.targets.dsa.simulator.errors import FlagError
from septran.targets.dsa.simulator.stream import SET, WAIT, Stream


def check_balance(stream: Stream) -> None:
    """Raise FlagError for a flag that stays set: the next kernel would find it."""
    at = np.flatnonzero((stream.code == SET) | (stream.code == WAIT))
    if not at.size:
        return
    keys = np.column_stack([stream.core[at], stream.arguments[at, :3]])
    change = np.where(stream.code[at] == SET, 1, -1)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    left = np.bincount(group.reshape(-1), change)
    bad = np.flatnonzero(left > 0)
    if bad.size:
        n = at[first[bad[0]]]
        raise FlagError(
            f"{stream.flag_name(n)} is set {left[bad[0]]:.0f} times more often than it is "
            f"waited for; its first use is {stream.describe(n)}"
        )
