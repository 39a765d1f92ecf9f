"""A statement's value is read before its target is written, and is broadcast into it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import septran
from septran import task
from septran.targets.cuda.run.emulated import MODES, emulation

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")


@task.define(leaf=True)
def leaf(X, Z, *, way: str):
    """One block."""
    if way == "shifted":
        X[:, 1:] = X[:, :-1] + Z[:, 1:]
    elif way == "in registers":
        T = task.empty(X.shape, task.float32, name="T")
        T[:, :] = X + Z
        T[:, 1:] = T[:, :-1]
        X[:, :] = T
    elif way == "first row":
        X[:, :] = X[0:1, :] + Z
    else:
        X[:, :] = Z[0:1, :]


@task.define(leaf=True)
def first_rows(Y, X):
    """All rows but the last change: threads have room for 32 of 20."""
    T = task.empty(X.shape, task.float32, name="T")
    T[:, :] = X
    T[:20, :] = T[:20, :] + T[1:, :]
    Y[:, :] = T


@task.define
def in_columns(Y: task.Out["M", "N"], X: task.In["M", "N"]):
    """Some columns each."""
    Yp, Xp = (task.partition(t, shape=(t.shape[0], 8)) for t in (Y, X))
    for i in task.parallel_range(Yp.shape[1]):
        task.launch(first_rows, Yp[0, i], Xp[0, i])


def test_what_follows_the_elements_that_are_written_in_registers_stays():
    x = np.arange(21 * 40, dtype="float32").reshape(21, 40)
    wanted = x.copy()
    wanted[:20] += x[1:]
    kernel = septran.compile(in_columns, "nvidia-a100", shapes={"M": 21, "N": 40}, emulate=True)
    np.testing.assert_array_equal(kernel(x), wanted)


@task.define
def logic(X: task.InOut["M", "N"], Z: task.Tensor["M", "N"], *, way: str):
    """X from itself and Z."""
    task.launch(leaf, X, Z, way=way)


@pytest.mark.parametrize("way", ["shifted", "in registers", "first row", "broadcast"])
@pytest.mark.one_in(3)
def test_the_target_may_be_read_elsewhere(way):
    x = np.arange(40 * 200, dtype="float32").reshape(40, 200)
    z = -3 * x
    wanted = x.copy()
    if way == "shifted":
        wanted[:, 1:] = x[:, :-1] + z[:, 1:]
    elif way == "in registers":
        wanted = x + z
        wanted[:, 1:] = wanted[:, :-1].copy()
    elif way == "first row":
        wanted[:] = x[0:1] + z
    else:
        wanted[:] = z[0:1]
    kernel = septran.compile(logic, "nvidia-h200", static={"way": way}, emulate=True)
    for mode in MODES:
        found = x.copy()
        with emulation(mode):
            kernel(z, out=found)
        np.testing.assert_array_equal(found, wanted)


@task.define(leaf=True)
def copy_tile(Y, X):
    """One element."""
    Y[:, :, :] = X


@task.define
def tetrahedron(Y: task.Tensor["A", "A", "A"], X: task.Tensor["A", "A", "A"]):
    """The elements with k <= j <= i: two of three loops have an extent of their own each time."""
    task.fill(Y, 0)
    Yp, Xp = (task.partition(t, shape=(1, 1, 1)) for t in (Y, X))
    for i in task.parallel_range(Y.shape[0]):
        for j in task.parallel_range(i + 1):
            for k in task.parallel_range(j + 1):
                task.launch(copy_tile, Yp[i, j, k], Xp[i, j, k])


def test_every_loop_whose_extent_depends_on_others_is_guarded():
    kernel = septran.compile(tetrahedron, "nvidia-a100", shapes={"A": 4}, emulate=True)
    kernel.check().raise_if_wrong()


@task.define(leaf=True)
def chosen_factor(Y, X, Z):
    """What is chosen of two is multiplied and divided."""
    Y[:, :] = task.where(X > 0, X, 0.25 * X) * Z + task.where(X > 0, X, Z) / task.exp(Z)


@task.define
def chosen_factors(Y: task.Out["M", "N"], X: task.In["M", "N"], Z: task.In["M", "N"]):
    """Some rows each."""
    tiles = [task.partition(t, shape=(8, t.shape[1])) for t in (Y, X, Z)]
    for i in task.parallel_range(tiles[0].shape[0]):
        task.launch(chosen_factor, *(t[i, 0] for t in tiles))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_a_factor_may_be_chosen_of_two(dtype):
    sizes = {"M": 21, "N": 40}
    kernel = septran.compile(
        chosen_factors, "nvidia-a100", shapes=sizes, dtypes=dtype, emulate=True
    )
    assert kernel.check().right
    stages = septran.produce_stages(chosen_factors, "opencl-generic", shapes=sizes, dtypes=dtype)
    assert "__kernel" in stages.tensor_ir.cuda.source
