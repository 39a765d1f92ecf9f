"""Tensor expressions on the CPU: fused or not, each leaf means what its statements say."""

from __future__ import annotations

import pytest

import septran
from septran import task


@task.define(leaf=True)
def columns(Y, X):
    """Reduce along the rows, and use the result in every row."""
    least = task.empty(X.shape[1:], task.float32, name="least")
    least[:] = task.min(X, axis=0)
    Y[:, :] = X - least[None, :]


@task.define(leaf=True)
def normalised(Y, X):
    """Mean and variance of each row, by nested reductions."""
    mean = task.empty(X.shape[:1], task.float32, name="mean")
    mean[:] = task.sum(X, axis=1) / X.shape[1]
    Y[:, :] = (X - mean[:, None]) * task.rsqrt(
        task.sum((X - mean[:, None]) * (X - mean[:, None]), axis=1)[:, None] / X.shape[1] + 1e-5
    )


@task.define(leaf=True)
def turned(Y, X):
    """Read what is written at another place: the old values count."""
    Y[:, :] = X
    Y[:, :] = Y + task.max(Y, axis=0)[None, :]
    Y[:, :] = task.where(task.index(Y, 1)[None, :] <= task.index(Y, 0)[:, None], Y, -1.0)


@task.define(leaf=True)
def running(Y, X):
    """A temporary that is updated, and read again after another row has been made."""
    a = task.empty(X.shape, task.float32, name="a")
    r = task.empty(X.shape[:1], task.float32, name="r")
    a[:, :] = task.exp(X)
    r[:] = task.sum(a, axis=1)
    a[:, :] = a / r[:, None]
    r[:] = r + task.max(a, axis=1)
    Y[:, :] = a * r[:, None] + task.sigmoid(X)


@task.define(leaf=True)
def mixed(Y, X):
    """Comparisons and choices."""
    low = task.floor(X * 3.0)
    even = task.equal(low - 2.0 * task.floor(low / 2.0), 0.0)
    Y[:, :] = task.where(even, task.minimum(X, -0.25), task.maximum(X, 0.25))


def entry(leaf, rows):
    @task.define
    def rowwise(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        Yp = task.partition(Y, shape=(rows, Y.shape[1]))
        Xp = task.partition(X, shape=(rows, X.shape[1]))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i, 0], Xp[i, 0])

    return rowwise


@pytest.mark.one_in(6)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (33, 40), (70, 129)], ids=str)
@pytest.mark.parametrize(
    "leaf", [columns, normalised, turned, running, mixed], ids=lambda t: t.name
)
def test_leaf_is_right(leaf, shape):
    kernel = septran.compile(entry(leaf, 16), "cpu-x86", shapes=dict(zip("MN", shape, strict=True)))
    result = kernel.check()
    assert result.right, str(result)


@task.define(leaf=True)
def updated(Y, X):
    """Some elements replaced where they lie."""
    Y[:, :] = X
    for number in range(2):
        Y[:, :] = task.where(task.max(Y, axis=1)[:, None] == Y, -number, Y)


def test_what_is_updated_is_stored_whole():
    """LLVM's masked stores are slow on AMD's processors with AVX2."""
    kernel = septran.compile(entry(updated, 16), "cpu-x86", shapes={"M": 16, "N": 64})
    assert kernel.check().right
    assert "llvm.arithmetic.fence" in str(kernel.stages.tensor_ir)
    assert "vmaskmov" not in kernel.stages.source.parts["assembly"]
