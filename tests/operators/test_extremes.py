"""Places of extremes and reductions over several axes, on every machine."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.task.errors import IndexingError, ShapeError

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200")


@task.define(leaf=True)
def places_of_rows(first, last, X, W):
    """Of a tensor, and of an expression."""
    first[:] = task.argmax(X, axis=1)
    last[:] = task.argmin(X * W, axis=-1)


@task.define
def places(
    first: task.Out["M", task.int64], last: task.Out["M", task.int32],
    X: task.In["M", "N"], W: task.In["M", "N"],
):  # fmt: skip
    """Some rows each."""
    rows = task.tunable("block_rows")
    Xp, Wp = (task.partition(x, shape=(rows, X.shape[1])) for x in (X, W))
    fp, lp = (task.partition(x, shape=(rows,)) for x in (first, last))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(places_of_rows, fp[i], lp[i], Xp[i, 0], Wp[i, 0])


@task.define
def sums(Y: task.Out["B"], low: task.Out["M", "N"], X: task.In["B", "M", "N"]):
    """All at once."""
    for _ in task.parallel_range(1):
        task.launch(sums_of_tile, Y, low, X)


@task.define(leaf=True)
def sums_of_tile(Y, low, X):
    """A sum over two axes, and the greatest of two others under each element."""
    Y[:] = task.sum(X * 2, axis=(1, 2))
    low[:, :] = X[0] - task.min(X, axis=(-1, 0))[:, None]


def compiled(logic, machine, sizes, kinds):
    gpu = machine.startswith("nvidia")
    return septran.compile(logic, machine, shapes=sizes, dtypes=kinds, emulate=gpu)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "dtype", ["float32", "int32", pytest.param("float16", marks=pytest.mark.slow)]
)
def test_places_are_numpys(dtype, machine):
    kernel = compiled(places, machine, {"M": 21, "N": 70}, {"X": dtype, "W": dtype})
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, (21, 70)).astype(dtype) for _ in range(2))
    if dtype != "int32":
        x[3, 30], x[3, 50], x[4, 69] = np.nan, np.nan, np.nan
    first, last = kernel(x, w)
    assert np.array_equal(first, np.argmax(x, 1))
    assert np.array_equal(last, np.argmin(x * w, 1))
    assert kernel.check().right


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.one_in(2, first=1)
def test_several_axes_are_reduced(machine):
    kernel = compiled(sums, machine, {"B": 3, "M": 5, "N": 20}, {"X": "float32"})
    check = kernel.check()
    assert check.right, str(check)
    x = np.random.default_rng(0).integers(-9, 9, (3, 5, 20)).astype("float32")
    found = kernel(x)
    assert np.array_equal(found[0], 2 * x.sum((1, 2)))
    assert np.array_equal(found[1], x[0] - x.min((0, 2))[:, None])


def of_leaf(body, *arrays):
    leaf = task.define(leaf=True)(body)

    @task.define
    def entry(Y: task.Out["M"], X: task.In["M", "N"]):
        task.launch(leaf, Y, X)

    return task.run(entry, *arrays)


X = np.random.default_rng(0).integers(-9, 9, (7, 9)).astype("float32")


def test_places_count_from_the_beginning_of_a_part():
    def body(Y, X):
        Y[:] = task.argmax(X[:, 2:] + 1, axis=1)

    assert np.array_equal(of_leaf(body, X), np.argmax(X[:, 2:], 1))


def test_places_of_a_scan():
    def body(Y, X):
        Y[:] = task.argmin(task.cumsum(X, 1) - X, axis=1)

    assert np.array_equal(of_leaf(body, X), np.argmin(np.cumsum(X, 1) - X, 1))


def test_places_in_nothing_but_a_scan_ask_for_a_temporary():
    def body(Y, X):
        Y[:] = task.argmin(task.cumsum(X, 1), axis=1)

    with pytest.raises(IndexingError) as caught:
        of_leaf(body, X)
    assert "assign it to a temporary" in str(caught.value)


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ((0, -2), "name one twice"),
        ((0, 2), "axis 2 of an expression with 2 axes"),
        (1.0, "axis 1.0 is not an integer"),
    ],
)
def test_axes_that_are_not_there_are_refused(axis, message):
    def body(Y, X):
        Y[:] = task.sum(X, axis=axis)

    with pytest.raises(ShapeError, match=message):
        of_leaf(body, X)
