"""Integers wrap, as two's complement and NumPy's do: no executor takes overflow for impossible."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@task.define(leaf=True)
def overflow_tile(Y, X, Z):
    """For each type, as bits of a number, what holds of no two mathematical integers."""
    for row, dtype in enumerate(INTEGERS):
        x, z = X.astype(dtype), Z.astype(dtype)
        Y[row, :] = task.where(x + 1 < x, 1, 0)
        Y[row, :] = Y[row, :] + task.where(task.maximum(x, z) - task.minimum(x, z) < 0, 2, 0)
        Y[row, :] = Y[row, :] + task.where((x * 2) // 2 == x, 0, 4)
        Y[row, :] = Y[row, :] + task.where(task.abs(x) < 0, 8, 0)
        Y[row, :] = Y[row, :] + task.where(x + z < x, 16, 0)
        Y[row, :] = Y[row, :] + task.where((-x == x) & (x != 0), 32, 0)


@task.define
def overflow(
    Y: task.Tensor[8, "N", task.int32],
    X: task.Tensor["N", task.int64],
    Z: task.Tensor["N", task.int64],
):
    """Each element is a case of its own."""
    Yp = task.partition(Y, shape=(8, 128))
    Xp, Zp = (task.partition(t, shape=(128,)) for t in (X, Z))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(overflow_tile, Yp[0, i], Xp[i], Zp[i])


def corners():
    """Pairs of the integers at and beside the ends and the middle of each type."""
    found = {0, 1, 2}
    for dtype in INTEGERS:
        limit = np.iinfo(dtype)
        for end in (limit.min, limit.max, limit.max // 2, limit.max // 2 + 1):
            found |= {end - 1, end, end + 1}
    numbers = np.array(sorted({n % 2**64 for n in found}), "u8").view("i8")
    x, z = np.meshgrid(numbers, numbers)
    return x.ravel(), z.ravel()


def wanted(x, z):
    """NumPy's, for arrays of one type."""
    bits = [
        x + 1 < x, np.maximum(x, z) - np.minimum(x, z) < 0, x * 2 // 2 != x,
        abs(x) < 0, x + z < x, (-x == x) & (x != 0),
    ]  # fmt: skip
    return sum(bit.astype("i4") << n for n, bit in enumerate(bits))


@pytest.mark.one_in(4, first=1)
def test_integers_wrap(run):
    x, z = corners()
    rows = np.stack([wanted(x.astype(dtype), z.astype(dtype)) for dtype in INTEGERS])
    assert all(rows.max(axis=1) >= 16)
    np.testing.assert_array_equal(run(overflow, x, z), rows)
