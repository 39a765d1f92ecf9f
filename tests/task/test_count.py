"""Loops whose number of iterations a tensor of integers says: what they mean, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task
from septran.task.errors import CountRangeError, IndexingError, IndirectIndexError


@task.define(leaf=True)
def add(C, X):
    """C += X."""
    C[:] = C + X


def sums(extent):
    """A logic that sums rows as often as `extent` makes of the tensors."""

    @task.define
    def logic(Y: task.Tensor["D"], X: task.Tensor["L", "D"], n: task.Tensor["B"]):
        task.fill(Y, 0)
        for p in task.sequential_range(extent(X, n)):
            task.launch(add, Y, X[p])

    return logic


X = np.arange(24.0, dtype="float32").reshape(6, 4)
SHAPES, KINDS = {"Y": (4,), "X": (6, 4), "n": (2,)}, {"n": "int64"}


@pytest.mark.parametrize("n", [0, 1, 6])
def test_the_loop_turns_as_often_as_the_element_says(n):
    logic = sums(lambda X, n: task.count(n[1], most=6))
    tree = task.trace(logic, SHAPES, KINDS)
    found = task.run_tree(tree, {"X": X, "n": np.array([3, n])})["Y"]
    assert np.array_equal(found, X[:n].sum(axis=0))
    assert "n[1]" in str(tree)
    assert next(p.places for p in tree.root.params if p.name == "n") == 7


@pytest.mark.parametrize(
    ("extent", "rows"),
    [
        (lambda X, n: task.cdiv(task.count(n[0], most=12), 2), 4),
        (lambda X, n: task.least(task.count(n[0], most=9), X.shape[0]), 6),
        (lambda X, n: task.count(n[0], most=12) // 3 + 1, 3),
        (lambda X, n: 5 - task.count(n[0], most=9), 0),
    ],
)
def test_counts_are_reckoned_with(extent, rows):
    tree = task.trace(sums(extent), SHAPES, KINDS)
    found = task.run_tree(tree, {"X": X, "n": np.array([7, 0])})["Y"]
    assert np.array_equal(found, X[:rows].sum(axis=0))


@pytest.mark.parametrize("wrong", [-1, 7])
def test_a_number_out_of_range_is_an_error_with_its_place(wrong):
    logic = sums(lambda X, n: task.count(n[1], most=6))
    tree = task.trace(logic, SHAPES, KINDS)
    with pytest.raises(CountRangeError, match=rf"n\[1\] is {wrong}, and counts 0 to 6") as caught:
        task.run_tree(tree, {"X": X, "n": np.array([0, wrong])})
    assert "task.count" in caught.value.hint
    assert caught.value.where.file.endswith("test_count.py")


def test_what_cannot_count_is_refused_in_words():
    def refused(extent, error, match, kinds=KINDS):
        with pytest.raises(error, match=match) as caught:
            task.trace(sums(extent), SHAPES, kinds)
        return caught.value.hint

    hint = refused(lambda X, n: n[0], IndexingError, "is a tensor, and how often")
    assert "task.count(n[..], most=..)" in hint
    refused(lambda X, n: task.count(n, most=6), IndirectIndexError, "1 axes")
    floats = {"n": "float32"}
    refused(lambda X, n: task.count(n[0], most=6), IndirectIndexError, "n is float32", floats)


def test_a_count_is_for_sequential_loops_alone():
    @task.define
    def sliced(Y: task.Tensor["D"], X: task.Tensor["L", "D"], n: task.Tensor["B"]):
        task.launch(add, Y, X[task.count(n[0], most=5)])

    @task.define
    def parallel(Y: task.Tensor["L", "D"], X: task.Tensor["L", "D"], n: task.Tensor["B"]):
        for i in task.parallel_range(task.count(n[0], most=6)):
            task.launch(add, Y[i], X[i])

    with pytest.raises(IndexingError, match=r"for task\.sequential_range alone") as caught:
        task.trace(sliced, SHAPES, KINDS)
    assert "task.where" in caught.value.hint
    with pytest.raises(IndexingError, match="no extent of a parallel loop"):
        task.trace(parallel, {**SHAPES, "Y": (6, 4)}, KINDS)


def test_counts_are_neither_computed_nor_written_in_the_kernel():
    @task.define
    def held(Y: task.Tensor["D"], X: task.Tensor["L", "D"], n: task.Tensor["B"]):
        own = task.empty(n.shape, "int64", name="own")
        task.copy(own, n)
        for p in task.sequential_range(task.count(own[0], most=6)):
            task.launch(add, Y, X[p])

    @task.define
    def written(Y: task.InOut["D"], n: task.Out["B", task.int64], X: task.In["L", "D"]):
        task.fill(n, 2)
        for p in task.sequential_range(task.count(n[0], most=6)):
            task.launch(add, Y, X[p])

    with pytest.raises(IndirectIndexError, match="own holds counts, and is a temporary"):
        task.trace(held, SHAPES, KINDS)
    with pytest.raises(IndirectIndexError, match="n counts iterations in written"):
        task.trace(written, SHAPES, KINDS)
