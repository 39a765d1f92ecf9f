"""What a task reads and writes follows from its leaves, construct by construct."""

import itertools

import numpy as np
import pytest

import septran
from septran import operators, task
from septran.task import errors


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def assign(Y, X):
    Y[:, :] = X * 2.0


@task.define(leaf=True)
def update(Y, X):
    Y += X


@task.define(leaf=True)
def top(Y, X):
    Y[0:2, :] = X[0:2, :]


@task.define(leaf=True)
def both_halves(Y, X):
    Y[0:4, :] = X[0:4, :]
    Y[4:8, :] = X[4:8, :]


@task.define(leaf=True)
def transposed(Y, X):
    Y.T[:, :] = X.T


@task.define(leaf=True)
def uses_nothing(Y, X):
    t = task.zeros((2,), name="t")
    t[:] = t + 1.0


@task.define(leaf=True)
def writes_then_reads(Y, X):
    Y[:, :] = X
    Y[:, :] = Y + X


@task.define(leaf=True)
def reads_then_writes(Y, X):
    t = task.empty(Y.shape)
    t[:, :] = Y
    Y[:, :] = X + t


@task.define(leaf=True)
def found_by(Y, X):
    Y += task.sum(X)


@task.define
def filled(Y, X):
    task.fill(Y, 0)
    task.launch(update, Y, X)


@task.define
def copied(Y, X):
    task.copy(Y, X)


@task.define
def tiled(Y, X):
    Yp, Xp = task.partition(Y, shape=(3, 5)), task.partition(X, shape=(3, 5))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(assign, Yp[i, j], Xp[i, j])


@task.define
def from_the_end(Y, X):
    Yp, Xp = task.partition(Y, shape=(3, 8)), task.partition(X, shape=(3, 8))
    last = Yp.shape[0] - 1
    for i in task.sequential_range(Yp.shape[0]):
        task.launch(assign, Yp[last - i, 0], Xp[last - i, 0])


@task.define
def but_the_first(Y, X):
    Yp, Xp = task.partition(Y, shape=(3, 8)), task.partition(X, shape=(3, 8))
    last = Yp.shape[0] - 1
    for i in task.sequential_range(Yp.shape[0] - 1):
        task.launch(assign, Yp[last - i, 0], Xp[last - i, 0])


@task.define
def nested(Y, X):
    Yp, Xp = task.partition(Y, shape=(3, 8)), task.partition(X, shape=(3, 8))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(tiled, Yp[i, 0], Xp[i, 0])


@task.define
def rows(Y, X):
    for i in task.parallel_range(Y.shape[0]):
        task.launch(assign, Y[i : i + 1], X[i : i + 1])


@task.define
def some_tiles(Y, X):
    Yp, Xp = task.partition(Y, shape=(3, 8)), task.partition(X, shape=(3, 8))
    for i in task.parallel_range(2):
        task.launch(assign, Yp[i, 0], Xp[i, 0])


@task.define
def triangle(Y, X):
    for i in task.sequential_range(8):
        for k in task.sequential_range(i):
            task.launch(assign, Y[k : k + 1], X[k : k + 1])


@task.define
def partly(Y, X):
    task.launch(top, Y, X)


@task.define
def partly_after_all(Y, X):
    task.launch(assign, Y, X)
    task.launch(top, Y, X)


@task.define
def accumulates(Y, X):
    for _k in task.sequential_range(2):
        task.launch(mma, Y, X, X)


@task.define
def filled_in_the_loop(Y, X):
    for _k in task.sequential_range(2):
        task.fill(Y, 0)
        task.launch(mma, Y, X, X)


@pytest.mark.parametrize(
    ("logic", "privilege"),
    [
        (assign, "write"), (update, "read-write"), (top, "read-write"), (both_halves, "write"),
        (transposed, "write"), (uses_nothing, "read"), (writes_then_reads, "write"),
        (reads_then_writes, "read-write"), (filled, "write"), (copied, "write"),
        (tiled, "write"), (from_the_end, "write"), (but_the_first, "read-write"),
        (nested, "write"), (rows, "write"), (some_tiles, "read-write"),
        (triangle, "read-write"), (partly, "read-write"), (partly_after_all, "write"),
        (accumulates, "read-write"), (filled_in_the_loop, "write"),
    ],
    ids=lambda v: getattr(v, "name", v),
)  # fmt: skip
def test_privileges_of_each_construct(logic, privilege):
    checked = logic is not uses_nothing  # which is refused as a leaf without a result
    tree = task.trace(logic, {"Y": (8, 8), "X": (8, 8)}, check=checked)
    y, x = tree.root.params
    assert y.privilege == privilege
    assert x.privilege == "read"
    assert y.accumulates == (logic in (accumulates, filled_in_the_loop))


@pytest.mark.parametrize("height", [3, 4])
@pytest.mark.parametrize(
    ("before", "privilege"),
    [
        (lambda _, j: j, "write"), (lambda i, j: i - 1 - j, "write"),
        (lambda _, j: j + 1, "read-write"), (lambda i, _: i, "read-write"),
        (lambda i, j: i - j, "read-write"),
    ],
)  # fmt: skip
def test_what_earlier_iterations_wrote_may_be_read(height, before, privilege):
    """Blocks of a solution, each found by those before it, made an Out parameter an error."""

    @task.define
    def blocks(Y, X):
        Yp, Xp = (task.partition(x, shape=(height, 8)) for x in (Y, X))
        for i in task.sequential_range(Yp.shape[0]):
            rest = task.empty(Xp[i, 0].shape, task.float32, name="rest")
            task.launch(assign, rest, Xp[i, 0])
            for j in task.sequential_range(i):
                task.launch(found_by, rest, Yp[before(i, j), 0])
            task.launch(assign, Yp[i, 0], rest)

    (y, _) = task.trace(blocks, {"Y": (8, 8), "X": (8, 8)}, check=False).root.params
    assert y.privilege == privilege


def test_where_one_block_is_all_no_other_is_read():
    @task.define
    def blocks(Y, X):
        Yp, Xp = (task.partition(x, shape=(8, 8)) for x in (Y, X))
        for i in task.sequential_range(Yp.shape[0]):
            for j in task.sequential_range(i):
                task.launch(update, Yp[i, 0], Yp[j, 0])
            task.launch(assign, Yp[i, 0], Xp[i, 0])

    assert task.trace(blocks, {"Y": (8, 8), "X": (8, 8)}).root.params[0].privilege == "write"


@task.define
def in_any_order(Y, X):
    Yp, Xp = (task.partition(x, shape=(2, 8)) for x in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        for j in task.sequential_range(i):
            task.launch(assign, Xp[i, 0], Yp[j, 0])
        task.launch(assign, Yp[i, 0], Xp[i, 0])


def test_what_parallel_iterations_wrote_is_not_there_yet():
    y = task.trace(in_any_order, {"Y": (8, 8), "X": (8, 8)}, check=False).root.params[0]
    assert y.privilege == "read-write"


HALVES_APART = {"rope", "rope_backward"}


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", sorted({*operators.names()} - HALVES_APART))
def test_outputs_of_the_library_are_written_only(name):
    case = operators.cases(name)[0]
    for sizes in (operators.module(name).EXAMPLE, case.sizes):
        tree = septran.produce_stages(name, "cpu-x86", shapes=sizes, static=case.static).task_tree
        privileges = {p.privilege for p in tree.root.params if p.writes}
        assert privileges == {"write"}


PARTLY_STAGED = """
machine: cpu-x86
rules:
  - match: {level: entry}
    proc: HOST
    mems: {"*": DRAM}
  - match: {task: top}
    proc: CORE
    mems: {Y: L2, X: L1}
  - match: {leaf: elementwise}
    binding: vector
"""


@pytest.mark.parametrize(("rows", "privilege"), [((0, 3, 8), "write"), ((0, 3, 7), "read-write")])
def test_parts_that_end_with_the_tile_are_together_all_of_it(rows, privilege):
    @task.define(leaf=True)
    def parts(Y, X):
        for a, b in itertools.pairwise(rows):
            Y[a:b, :] = X[a:b, :]

    @task.define
    def tiles(Y, X):
        Yp, Xp = (task.partition(x, shape=(8, 4)) for x in (Y, X))
        for j in task.parallel_range(Yp.shape[1]):
            task.launch(parts, Yp[0, j], Xp[0, j])

    (launch,) = task.trace(tiles, {"Y": (8, 10), "X": (8, 10)}).root.launches()
    assert launch.task.params[0].privilege == privilege


def test_some_parts_of_a_ragged_tile_are_not_all_of_it():
    @task.define(leaf=True)
    def parts(Y, X):
        Y[0:4, :] = X[0:4, :]
        Y[4:8, 0:2] = X[4:8, 0:2]

    @task.define
    def tiles(Y, X):
        Yp, Xp = (task.partition(x, shape=(8, 4)) for x in (Y, X))
        for j in task.parallel_range(Yp.shape[1]):
            task.launch(parts, Yp[0, j], Xp[0, j])

    (launch,) = task.trace(tiles, {"Y": (8, 10), "X": (8, 10)}).root.launches()
    assert launch.task.params[0].privilege == "read-write"


def test_what_a_task_leaves_unwritten_survives_staging():
    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], Z: task.Tensor["M", "N"]):
        task.copy(Y, Z)
        Yp, Xp = task.partition(Y, shape=(4, 8)), task.partition(X, shape=(4, 8))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(top, Yp[i, 0], Xp[i, 0])

    x, z = np.ones((8, 8), "float32"), np.arange(64, dtype="float32").reshape(8, 8)
    wanted = z.copy()
    wanted[[0, 1, 4, 5]] = 1
    assert np.array_equal(septran.compile(entry, PARTLY_STAGED)(x, z), wanted)
    assert np.array_equal(task.run(entry, x, z), wanted)


def test_an_output_written_in_part_starts_at_zero(on_cpu):
    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        task.launch(top, Y, X)

    x = np.ones((8, 300), "float32")
    for _ in range(3):
        assert np.array_equal(on_cpu(entry, x)[2:], np.zeros((6, 300)))


def test_an_output_that_accumulates_starts_at_zero(on_cpu):
    @task.define
    def entry(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
        task.launch(mma, C, A, B)

    a = np.arange(12, dtype="float32").reshape(3, 4)
    assert np.array_equal(on_cpu(entry, a, a.T.copy()), a @ a.T)


def test_declared_privileges_are_checked(raises_at):
    @task.define(leaf=True)
    def fine(Y: task.Out["M"], Z: task.InOut["M"], X: task.In["M"]):
        Z += X
        Y[:] = Z

    assert [p.privilege for p in task.trace(fine, dict.fromkeys("YZX", (4,))).root.params] == [
        "write", "read-write", "read",
    ]  # fmt: skip

    @task.define(leaf=True)
    def half(Y: task.Out["M"], X: task.In["M"]):
        Y[0:2] = X[0:2]

    with pytest.raises(errors.ReadOnlyError, match="is Out, but"):
        task.trace(half, dict.fromkeys("YX", (4,)))

    @task.define(leaf=True)
    def stores(Y: task.Out["M"], X: task.In["M"]):
        Y[:] = X
        X[:] = Y  # here

    trace = lambda logic: lambda: task.trace(logic, dict.fromkeys("YX", (4,)))  # noqa: E731
    raises_at(errors.ReadOnlyError, "X of stores is declared as In", trace(stores))

    @task.define(leaf=True)
    def into_windows(Y, X):
        task.window(Y, 3)[:, :] = 1.0  # here

    raises_at(errors.ReadOnlyError, "overlapping windows of Y", trace(into_windows))

    @task.define(leaf=True)
    def into_padding(Y, X):
        task.window(Y, 1, padding=1)[:, :] = 1.0  # here

    raises_at(errors.ReadOnlyError, "padded window of Y", trace(into_padding))

    @task.define
    def launches_on_windows(Y, X):
        w = task.window(Y, 3)
        task.launch(assign, w, w)  # here

    raises_at(errors.ReadOnlyError, "overlapping windows of Y", trace(launches_on_windows))


def test_windows_side_by_side_may_be_written(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, X):
        task.window(Y, 2, stride=2)[:, :] = task.window(X, 2, stride=2) * 2.0

    @task.define
    def entry(Y: task.Tensor["N"], X: task.Tensor["N"]):
        task.launch(leaf, Y, X)

    x = np.arange(8, dtype="float32")
    assert np.array_equal(on_cpu(entry, x), 2 * x)
