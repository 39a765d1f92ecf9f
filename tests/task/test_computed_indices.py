"""Indices, counts and indexed tensors that the same kernel computes: what they mean, when not."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.ir.atoms import table_name
from septran.runtime.accuracy import error_bounds
from septran.task.errors import CountRangeError, IndexRangeError, IndirectIndexError
from tests.computed_indices import KEYS, SHAPES, X, take, turn, turned


@task.define
def take_through(Y, R):
    """Y is R, which may be rows that indices choose."""
    task.launch(take, Y, R)


@task.define
def turned_by(Y, X, at, key):
    """All of a tensor is written by one task, and chooses in the next."""
    task.launch(turn, at, key)
    task.launch(take_through, Y, X[at])


@task.define
def passed(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]):
    """Rows that a temporary chose, and all of the temporary, are passed on."""
    at = task.empty(key.shape, task.int64, name="at")
    task.launch(turned_by, Y, X, at, key)


@task.define
def around(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]):
    """The same, launched twice: each has a temporary of its own."""
    half = task.empty(Y.shape, name="half")
    task.launch(turned, half, X, key)
    task.launch(turned, Y, X, key)


@task.define
def of_computed(
    Y: task.Out["T", "D"],
    Z: task.Out["V", "D"],
    X: task.In["V", "D"],
    key: task.In["T", task.int64],
):
    """Rows of an output that is complete."""
    Zp, Xp = (task.partition(x, shape=(2, 4)) for x in (Z, X))
    for i in task.parallel_range(Zp.shape[0]):
        task.launch(take, Zp[i, 0], Xp[i, 0])
    Yp, Rp = (task.partition(x, shape=(2, 4)) for x in (Y, Z[key]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(take, Yp[i, 0], Rp[i, 0])


@task.define(leaf=True)
def add(total, x):
    """One row more."""
    total[:] = total + x


@task.define
def summed(Y, X, n):
    """The first rows' sum, as many as an element says."""
    total = task.zeros(Y.shape, name="total")
    for r in task.sequential_range(task.count(n[0], most=X.shape[0])):
        task.launch(add, total, X[r])
    task.copy(Y, total)


@task.define
def counted(Y: task.Tensor["D"], X: task.Tensor["V", "D"], key: task.Tensor[1, task.int64]):
    """A number of iterations that the kernel computes."""
    n = task.empty(key.shape, task.int64, name="n")
    for _ in task.parallel_range(1):
        task.launch(turn, n, key)
    for _ in task.parallel_range(1):
        task.launch(summed, Y, X, n)


@task.define(leaf=True)
def same(at, key):
    """Indices from the beginning."""
    at[...] = key


@task.define
def turned_2(Y, X, key):
    """Rows from the beginning; the name is as good as that of a second launch of `turned`."""
    at = task.empty(key.shape, task.int64, name="at")
    task.launch(same, at, key)
    task.launch(take, Y, X[at])


@task.define
def thrice(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]):
    """Three tasks with temporaries of one name."""
    once, again = (task.empty(Y.shape, name=name) for name in ("once", "again"))
    task.launch(turned, once, X, key)
    task.launch(turned, again, X, key)
    task.launch(turned_2, Y, X, key)


MACHINES = ["cpu-x86", "dsa-sim", "npu-cube", "nvidia-h200"]


def check(logic, machine, *arrays):
    """The kernel's results, which `check` finds right, and those of its tile program."""
    emulate = {"emulate": True} if machine.startswith("nvidia") else {}
    kernel = septran.compile(logic, machine, **emulate)
    found = kernel(*arrays)
    assert kernel.check(*arrays).right
    tiles = septran.interpret(kernel.stages.tile_program, list(arrays), order=3)
    first = found[0] if isinstance(found, tuple) else found
    assert np.array_equal(next(iter(tiles.values())), first)
    return first


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("logic", [turned, around], ids=["entry", "inside"])
@pytest.mark.one_in(3)
def test_rows_are_chosen_by_what_was_computed_before(logic, machine):
    assert np.array_equal(task.run(logic, X, KEYS), X[5 - KEYS])
    assert np.array_equal(check(logic, machine, X, KEYS), X[5 - KEYS])


def test_temporaries_of_one_name_are_told_apart_in_tasks_of_like_names():
    assert np.array_equal(task.run(thrice, X, KEYS), X[KEYS])
    kinds = {"X": "float32", "key": "int64"}
    tiles = septran.produce_stages(thrice, "cpu-x86", shapes=SHAPES, dtypes=kinds).tile_program
    assert np.array_equal(septran.interpret(tiles, [X, KEYS], order="late")["Y"], X[KEYS])
    names = [table_name(path, "at") for path in ("e/sub#2", "e/sub_2", "e/sub/at", "e/sub", "e")]
    assert names == ["sub.2.at", "sub_2.at", "sub.at.at", "sub.at", "at"]


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_are_chosen_of_what_was_computed_before(machine):
    assert np.array_equal(check(of_computed, machine, X, KEYS), X[KEYS])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("key", [5, 3, 0])
@pytest.mark.one_in(3, first=1)
def test_iterations_are_counted_by_what_was_computed_before(machine, key):
    assert np.array_equal(check(counted, machine, X, np.array([key])), X[: 5 - key].sum(0))


def test_what_is_computed_out_of_range_is_an_error_with_its_place():
    with pytest.raises(IndexRangeError, match=r"at\[2\] is -2, which is no index of 0\.\.5"):
        task.run(turned, X, np.array([0, 1, 7, 2, 2]))
    with pytest.raises(CountRangeError, match=r"n\[0\] is -1"):
        task.run(counted, X, np.array([6]))
    kernel = septran.compile(turned, "cpu-x86")
    with pytest.raises(IndexRangeError, match=r"at\[2\] is -2"):
        kernel.check(X, np.array([0, 1, 7, 2, 2]))
    assert np.array_equal(kernel(X, np.array([0, 1, 7, 2, 2])), X[[5, 4, 0, 3, 3]])


def refused(body, words):
    @task.define
    def logic(
        Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]
    ):
        body(Y, X, key)

    with pytest.raises(IndirectIndexError, match=words) as caught:
        task.trace(logic, SHAPES, {"key": "int64"})
    assert caught.value.where.file == __file__
    return caught.value


def test_an_index_of_an_iteration_is_refused():
    def body(Y, X, key):
        for t in task.parallel_range(5):
            at = task.empty((1,), task.int64, name="at")
            task.launch(turn, at, key[t : t + 1])
            task.launch(take, Y[t : t + 1], X[at])

    error = refused(body, "at holds indices, and is a temporary of a loop's iteration")
    assert "outside of all loops" in error.hint


def test_an_index_is_complete_before_it_is_read():
    def partly(Y, X, key):
        at = task.empty((5,), task.int64, name="at")
        task.launch(turn, at[:3], key[:3])
        task.launch(take, Y, X[at])

    def again(Y, X, key):
        at = task.empty((5,), task.int64, name="at")
        task.launch(turn, at, key)
        task.launch(take, Y, X[at])
        task.launch(turn, at, key)

    def beside(Y, X, key):
        at = task.zeros((5,), task.int64, name="at")
        for t in task.sequential_range(5):
            task.launch(take, Y[t], X[at[t]])
            task.launch(turn, at[t], key[t])

    refused(partly, "at holds indices in logic, and is not certainly written as a whole before")
    refused(again, "at holds indices in logic, and is written later, in logic")
    refused(beside, "at holds indices in logic, and is written there, too")


@task.define
def turn_and_take(Y, R, at, key):
    """Indices are written, and rows used that were chosen before."""
    task.launch(turn, at, key)
    task.launch(take, Y, R)


@task.define
def turn_low(Y, X, low, high, key):
    """One part of a tensor is written, and another one chooses."""
    task.launch(turn, low, key)
    task.launch(take, Y, X[high])


def test_an_index_of_rows_that_are_passed_is_complete_before_and_stays_as_it_is():
    def again(Y, X, key):
        at = task.empty((5,), task.int64, name="at")
        task.launch(turn, at, key)
        task.launch(take_through, Y, X[at])
        task.launch(turn, at, key)

    def partly(Y, X, key):
        at = task.empty((5,), task.int64, name="at")
        task.launch(turn, at[:3], key[:3])
        task.launch(take_through, Y, X[at])

    def there(Y, X, key):
        at = task.zeros((5,), task.int64, name="at")
        task.launch(turn_and_take, Y, X[at], at, key)

    refused(again, "at holds indices in logic, and is written later, in logic")
    refused(partly, "at holds indices in logic, and is not certainly written as a whole before")
    refused(there, "at holds indices in logic, and is written there, too")


def test_rows_may_be_passed_that_complete_indices_choose():
    assert np.array_equal(task.run(passed, X, KEYS), X[5 - KEYS])


def test_rows_that_are_passed_are_of_what_is_complete():
    def body(Y, X, key):
        half = task.empty((6, 4), name="half")
        task.launch(take, half, X)
        task.launch(take_through, Y, half[key])
        task.launch(take, half, X)

    refused(body, "half is used through an index in logic, and is written later, in logic")


def test_a_part_that_is_complete_is_not_the_whole():
    def parts(Y, X, key):
        at = task.empty((5,), task.int64, name="at")
        task.launch(turn_low, Y[:2], X, at[:2], at[2:4], key[:2])
        task.launch(take, Y[2:], X[:3])

    refused(parts, "at holds indices in turn_low, and is not certainly written as a whole before")


def test_an_index_or_a_count_that_nobody_writes_is_refused():
    def index(Y, X, key):
        at = task.empty((5,), task.int64, name="at")
        task.launch(take, Y, X[at])

    def count(Y, X, key):
        n = task.empty((1,), task.int64, name="n")
        task.launch(summed, Y[0], X, n)
        task.launch(take, Y[1:], X[:4])

    refused(index, "at holds indices in logic, and is not certainly written as a whole before")
    refused(count, "n counts iterations in summed, and is not certainly written as a whole before")


def test_an_index_is_not_what_rounding_may_change():
    """Two logits that are as good as equal: nothing is promised of any result."""

    @task.define(leaf=True)
    def halves(Z, X):
        Z[:, :] = X / 3

    @task.define(leaf=True)
    def best(at, Z):
        top = task.empty((Z.shape[0], 1), name="top")
        index = task.empty((Z.shape[0], 1), task.int64, name="index")
        task.topk(top, index, Z)
        at[:] = task.max(index, axis=1)

    @task.define
    def logic(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], G: task.Tensor["T", "E"]):
        Z, at = task.empty(G.shape, name="Z"), task.empty(G.shape[:1], task.int64, name="at")
        task.launch(halves, Z, G)
        task.launch(best, at, Z)
        task.launch(take, Y, X[at])

    tree = task.trace(logic, {"Y": (2, 4), "X": X.shape, "G": (2, 6)})
    gate = np.array([[1, 2, 3, 4, 9, 6], [6, 5, 4, 3, 2, 1]], "float32")
    assert np.array_equal(error_bounds(tree, {"X": X, "G": gate})["Y"].value, X[[4, 0]])
    assert not error_bounds(tree, {"X": X, "G": gate})["Y"].error.any()
    gate[0, 0] = np.nextafter(np.float32(9), np.float32(10))
    assert np.isinf(error_bounds(tree, {"X": X, "G": gate})["Y"].error).all()
