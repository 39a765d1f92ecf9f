"""Tensors of more than 2^31 elements: offsets of 64 bits, read and written."""

from __future__ import annotations

import os

import numpy as np
import pytest

import septran

ROWS, COLUMNS = 65536 + 3, 1 << 15
FREE = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

pytestmark = [
    pytest.mark.slow, pytest.mark.skipif(FREE < 7 << 30, reason="needs 7 GiB of free memory")
]  # fmt: skip


@pytest.fixture(scope="module")
def large():
    """Zeros with marks before and behind element 2^31."""
    x = np.zeros((ROWS, COLUMNS), "int8")
    assert x.size > 1 << 31
    x[0, 1], x[40000, :5], x[65536, 0], x[-1, 5], x[-1, -1] = 1, 3, 4, -2, 7
    return x


def test_reads_behind_two_to_the_31(large):
    found = septran.compile("reduce", "cpu-x86", static={"function": "sum"})(large)
    wanted = np.zeros(ROWS, "int8")
    wanted[[0, 40000, 65536, -1]] = 1, 15, 4, 5
    np.testing.assert_array_equal(found, wanted)


def test_writes_behind_two_to_the_31(large):
    found = septran.compile("elementwise", "cpu-x86", static={"function": "relu"})(large)
    assert found.shape == large.shape
    assert found.sum(dtype="int64") == 1 + 15 + 4 + 7
    assert (found[0, 1], found[40000, 4], found[65536, 0]) == (1, 3, 4)
    assert (found[-1, 5], found[-1, -1]) == (0, 7)
