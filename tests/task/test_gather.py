"""Views whose rows are chosen by a tensor of integers: what they mean, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task
from septran.task.errors import (
    IndexingError,
    IndexRangeError,
    IndirectIndexError,
    PythonError,
    ReadOnlyError,
    UnknownConstructError,
)

X = np.arange(24.0, dtype="float32").reshape(6, 4)


@task.define(leaf=True)
def take(Y, X):
    """Y is X."""
    Y[...] = X


@task.define(leaf=True)
def add_chosen(Y, X, Z, own):
    """Rows of Z's tile, chosen inside of the leaf."""
    Y[:, :] = X + Z[own]


def test_rows_are_those_that_integers_choose():
    @task.define
    def logic(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, task.gather(X, at))

    at = np.array([5, 0, 0, 3], "int32")
    assert np.array_equal(task.run(logic, X, at), X[at])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_any_axis_is_replaced_by_those_of_the_index(axis):
    @task.define
    def logic(Y, X, at):
        task.launch(take, Y, task.gather(X, at, axis=axis))

    at = np.array([[3, 0], [2, 2], [1, 3]], "int64")
    wanted = np.take(X, at, axis)
    tree = task.trace(logic, {"Y": wanted.shape, "X": X.shape, "at": at.shape}, {"at": "int64"})
    assert np.array_equal(task.run_tree(tree, {"X": X, "at": at})["Y"], wanted)


def test_one_element_chooses_a_row_a_page_or_a_tile():
    @task.define
    def logic(Y: task.Out[3, 2, 4], X: task.In["V", 4], pages: task.In[3, 1]):
        pair = X.reshape(3, 2, 4)
        tiles = task.partition(X, shape=(2, 4))
        task.launch(take, Y[0], pair[pages[0, 0]])
        task.launch(take, Y[1], tiles[pages[1, 0], 0])
        task.launch(take, Y[2, 0], X[pages[2, 0]])
        task.launch(take, Y[2, 1], X[pages[2, 0], :])

    found = task.run(logic, X, np.array([[2], [1], [0]], "int64"))
    assert np.array_equal(found[:2], X.reshape(3, 2, 4)[[2, 1]])
    assert np.array_equal(found[2], X[[0, 0]])


def test_indices_of_indices_and_both_axes():
    @task.define
    def logic(
        Y: task.Out["T", "U"],
        X: task.In["V", "D"],
        of: task.In["E"],
        rows: task.In["T"],
        at: task.In["U"],
    ):
        task.launch(take, Y, X[of[rows]][:, at])

    of, rows, at = np.array([5, 1, 4]), np.array([2, 0, 1, 1]), np.array([3, 0])
    assert np.array_equal(task.run(logic, X, of, rows, at), X[of[rows]][:, at])


def test_a_leaf_chooses_rows_of_its_tile():
    @task.define
    def logic(
        Y: task.Tensor["T", 4], X: task.Tensor["T", 4], Z: task.Tensor["V", 4], at: task.Tensor["T"]
    ):
        parts = [task.partition(t, shape=(3, 2)) for t in (Y, X)]
        columns, own = task.partition(Z, shape=(Z.shape[0], 2)), task.partition(at, shape=(3,))
        for i, j in task.parallel_range(parts[0].shape):
            task.launch(add_chosen, *(p[i, j] for p in parts), columns[0, j], own[i])

    at = np.array([1, 0, 2, 2, 0, 1, 1])
    x, z = np.ones((7, 4), "float32"), X[:3]
    assert np.array_equal(task.run(logic, x, z, at), x + z[at])


@pytest.mark.parametrize("wrong", [-1, 6])
def test_an_index_out_of_range_is_an_error_with_its_place(wrong):
    @task.define
    def logic(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, X[at])

    message = rf"at\[2\] is {wrong}, which is no index of 0\.\.5"
    with pytest.raises(IndexRangeError, match=message) as caught:
        task.run(logic, X, np.array([0, 1, wrong, 2]))
    assert caught.value.where.line == take.function.__code__.co_firstlineno + 3


def test_numbers_with_a_fraction_choose_nothing():
    @task.define
    def logic(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, X[at])

    with pytest.raises(IndirectIndexError, match="at is float32, and rows are chosen by integers"):
        task.run(logic, X, np.zeros(3, "float32"))


def test_nothing_is_written_through_an_index():
    @task.define
    def logic(Y: task.Tensor["V", "D"], X: task.Tensor["T", "D"], at: task.Tensor["T"]):
        task.launch(take, Y[at], X)

    shapes = {"Y": (6, 4), "X": (3, 4), "at": (3,)}
    with pytest.raises(ReadOnlyError, match="Y is written through an index") as caught:
        task.trace(logic, shapes, {"at": "int64"})
    assert "Gather from the side of the result" in caught.value.hint


def test_a_ragged_tile_cannot_be_chosen_from():
    @task.define
    def rows(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        Xp = task.partition(X, shape=(4, X.shape[1]))
        for i in task.sequential_range(Xp.shape[0]):
            task.launch(take, Y, Xp[i, 0][at])

    @task.define
    def tiles(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, task.partition(X, shape=(4, 4))[at[0], 0])

    shapes = {"Y": (3, 4), "X": (6, 4), "at": (3,)}
    with pytest.raises(IndirectIndexError, match="axis 0 of X is ragged"):
        task.trace(rows, shapes, {"at": "int64"})
    with pytest.raises(IndirectIndexError, match="cannot choose among the tiles of X"):
        task.trace(tiles, shapes, {"at": "int64"})


def test_messages_say_what_to_write_in_place_of_other_indices():
    @task.define
    def computed(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, X[at + 1])

    @task.define
    def two(Y: task.Tensor["T"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, X[at, at])

    @task.define
    def nowhere(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, task.gather(X, at, axis=2))

    @task.define
    def numpys(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        task.launch(take, Y, task.take(X, at))

    shapes, kinds = {"Y": (3, 4), "X": (6, 4), "at": (3,)}, {"at": "int64"}
    with pytest.raises(IndexingError, match="by an expression of tensors") as caught:
        task.trace(computed, shapes, kinds)
    assert "task.gather(x, index)" in caught.value.hint
    with pytest.raises(IndexingError, match="more than one tensor") as caught:
        task.trace(two, {**shapes, "Y": (3,)}, kinds)
    assert "x[rows][:, columns]" in caught.value.hint
    with pytest.raises(IndexingError, match="axis 2 of X, which has 2 axes"):
        task.trace(nowhere, shapes, kinds)
    with pytest.raises((UnknownConstructError, PythonError)) as caught:
        task.trace(numpys, shapes, kinds)
    assert "task.gather" in caught.value.hint


def test_the_tree_says_where_rows_come_from_and_how_many_there_are():
    @task.define
    def logic(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], at: task.Tensor["T"]):
        Yp, Rp = (task.partition(t, shape=(2, 4)) for t in (Y, X[at]))
        for i, j in task.parallel_range(Yp.shape):
            task.launch(take, Yp[i, j], Rp[i, j])

    tree = task.trace(logic, {"Y": (4, 4), "X": (6, 4), "at": (4,)}, {"at": "int64"})
    assert "X[at[$0 + 2*i], 0:+4]" in str(tree)
    held = next(p for p in tree.root.params if p.name == "at")
    assert (held.places, held.privilege) == (6, "read")
