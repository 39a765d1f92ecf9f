"""Regions that have bytes in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from septran.simulator.hazards.accesses import span

Array = np.ndarray[Any, Any]


def overlaps(
    regions: Array, used: Array, lane: Array | None = None, written: Array | None = None
) -> tuple[Array, Array]:
    """All ordered pairs of different used regions that share a byte.

    Where `lane` and `written` are given, only those of which one is written, and which not
    the same lane alone uses (-1 stands for several lanes).
    """
    rows = np.flatnonzero(used)
    rows = rows[np.lexsort((regions[rows, 1], regions[rows, 0]))]
    table = regions[rows]
    # Spaces one behind the other in one line of addresses, so that one sort serves all.
    reach = span(table)
    # Addresses leave 40 bits to a space (`PARAMETER_BITS`), so no span reaches the next one's.
    line = table[:, 0] << 41
    start, end = line + table[:, 1], line + table[:, 1] + reach
    # Sorted by start, those that overlap a span are the ones right behind it, up to its end.
    count = np.searchsorted(start, end, side="left") - np.arange(len(rows)) - 1
    first = np.repeat(np.arange(len(rows)), count)
    step = np.arange(first.size) - np.repeat(np.cumsum(count) - count, count)
    second = first + 1 + step
    if lane is not None and written is not None:
        own, wrote = lane[rows], written[rows]
        matter = (own[first] != own[second]) | (own[first] < 0)
        matter &= wrote[first] | wrote[second]
        first, second = first[matter], second[matter]
    shared = _share(table, first, second)
    a, b = rows[first[shared]], rows[second[shared]]
    return np.concatenate([a, b]), np.concatenate([b, a])


def _share(table: Array, first: Array, second: Array) -> Array:
    """Whether pairs whose spans overlap have a byte in common."""
    a, b = table[first], table[second]
    simple = (a[:, 4] == 1) & (b[:, 4] == 1)
    # With one stride for both, only the difference of two rows' numbers matters.
    alike = simple & ((a[:, 3] == b[:, 3]) | (a[:, 2] == 1) | (b[:, 2] == 1))
    stride = np.maximum(np.maximum(a[:, 3], b[:, 3]), 1)
    apart = b[:, 1] - a[:, 1]
    # Row i of a and row j of b meet where apart - run_a < (i - j) * stride < apart ... :
    least = -((b[:, 6] + apart - 1) // stride)  # of j - i, rounded up from -(run_b + apart - 1)
    most = (a[:, 6] - apart - 1) // stride
    low, high = -(a[:, 2] - 1), b[:, 2] - 1
    result: Array = np.maximum(least, low) <= np.minimum(most, high)
    for n in np.flatnonzero(~alike):
        result[n] = _share_bytes(a[n], b[n])
    return result


def _share_bytes(a: Array, b: Array) -> bool:
    """The same for tiles of any two strides, run by run."""
    starts_a, starts_b = _runs(a), _runs(b)
    starts_a.sort()
    # The runs of a tile do not overlap, so only the next one below can reach a given byte.
    below = np.searchsorted(starts_a, starts_b, side="right") - 1
    reaches = (below >= 0) & (starts_a[np.maximum(below, 0)] + a[6] > starts_b)
    above = np.minimum(below + 1, starts_a.size - 1)
    reached = (below + 1 < starts_a.size) & (starts_b + b[6] > starts_a[above])
    return bool((reaches | reached).any())


def _runs(region: Array) -> Array:
    _, offset, rows, stride, columns, step, _ = region
    grid = offset + stride * np.arange(rows)[:, None] + step * np.arange(columns)
    result: Array = grid.reshape(-1)
    return result
