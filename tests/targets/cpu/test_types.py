"""Integers, truth values and positions on the CPU are exactly what the reference says."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@task.define(leaf=True)
def extremes(Y, X):
    """The least and the greatest of each row and column."""
    rows = task.empty(X.shape[:1], X.dtype, name="rows")
    columns = task.empty(X.shape[1:], X.dtype, name="columns")
    rows[:] = task.max(X, axis=1)
    columns[:] = task.min(X, axis=0)
    Y[:, :] = task.where(rows[:, None] == X, columns[None, :], X)


@task.define(leaf=True)
def arithmetic(Y, X):
    """Sums, products and quotients, also of negative numbers."""
    Y[:, :] = (X + 3) * X - X // 3 + X % 5


@task.define(leaf=True)
def logic(Y, X):
    """Truth values joined in every way."""
    small, even = X < 9, X % 2 == 0
    both, one = small & even, small ^ even
    Y[:, :] = task.where(both | ~one, X, task.where(one & ~even, X + 1, X - X))


@task.define(leaf=True)
def places(Y, X):
    """Choices by position, on both sides of zero."""
    i, j = task.index(Y, 0), task.index(Y, 1)
    Y[:, :] = task.where((i[:, None] - j[None, :]) % 3 == 0, X, X - X)


def entry(leaf):
    @task.define
    def typed(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        Yp = task.partition(Y, shape=(16, Y.shape[1]))
        Xp = task.partition(X, shape=(16, X.shape[1]))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i, 0], Xp[i, 0])

    return typed


@pytest.mark.one_in(9, first=3)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("leaf", [extremes, arithmetic, logic, places], ids=lambda t: t.name)
def test_integers_are_exact(leaf, dtype):
    kernel = septran.compile(entry(leaf), "cpu-x86")
    rng = np.random.default_rng(0)
    low = 0 if dtype[0] == "u" else -30
    for shape in ((1, 1), (19, 37)):
        x = rng.integers(low, 30, shape).astype(dtype)
        found, wanted = kernel(x), kernel.reference(x, dtype=None)
        assert found.dtype == wanted.dtype == dtype
        np.testing.assert_array_equal(found, wanted)
