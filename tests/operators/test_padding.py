"""Windows that are padded on one side, and by something else than zeros, on every machine."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.task.errors import LaunchArgumentsError

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200")


@task.define(leaf=True)
def filtered(Y, X, F):
    """Each channel by its own filter."""
    Y[:, :] = task.sum(X * F[:, None, :], axis=2)


@task.define
def causal(
    Y: task.Out["C", "N"], X: task.In["C", "N"], F: task.In["C", "R"], *, late: bool = False
):
    """What lies before each place, or behind it."""
    taps = F.shape[1] - 1
    windows = task.window(X, F.shape[1:], padding=((0, taps) if late else (taps, 0),))
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp = task.partition(Y, shape=tile)
    Xp = task.partition(windows, shape=(*tile, F.shape[1]))
    Fp = task.partition(F, shape=(tile[0], F.shape[1]))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(filtered, Yp[i, j], Xp[i, j, 0], Fp[i, 0])


@task.define(leaf=True)
def greatest(Y, X):
    """Of each window, what there is of it."""
    Y[:, :, :] = task.max(task.where(task.inside(X), X, -task.inf), axis=(3, 4))


@task.define
def max_pool(
    Y: task.Out["C", "P", "Q"], X: task.In["C", "H", "W"], *, before: int = 1, behind: int = 1
):
    """Windows of 3 x 3 with a stride of 2."""
    windows = task.window(X, (3, 3), stride=2, padding=((before, behind), before))
    tile = (1, task.tunable("block_M", 4), task.tunable("block_N", 8))
    Yp = task.partition(Y, shape=tile)
    Xp = task.partition(windows, shape=(*tile, 3, 3))
    for c, i, j in task.parallel_range(Yp.shape):
        task.launch(greatest, Yp[c, i, j], Xp[c, i, j, 0, 0])


def compiled(logic, machine, sizes, dtype="float32", **static):
    gpu = machine.startswith("nvidia")
    return septran.compile(logic, machine, shapes=sizes, dtypes=dtype, static=static, emulate=gpu)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("late", [False, True])
def test_padding_on_one_side(late, machine):
    kernel = compiled(causal, machine, {"C": 21, "N": 75, "R": 4}, late=late)
    check = kernel.check()
    assert check.right, str(check)
    rng = np.random.default_rng(0)
    x, f = (rng.integers(-3, 4, s).astype("float32") for s in ((21, 75), (21, 4)))
    padded = np.pad(x, ((0, 0), (0, 3) if late else (3, 0)))
    wanted = sum(padded[:, n : n + 75] * f[:, n, None] for n in range(4))
    np.testing.assert_array_equal(kernel(x, f), wanted)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("before", "behind"), [(1, 1), pytest.param(0, 1, marks=pytest.mark.slow)])
def test_padding_by_something_else(before, behind, machine):
    high = (13 + before + behind - 3) // 2 + 1
    wide = (20 + 2 * before - 3) // 2 + 1
    sizes = {"C": 3, "H": 13, "W": 20, "P": high, "Q": wide}
    kernel = compiled(max_pool, machine, sizes, before=before, behind=behind)
    x = -1 - np.random.default_rng(0).random((3, 13, 20)).astype("float32")
    around = torch.nn.functional.pad(
        torch.from_numpy(x), (before, before, before, behind), value=-np.inf
    )
    wanted = torch.nn.functional.max_pool2d(around, 3, 2)
    np.testing.assert_array_equal(kernel(x), wanted.numpy())


@pytest.mark.parametrize("padding", [((1, 2, 3), 0), ((-1, 0), 0), (0, (0, -1))])
def test_padding_that_is_none_is_refused(padding):
    @task.define
    def entry(Y: task.InOut["H", "W"], X: task.In["H", "W"]):
        task.window(X, (3, 3), padding=padding)

    with pytest.raises(LaunchArgumentsError, match="the padding of a window is"):
        task.trace(entry, {"Y": (8, 8), "X": (8, 8)})
