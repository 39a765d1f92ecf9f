"""Positions and loop indices as numbers: 64-bit integers, which wrap as others do."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task

LARGEST = 2**63 - 1


@task.define(leaf=True)
def tile(Y, X):
    """Numbers made of positions, at the ends of their type and beyond."""
    i, start = task.index(X, 0), task.start(X, 0)
    Y[0, :] = i * 2**62
    Y[1, :] = task.where(i + LARGEST > LARGEST - 1, 1, 0)
    Y[2, :] = task.where(i + LARGEST < i, 1, 0)
    Y[3, :] = i + LARGEST
    Y[4, :] = (i - LARGEST - 2) // 2
    Y[5, :] = (i * 3_000_000_000).astype("int32") + X
    Y[6, :] = X * 0 + start // 64 * 3_000_000_000
    Y[7, :] = task.where((i.astype("int8") + 100).astype("int64") < i, 1, 0)
    Y[8, :] = (X * 0 + start).astype("int64") << 58
    Y[9, :] = task.where(i - i - 1 < 0, i, -i) * -LARGEST
    Y[10, :] = (X.astype("int32") * -3 + -5).astype("int8") * -7


@task.define
def numbers(Y: task.Tensor[11, "N", task.int64], X: task.Tensor["N", task.int64]):
    """Each tile knows where it starts."""
    Yp, Xp = task.partition(Y, shape=(11, 64)), task.partition(X, shape=(64,))
    for n in task.parallel_range(Xp.shape[0]):
        task.launch(tile, Yp[0, n], Xp[n])


def wanted(x):
    """NumPy's."""
    i = np.arange(len(x), dtype=np.int64)
    start, base = i // 64 * 64, i // 64
    with np.errstate(all="ignore"):
        return np.stack([
            i * 2**62, i + LARGEST > LARGEST - 1, i + LARGEST < i, i + LARGEST,
            (i - LARGEST - 2) // 2, (i * 3_000_000_000).astype("i4") + x, base * 3_000_000_000,
            (i.astype("i1") + np.int8(100)).astype("i8") < i, start << 58, i * -LARGEST,
            (x.astype("i4") * -3 - 5).astype("i1") * np.int8(-7),
        ])  # fmt: skip


def test_positions_wrap_as_other_integers(run):
    x = np.arange(300, dtype=np.int64) - 150
    np.testing.assert_array_equal(run(numbers, x), wanted(x))


@task.define(leaf=True)
def far_tile(Y, X):
    """Products beyond 32 bits of an index and factors that are not."""
    start = task.start(X, 0)
    Y[0, :] = X + start * 100_000_000
    Y[1, :] = X + (start + 5) * 1_000_000
    Y[2, :] = X + start * 500_000_000 // 7
    Y[3, :] = X + start * 500_000_000 % 1_000_003


@task.define
def far(Y: task.Tensor[4, "N", task.int64], X: task.Tensor["N", task.int64]):
    """Each tile knows where it starts."""
    Yp, Xp = task.partition(Y, shape=(4, 64)), task.partition(X, shape=(64,))
    for n in task.parallel_range(Xp.shape[0]):
        task.launch(far_tile, Yp[0, n], Xp[n])


def test_an_index_times_a_factor_may_pass_32_bits(run):
    x = np.arange(3000, dtype=np.int64)
    start = x // 64 * 64
    great = start * 500_000_000
    wanted = [start * 100_000_000, (start + 5) * 1_000_000, great // 7, great % 1_000_003]
    np.testing.assert_array_equal(run(far, x), np.stack([x + row for row in wanted]))


@task.define(leaf=True)
def difference_tile(Y, X):
    """Positions less something, and something less positions: what TVM bounds itself."""
    place, start = task.index(X, 0) * 3, task.start(X, 0)
    Y[0, :] = X + (place - 7)
    Y[1, :] = X + (5 - place)
    Y[2, :] = X + (-place)
    Y[3, :] = X + (place - start * 30_000)


@task.define
def differences(Y: task.Tensor[4, "N", task.int64], X: task.Tensor["N", task.int64]):
    """Tiles."""
    Yp, Xp = task.partition(Y, shape=(4, 64)), task.partition(X, shape=(64,))
    for n in task.parallel_range(Xp.shape[0]):
        task.launch(difference_tile, Yp[0, n], Xp[n])


def test_differences_of_positions(run):
    x = np.arange(300, dtype=np.int64)
    place, start = x * 3, x // 64 * 64
    wanted = [place - 7, 5 - place, -place, place - start * 30_000]
    np.testing.assert_array_equal(run(differences, x), np.stack([x + row for row in wanted]))


@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
def test_differences_of_positions_are_lowered_for_gpus(machine):
    """Unsigned arithmetic wraps; TVM's own bounds of it would stop the lowering."""
    stages = septran.produce_stages(differences, machine, shapes={"N": 300}, dtypes="int64")
    assert "uint64_t(" in stages.tensor_ir.cuda.source
