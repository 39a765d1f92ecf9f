"""Outputs whose sizes follow from flags or fixed windows: no made-up size refuses them."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.task.errors import ShapeError

FLAG = """
    @task.define(leaf=True)
    def first(Y, W, Z, *, k: task.static):
        Y[:, :] = W + Z[:, :k]

    @task.define
    def flagged(
        Y: task.Tensor["R", "k"], W: task.Tensor["R", "k"], Z: task.Tensor["R", "S"], *,
        k: task.static = 2,
    ):
        Yp, Wp, Zp = (task.partition(t, shape=(16, t.shape[1])) for t in (Y, W, Z))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(first, Yp[i, 0], Wp[i, 0], Zp[i, 0], k=k)
"""
TAPS = """
    @task.define(leaf=True)
    def smooth(Y, X, W):
        Y[:] = task.sum(task.window(X, (3,), (1,), (0,), (1,)) * W[None, :], axis=1)

    @task.define
    def taps(Y: task.Tensor["S - 2"], X: task.Tensor["S"], W: task.Tensor["R"]):
        for i in task.parallel_range(1):
            task.launch(smooth, Y, X, W)
"""


@pytest.mark.parametrize("k", [2, 5])
def test_an_extent_is_a_flag(k, logic):
    kernel = septran.compile(logic("flagged", FLAG), "cpu-x86", static={"k": k})
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype(np.float32) for s in ((20, k), (20, 9))]
    assert kernel.check(*given).right
    assert kernel(*given).shape == (20, k)


def test_a_window_has_a_fixed_extent(logic):
    path = logic("taps", TAPS)
    given = [np.arange(20, dtype=np.float32), np.ones(3, np.float32)]
    assert septran.compile(path, "cpu-x86").check(*given).right
    assert task.run(task.load_entry(path), *given).shape == (18,)


def test_sizes_in_a_message_are_the_callers(logic):
    entry = task.load_entry(logic("taps", TAPS))
    with pytest.raises(ShapeError, match=r"\(18, 3\) and \(1, 4\) do not broadcast"):
        task.run(entry, np.ones(20, np.float32), np.ones(4, np.float32))


def test_made_up_sizes_are_not_told(logic):
    text = TAPS.replace("* W[None, :], axis=1)", "* W[None, :], axis=0)")
    with pytest.raises(ShapeError, match="shapes do not fit here, whatever sizes") as caught:
        septran.compile(logic("taps", text), "cpu-x86")
    assert caught.value.where.line == 6
    assert not any(made_up in caught.value.message for made_up in ("64", "62", "(3"))


def test_many_taps_are_right_once_there_are_sizes(logic):
    text = TAPS.replace("(3,), (1,)", "(30,), (1,)").replace("S - 2", "S - 29")
    entry = task.load_entry(logic("taps", text))
    assert task.run(entry, np.ones(40, np.float32), np.ones(30, np.float32)).shape == (11,)
