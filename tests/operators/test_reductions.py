"""Parts of parallel iterations, joined in a fixed order on every machine."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.task.errors import (
    IndirectIndexError,
    RaceError,
    ReadOnlyError,
    ShapeError,
    UnknownPrimitiveError,
)
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


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(12)
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


@task.define
def scattered(
    W: task.Out["V", "D"], G: task.In["T", "D"], index: task.In["T", task.int64],
    *, parts: int = 1, function: str = "sum",
):  # fmt: skip
    """The rows of G, each joined to the row of W that the index says; some parts at a time."""
    task.fill(W, 0)
    width = task.tunable("block_width")
    many = task.cdiv(G.shape[0], parts)
    Wp, Gp = task.partition(W, shape=(W.shape[0], width)), task.partition(G, shape=(1, width))
    for c in task.parallel_range(parts):
        for j in task.parallel_range(Wp.shape[1]):
            for t in task.sequential_range(many):
                at = many * c + t
                task.reduce_into(Wp[0, j][index[at]], Gp[at, j][0], function)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("parts", "function"), [(1, "sum"), (3, "sum"), pytest.param(2, "max", marks=pytest.mark.slow)]
)
def test_rows_are_joined_where_an_index_says(parts, function, machine):
    sizes = {"V": 9, "D": 150, "T": 60}
    kernel = compiled(scattered, machine, sizes, parts=parts, function=function)
    rng = np.random.default_rng(0)
    rows, index = rng.integers(-3, 4, (60, 150)).astype("float32"), rng.integers(0, 5, 60)
    wanted = np.zeros((9, 150), "float32")
    {"sum": np.add, "max": np.maximum}[function].at(wanted, index, rows)
    np.testing.assert_array_equal(kernel(rows, index), wanted)
    check = kernel.check()
    assert check.right, str(check)
    program = kernel.stages.tile_program
    septran.verify(program, full=True)
    for order in ("early", "late", 1):
        found = septran.interpret(program, {"G": rows, "index": index}, order=order)
        np.testing.assert_array_equal(found["W"], wanted)


def test_several_rows_at_one_time_are_refused():
    @task.define
    def entry(W: task.InOut["V", "D"], G: task.In["T", "D"], index: task.In["T"]):
        task.reduce_into(W[index], G)

    with pytest.raises(ReadOnlyError, match="several rows of W are chosen by an index"):
        task.trace(entry, {"W": (4, 8), "G": (4, 8), "index": (4,)}, {"index": "int64"})


def test_chosen_rows_of_what_is_written_are_not_read():
    @task.define
    def entry(W: task.InOut["V", "D"], Y: task.Out["D"], index: task.In["T", task.int64]):
        task.fill(Y, 0)
        task.reduce_into(W[index[0]], Y)
        task.copy(Y, W[index[1]])

    with pytest.raises(IndirectIndexError, match="W is used through an index"):
        task.trace(entry, {"W": (4, 8), "Y": (8,), "index": (4,)})
