"""Tensor expressions on the vector unit: each leaf means what its statements say."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.machine.loader import mappings_root
from septran.targets.dsa.context import UnsupportedByDsaError


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
def read_elsewhere(Y, X):
    """Read what is written at another place: the old values count."""
    Y[:, :] = X
    Y[:, :] = Y + task.max(Y, axis=0)[None, :]
    Y[:, :] = task.where(task.index(Y, 1)[None, :] <= task.index(Y, 0)[:, None], Y, -1.0)


@task.define(leaf=True)
def mixed(Y, X):
    """Comparisons, choices, and numbers on either side."""
    low = task.floor(3.0 * X)
    even = task.equal(low - 2.0 * task.floor(low / 2.0), 0.0)
    Y[:, :] = task.where(even, task.minimum(X, -0.25), 1.0 / (task.maximum(X, 0.25) + 0.5))


@task.define(leaf=True)
def gelu(Y, X):
    """Many temporaries, so that strips are narrow."""
    Y[:, :] = task.gelu(X) * task.silu(X) + task.tanh(X) * task.exp(-task.abs(X))


def rowwise(leaf, rows=16):
    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        Yp = task.partition(Y, shape=(rows, Y.shape[1]))
        Xp = task.partition(X, shape=(rows, X.shape[1]))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i, 0], Xp[i, 0])

    return entry


@pytest.mark.one_in(9)
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.parametrize("shape", [(1, 1), (33, 40), (20, 700)], ids=str)
@pytest.mark.parametrize(
    "leaf", [columns, normalised, read_elsewhere, mixed, gelu], ids=lambda t: t.name
)
def test_a_leaf_is_right(leaf, shape, machine):
    sizes = dict(zip("MN", shape, strict=True))
    result = septran.compile(rowwise(leaf), machine, shapes=sizes).check()
    assert result.right, str(result)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_elements_of_other_types_are_computed_in_theirs(dtype):
    kernel = septran.compile(rowwise(gelu), "dsa-sim", shapes={"M": 20, "N": 70}, dtypes=dtype)
    result = kernel.check()
    assert result.right, str(result)


@task.define(leaf=True)
def cube_leaf(Y, X):
    """Reduce the middle and the first axis of three."""
    Y[:, :] = task.max(X, axis=1) + task.sum(X, axis=1)


@task.define
def cube(Y: task.Tensor["A", "C"], X: task.Tensor["A", "B", "C"]):
    Yp = task.partition(Y, shape=(4, Y.shape[1]))
    Xp = task.partition(X, shape=(4, X.shape[1], X.shape[2]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(cube_leaf, Yp[i, 0], Xp[i, 0, 0])


@task.define(leaf=True)
def shifted_leaf(Y, X):
    """Three axes, one broadcast."""
    Y[:, :, :] = X * 2.0 - task.max(X, axis=0)[None, :, :]


@task.define
def shifted(Y: task.Tensor["A", "B", "C"], X: task.Tensor["A", "B", "C"]):
    Yp = task.partition(Y, shape=(Y.shape[0], 4, Y.shape[2]))
    Xp = task.partition(X, shape=(X.shape[0], 4, X.shape[2]))
    for i in task.parallel_range(Yp.shape[1]):
        task.launch(shifted_leaf, Yp[0, i, 0], Xp[0, i, 0])


@pytest.mark.parametrize("logic", [cube, shifted], ids=lambda t: t.name)
def test_three_axes_are_loops_over_two(logic):
    result = septran.compile(logic, "dsa-sim", shapes={"X": (5, 9, 13)}).check()
    assert result.right, str(result)


@task.define(leaf=True)
def scaled_leaf(Y, X, *, scale: float):
    Y[:, :] = task.exp(X * scale) + scale


@task.define
def scaled(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, scale: float = 0.5):
    Yp = task.partition(Y, shape=(4, Y.shape[1]))
    Xp = task.partition(X, shape=(4, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(scaled_leaf, Yp[i, 0], Xp[i, 0], scale=scale)


def test_scalars_are_given_at_run_time():
    kernel = septran.compile(scaled, "dsa-sim", shapes={"M": 6, "N": 5})
    x = np.linspace(-1, 1, 30, dtype=np.float32).reshape(6, 5)
    for scale in (0.5, -2.0):
        wanted = np.exp(x.astype(float) * scale) + scale
        np.testing.assert_allclose(kernel(x, scale=scale), wanted, rtol=1e-6, atol=1e-6)


@task.define(leaf=True)
def counted_leaf(Y, X):
    """Integers are exact."""
    Y[:, :] = (X * 3 + task.sum(X, axis=1)[:, None]) // 2 - task.index(X, 1)[None, :]


@task.define
def counted(Y: task.Tensor["M", "N", task.int32], X: task.Tensor["M", "N", task.int32]):
    Yp = task.partition(Y, shape=(4, Y.shape[1]))
    Xp = task.partition(X, shape=(4, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(counted_leaf, Yp[i, 0], Xp[i, 0])


def test_integers_are_exact():
    x = np.arange(-17, 18, dtype=np.int32).reshape(5, 7)
    got = septran.compile(counted, "dsa-sim", shapes={"M": 5, "N": 7}, dtypes="int32")(x)
    wanted = (x * 3 + x.sum(1, keepdims=True)) // 2 - np.arange(7)
    np.testing.assert_array_equal(got, wanted)


def test_temporaries_without_a_memory_are_refused(tmp_path):
    file = tmp_path / "bare.yaml"
    text = (mappings_root() / "machines" / "dsa-sim.yaml").read_text()
    file.write_text(text.replace(", temporaries: VREG", ""))
    sizes = {"M": 4, "N": 4}
    with pytest.raises(UnsupportedByDsaError, match="memory for temporaries") as caught:
        septran.compile(rowwise(gelu), "dsa-sim", machine=str(file), shapes=sizes)
    assert "temporaries: MEMORY" in str(caught.value)
    assert caught.value.where is not None
