"""Parts of parallel iterations, joined in a fixed order on every machine."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.task.errors import RaceError, ShapeError, UnknownPrimitiveError
from septran.task.tree import Launch, statements

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200")
JOINS = {"sum": np.sum, "max": np.max, "min": np.min}


@task.define(leaf=True)
def product(part, A, B):
    """One part of the sum over K."""
    task.fill(part, 0)
    task.call_primitive("gemm", part, A, B)


@task.define
def split(
    C: task.Out["M", "N"], A: task.In["M", "K"], B: task.In["K", "N"], *, function: str = "sum"
):
    """All tiles and all parts of K at once."""
    task.fill(C, 0)
    tile = (task.tunable("block_M", 32), task.tunable("block_N", 32))
    Cp = task.partition(C, shape=tile)
    Ap, Bp = task.partition(A, shape=(tile[0], 32)), task.partition(B, shape=(32, tile[1]))
    for i, j, p in task.parallel_range(*Cp.shape, Ap.shape[1]):
        part = task.empty(Cp[i, j].shape, task.float32, name="part")
        task.launch(product, part, Ap[i, p], Bp[p, j])
        task.reduce_into(Cp[i, j], part, function)


@task.define(leaf=True)
def row(part, X, *, function: str):
    """One row for some."""
    part[:] = {"sum": task.sum, "max": task.max, "min": task.min}[function](X, axis=0)


@task.define
def columns(Y: task.InOut["N"], X: task.In["M", "N"], *, function: str = "sum"):
    """What the caller's Y holds, and every row; parts of rows in an order, parts of N in none."""
    Xp = task.partition(X, shape=(2, 24))
    for i in task.parallel_range(3):
        for k in task.sequential_range(task.cdiv(Xp.shape[0], 3)):
            for j in task.parallel_range(Xp.shape[1]):
                rows = X[6 * k + 2 * i : 6 * k + 2 * i + 2]
                tile = task.partition(rows, shape=(2, 24))[0, j]
                part = task.empty(tile.shape[1:], task.float32, name="part")
                task.launch(row, part, tile, function=function)
                task.reduce_into(task.partition(Y, shape=(24,))[j], part, function)


def compiled(logic, machine, sizes, dtype="float32", **static):
    gpu = machine.startswith("nvidia")
    return septran.compile(logic, machine, shapes=sizes, dtypes=dtype, static=static, emulate=gpu)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        ("sum", "float32"),
        pytest.param("sum", "float16", marks=pytest.mark.slow),
        pytest.param("max", "float32", marks=pytest.mark.slow),
        pytest.param("min", "float16", marks=pytest.mark.slow),
    ],
)
def test_parts_of_a_product_are_joined(function, dtype, machine):
    sizes = {"M": 40, "N": 70, "K": 100}
    check = compiled(split, machine, sizes, dtype, function=function).check()
    assert check.right, str(check)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("function", JOINS)
def test_loops_in_loops_join_parts_to_what_is_there(function, machine):
    kernel = compiled(columns, machine, {"M": 11, "N": 70}, function=function)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, s).astype("float32") for s in ((11, 70), (70,)))
    wanted = JOINS[function](np.concatenate([y[None], x]), axis=0)
    kernel(x, out=y)
    np.testing.assert_array_equal(y, wanted)


def test_a_result_is_the_same_in_every_run():
    kernel = compiled(split, "cpu-x86", {"M": 33, "N": 65, "K": 999})
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((33, 999), (999, 65)))
    first = kernel(a, b)
    assert all(np.array_equal(kernel(a, b), first) for _ in range(5))


def test_the_order_is_that_of_the_iterations():
    """1 is lost beside 1e8 unless the two great numbers meet first."""

    @task.define(leaf=True)
    def copied(part, X):
        part[:] = X

    @task.define
    def ordered(Y: task.Out["N"], X: task.In["M", "N"]):
        task.fill(Y, 0)
        for i in task.parallel_range(X.shape[0]):
            part = task.empty(Y.shape, task.float32, name="part")
            task.launch(copied, part, X[i])
            task.reduce_into(Y, part)

    for column in ([1e8, 1, -1e8], [1e8, -1e8, 1]):
        x = np.array(column, "float32")[:, None]
        wanted = np.float32(0)
        for value in x[:, 0]:
            wanted += value
        assert task.run(ordered, x)[0] == wanted
        assert compiled(ordered, "cpu-x86", {"M": 3, "N": 1})(x)[0] == wanted


def test_where_all_loops_choose_the_elements_no_place_is_needed():
    @task.define
    def apart(Y: task.InOut["M", "N"], X: task.In["M", "N"]):
        Yp, Xp = (task.partition(t, shape=(8, 8)) for t in (Y, X))
        for i, j in task.parallel_range(Yp.shape):
            task.reduce_into(Yp[i, j], Xp[i, j])

    tree = task.trace(apart, {"Y": (20, 20), "X": (20, 20)})
    assert sum(isinstance(s, Launch) for s in statements(tree.root.body)) == 1
    x = np.ones((20, 20), "float32")
    assert np.all(task.run(apart, 2 * x, x) == 3)


def trace(logic):
    return task.trace(logic, {"Y": (8,), "X": (4, 8)})


def test_a_plain_write_is_refused_with_what_to_write():
    @task.define
    def racing(Y: task.Tensor["N"], X: task.Tensor["M", "N"]):
        for i in task.parallel_range(X.shape[0]):
            task.launch(row, Y, X[i : i + 1], function="sum")

    with pytest.raises(RaceError) as caught:
        trace(racing)
    assert "task.reduce_into(C, part)" in str(caught.value)


def test_a_reduction_below_the_parallel_loop_is_refused():
    @task.define
    def below(Y, X):
        part = task.empty(Y.shape, task.float32, name="part")
        task.launch(row, part, X, function="sum")
        task.reduce_into(Y, part)

    @task.define
    def entry(Y: task.InOut["N"], X: task.In["M", "N"]):
        for i in task.parallel_range(X.shape[0]):
            task.launch(below, Y, X[i : i + 1])

    with pytest.raises(RaceError) as caught:
        trace(entry)
    assert "in the task whose loop is parallel" in str(caught.value)


def test_a_number_of_parts_that_is_not_known_is_refused():
    @task.define
    def triangle(Y: task.InOut["N"], X: task.In["M", "N"]):
        for i in task.parallel_range(X.shape[0]):
            for _ in task.parallel_range(i + 1):
                task.reduce_into(Y, X[i])

    with pytest.raises(ShapeError, match="the number of parts of Y depends on the iteration"):
        trace(triangle)


def test_parts_of_another_shape_are_refused():
    @task.define
    def shorter(Y: task.InOut["N"], X: task.In["M", "N"]):
        task.reduce_into(Y, X[0, :4])

    with pytest.raises(ShapeError, match="reduce_into: Y is"):
        trace(shorter)


def test_a_function_that_joins_nothing_is_refused():
    @task.define
    def averaged(Y: task.InOut["N"], X: task.In["M", "N"]):
        task.reduce_into(Y, X[0], "mean")

    with pytest.raises(UnknownPrimitiveError, match="nothing is reduced by 'mean'"):
        trace(averaged)
