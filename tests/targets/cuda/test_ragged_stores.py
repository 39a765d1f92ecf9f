"""A tile that ends before its tensor does is stored without what follows it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import septran
from septran import task
from septran.emulator import emulation


@task.define(leaf=True)
def plus(T, X, *, n: task.static):
    """T = X + n."""
    T[:, :] = X + n


@task.define
def through_a_tile(Y, X, *, n: task.static):
    """By way of a tile of its own."""
    S = task.empty(Y.shape, Y.dtype, name="S")
    task.launch(plus, S, X, n=n)
    task.copy(Y, S)


@task.define
def in_two_parts(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """The right part first, and then the left one in tiles that do not divide it."""
    for i in task.parallel_range(Y.shape[0] // 16):
        rows = slice(16 * i, 16 * i + 16)
        task.launch(through_a_tile, Y[rows, 100:], X[rows, 100:], n=1.0)
    Yp, Xp = (task.partition(t[:, :100], shape=(16, 24)) for t in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        for j in task.parallel_range(Yp.shape[1]):
            task.launch(through_a_tile, Yp[i, j], Xp[i, j], n=2.0)


@pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
def test_the_last_tile_of_a_part_leaves_the_next_part_as_it_is():
    """Random program 4001240: TMA stores whole boxes, which only the tensor's end cuts off."""
    text = (
        "machine: nvidia-h200\nextends: nvidia-h200.mapping.yaml\nrules:\n"
        "  - {match: {task: through_a_tile}, mems: {Y: SHARED, S: SHARED}}\n"
    )
    kernel = septran.compile(
        in_two_parts, text, shapes={"M": 32, "N": 120}, dtypes="float32", emulate=True
    )
    x = np.random.default_rng(1).random((32, 120), dtype=np.float32)
    wanted = x + np.where(np.arange(120) < 100, 2, 1).astype(np.float32)
    for mode in ("eager", "late", "random"):
        with emulation(mode=mode, seed=3):
            np.testing.assert_array_equal(np.asarray(kernel(x)), wanted)
    (why,) = {r.message for r in kernel.remarks if "copied by load_store" in r.message}
    assert why.endswith("ends before Y does, and what follows is to stay")
    # The first part's tiles are whole, and TMA stores them still.
    assert "by tma on Y_out" in str(kernel.stages.tile_program)
