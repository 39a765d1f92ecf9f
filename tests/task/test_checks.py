"""Races, aliases, gathers and prints, each against what they should see."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran import operators, task
from septran.ir.gather import coordinates, read, repeats, write
from septran.ir.index import Index, Var, axis, maximum, minimum
from septran.ir.views import View
from septran.task import errors

STEP = Var("i")


@task.define(leaf=True)
def copy_leaf(Y, X):
    Y[...] = X


@task.define(leaf=True)
def read_late(Y, X):
    Y[0:1] = X[0:1] * 2.0
    Y[1:2] = X[0:1] * 3.0


@task.define(leaf=True)
def one_by_one(Y, X):
    Y[...] = X * 2.0 + X


@task.define(leaf=True)
def reduced(Y, X):
    Y[:] = X - task.max(X)


@st.composite
def strided(draw):
    """Writes of `size` elements at ``a*i + b*j + offset``, and the loops' extents."""
    numbers = st.integers(0, 4)
    return tuple(draw(numbers) for _ in range(3)), draw(st.integers(1, 3)), (
        draw(st.integers(1, 4)), draw(st.integers(1, 3)),
    )  # fmt: skip


@settings(max_examples=50)
@given(strided())
def test_races_are_found_exactly(case):
    (a, b, offset), size, turns = case

    @task.define
    def logic(Y, X):
        for i, j in task.parallel_range(*turns):
            at = i * a + j * b + offset
            task.launch(copy_leaf, Y[at : at + size], X[0:size])

    touched = [
        set(range(a * i + b * j + offset, a * i + b * j + offset + size))
        for i, j in itertools.product(*map(range, turns))
    ]
    clash = any(s & t for s, t in itertools.combinations(touched, 2))
    shapes = {"Y": (64,), "X": (64,)}
    if not clash:
        task.trace(logic, shapes)
        return
    with pytest.raises(errors.RaceError, match="may write the same elements of Y"):
        task.trace(logic, shapes)


def test_temporaries_of_an_iteration_are_its_own(on_cpu):
    @task.define
    def logic(Y: task.Tensor["N"], X: task.Tensor["N"]):
        Yp, Xp = task.partition(Y, shape=4), task.partition(X, shape=4)
        for i in task.parallel_range(Yp.shape[0]):
            t = task.empty(Xp[i].shape, name="t")
            task.launch(copy_leaf, t, Xp[i])
            task.launch(one_by_one, Yp[i], t)

    x = np.arange(10, dtype="float32")
    assert np.array_equal(on_cpu(logic, x), 3 * x)


def test_a_shared_temporary_is_not():
    @task.define
    def logic(Y, X):
        t = task.empty((4,), name="t")
        for i in task.parallel_range(2):
            task.launch(copy_leaf, t, X[i * 4 : i * 4 + 4])
            task.launch(copy_leaf, Y[i * 4 : i * 4 + 4], t)

    with pytest.raises(errors.RaceError, match="elements of t"):
        task.trace(logic, {"Y": (8,), "X": (8,)})


@pytest.mark.parametrize(
    ("leaf", "fine"), [(copy_leaf, True), (one_by_one, True), (read_late, False), (reduced, False)],
    ids=lambda v: getattr(v, "name", v),
)  # fmt: skip
def test_one_tensor_under_two_names(leaf, fine, on_cpu):
    """Only where all of an element is read before it is written."""

    @task.define
    def logic(Y: task.Tensor["N"], X: task.Tensor["N"]):
        task.copy(Y, X)
        task.launch(leaf, Y, Y)

    if fine:
        on_cpu(logic, np.arange(8, dtype="float32"))
        return
    with pytest.raises(errors.AliasError, match="is written before all are read"):
        task.trace(logic, {"Y": (8,), "X": (8,)})


def test_parts_that_do_not_meet_may_be_passed(on_cpu):
    @task.define
    def logic(Y: task.Tensor["N"], X: task.Tensor["N"]):
        task.copy(Y, X)
        task.launch(read_late, Y[0:4], Y[4:8])

    assert on_cpu(logic, np.arange(8, dtype="float32")).tolist() == [8, 12, 2, 3, 4, 5, 6, 7]


def test_neighbours_that_take_turns_do_not_meet():
    @task.define
    def pairs(Y: task.Tensor["N"], X: task.Tensor["N"]):
        task.copy(Y, X)
        both = Y.reshape(Y.shape[0] // 2, 2)
        task.launch(read_late, both[:, 0], both[:, 1])

    @task.define
    def others(Y: task.Tensor["N"], X: task.Tensor["N"]):
        task.copy(Y, X)
        task.launch(read_late, Y.reshape(Y.shape[0] // 2, 2)[:, 0], Y[1:5])

    task.trace(pairs, {"Y": (8,), "X": (8,)})
    with pytest.raises(errors.AliasError):
        task.trace(others, {"Y": (8,), "X": (8,)})


def test_reading_and_writing_by_maps_of_every_kind():
    array = np.arange(24.0).reshape(4, 6)
    d = [Index.of(axis(n)) for n in range(3)]
    full = lambda *shape: tuple(map(Index.of, shape))  # noqa: E731
    views = [
        View("A", (d[0] // 2, d[0] % 2 + STEP), (8,), full(8)),
        View("A", (d[1], d[0]), (6, 4), full(6, 4)),
        View("A", (Index.of(3) - d[0], d[1] * 2), (4, 3), full(4, 3)),
        View("A", (minimum(d[0], 3), maximum(d[0] - 2, 0)), (6,), full(6)),
        View("A", (d[0], Index.of(STEP)), (4,), (minimum(4, Index.of(STEP) + 1),)),
        View("A", (Index.of(9), d[0]), (0,), full(0)),
    ]
    values = {STEP: 2}
    for view in views:
        found = read(array, view, values)
        changed, wanted = array.copy(), array.copy()
        write(changed, view, values, -found)
        if found.size:
            places = tuple(np.broadcast_arrays(*coordinates(view, values)))
            assert np.array_equal(found, array[places])
            wanted[places] = -found
        assert np.array_equal(changed, wanted)


def test_padding_reads_zeros_also_around_nothing():
    view = View("A", (Index.of(axis(0)) - 1,), (4,), (Index.of(4),), padded=True)
    assert read(np.array([5.0, 6.0]), view, {}).tolist() == [0, 5, 6, 0]
    assert read(np.zeros(0), view, {}).tolist() == [0] * 4


def test_repeated_elements_are_noticed():
    d = [Index.of(axis(n)) for n in range(3)]
    make = lambda index, *shape: View("A", index, shape, tuple(map(Index.of, shape)))  # noqa: E731
    assert not repeats(View.whole("A", (3, 4)))
    assert not repeats(View.whole("A", (3, 4)).transposed((1, 0)))
    assert repeats(make((d[0] + d[1],), 3, 2))
    assert not repeats(make((d[0] * 2 + d[1],), 3, 2))
    assert repeats(make((d[0],), 3, 2))
    assert not repeats(make((d[0],), 3, 1))
    assert not repeats(make((d[0] // 300, d[1] % 300), 0, 2))
    assert not repeats(make((d[0] // 300, d[0] % 300), 90000))
    assert repeats(make((d[0] * 200 + d[1],), 300, 400))


def test_the_tree_reads_like_the_logic():
    @task.define(leaf=True)
    def tile(Y, X, *, a: float):
        t = task.full(X.shape, 1, name="t")
        t[:, :] = -X + (X - 2) * 3
        Y[:, :] = task.where(task.index(X, 0)[:, None] < 5, t**2, a / t)
        task.call_primitive("copy", Y, X)

    @task.define
    def logic(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, a: float):
        rows = task.tunable("rows", 4)
        Yp, Xp = task.partition(Y, shape=(rows, 4)), task.partition(X, shape=(rows, 4))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(tile, Yp[i, 0], Xp[i, 0], a=a)

    text = str(task.trace(logic, {"Y": (10, 4), "X": (10, 4)}))
    lines = [line.split("  # ")[0] for line in text.splitlines()]
    assert lines == [
        "# M = 10, N = 4",
        "# scalars: a: float32",
        "# n_i = min(4, 10 - 4*i)",
        "task logic(Y: write float32[10, 4], X: read float32[10, 4])  rows = 4",
        "    for i in parallel(3):",
        "        launch tile(Y[4*i:+n_i, 0:+4], X[4*i:+n_i, 0:+4])",
        "            leaf task tile(Y: write float32[4, 4], X: read float32[4, 4])",
        "                t: float32[n_i, 4] = 1",
        "                t = -X + (X - 2) * 3",
        "                Y = where(index(X, 0)[:, None] < 5, t ** 2, a / t)",
        "                copy(Y, X)",
    ]


def test_trees_can_be_walked():
    tree = task.trace(operators.load("gemm"), {"C": (40, 40), "A": (40, 40), "B": (40, 40)})
    paths = [t.path for t in tree.tasks()]
    assert paths[:3] == ["gemm", "gemm/gemm_core", "gemm/gemm_core/gemm_block"]
    assert tree.task(paths[2]).name == "gemm_block"
    with pytest.raises(KeyError):
        tree.task("gemm/none")
    again = task.trace(operators.load("gemm"), {"C": (40, 40), "A": (40, 40), "B": (40, 40)})
    assert tree == again
    assert str(tree) == str(again)


def test_the_reference_is_exact_in_float64_and_within_rounding_in_float32():
    a, b = (np.random.default_rng(s).standard_normal((33, 33)) for s in (0, 1))
    exact = task.run(operators.load("gemm"), a, b, dtype="float64")
    bound = 2 * 33 * (np.abs(a) @ np.abs(b))
    assert (np.abs(exact - a @ b) <= 2.0**-53 * bound).all()
    single = task.run(operators.load("gemm"), a.astype("float32"), b.astype("float32"))
    assert single.dtype == np.float32
    assert (
        np.abs(single - a @ b) <= 2.0**-24 * bound + 4 * 2.0**-24 * (np.abs(a) @ np.abs(b))
    ).all()
    wide = task.run(
        operators.load("gemm"), a.astype("float32"), b.astype("float32"), dtype="float64"
    )
    assert wide.dtype == np.float64
