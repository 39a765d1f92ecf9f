"""The bytes of tiles, in as few rows as can be, and which tiles share some."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.simulator.hazards.accesses import _normal
from septran.simulator.hazards.overlaps import overlaps

LEVELS = st.tuples(*(st.integers(1, 4), st.integers(0, 24)) * 2, st.integers(1, 6))


def covered(offset, n, s, m, t, run):
    """The bytes of a tile, one by one."""
    grid = np.arange(n)[:, None, None] * s + np.arange(m)[:, None] * t + np.arange(run)
    return frozenset((offset + grid).ravel().tolist())


def region(offset, n, s, m, t, run):
    fields = _normal(*(np.array([x]) for x in (n, s, m, t, run)))
    return np.array([0, offset, *(int(x[0]) for x in fields)])


@given(LEVELS)
def test_a_normal_form_has_the_same_bytes(levels):
    found = region(0, *levels)
    assert covered(*found[1:]) == covered(0, *levels)


@pytest.mark.parametrize("levels", [(40, 1800, 50, 36, 4), (50, 36, 40, 1800, 4)])
def test_rows_that_go_on_in_the_steps_of_their_runs_are_one(levels):
    """One place of all windows: with two levels, each pair of tiles was compared byte by byte."""
    assert list(region(0, *levels)[2:]) == [2000, 36, 1, 0, 4]


def _disjoint(levels):
    """Whether no byte of a tile is in two of its runs, as the simulator demands of regions."""
    n, _, m, _, run = levels
    return len(covered(0, *levels)) == n * m * run


@settings(deadline=None)
@given(LEVELS.filter(_disjoint), LEVELS.filter(_disjoint), st.integers(0, 40))
def test_tiles_overlap_where_they_share_a_byte(a, b, apart):
    table = np.stack([region(0, *a), region(apart, *b)])
    first, _ = overlaps(table, np.ones(2, bool))
    assert bool(first.size) == bool(covered(0, *a) & covered(apart, *b))
