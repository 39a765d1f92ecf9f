"""Slices that end at a loop's index, and indices that are digits of one axis."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task
from septran.task.errors import IndexingError, RaceError


@task.define(leaf=True)
def add_rows(Y, X):
    """Y = the sum of X's rows."""
    Y[:] = task.sum(X, axis=0)


@task.define
def beginnings(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, behind: task.static = 0):
    """Y[i] = the sum of X's first i + 1 - behind rows."""
    for i in task.parallel_range(Y.shape[0]):
        task.launch(add_rows, Y[i], X[: i + 1 - behind])


def test_a_slice_may_end_at_a_loop_index():
    x = np.arange(15, dtype="f4").reshape(5, 3)
    np.testing.assert_array_equal(task.run(beginnings, x), np.cumsum(x, axis=0))


def test_a_slice_must_not_end_before_its_start():
    with pytest.raises(IndexingError, match="before it starts"):
        task.run(beginnings, np.zeros((5, 3), "f4"), behind=2)


@task.define
def digits(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, step: task.static = 4):
    """Y = X, a row by two indices."""
    for g, h in task.parallel_range(16, 4):
        task.copy(Y[g * step + h], X[g * step + h])


def test_two_indices_may_be_the_digits_of_one():
    x = np.zeros((64, 40000), "f4")
    assert task.run(digits, x).shape == x.shape
    with pytest.raises(RaceError):
        task.run(digits, x, step=3)
