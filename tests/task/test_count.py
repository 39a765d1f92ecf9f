"""Loops whose number of iterations a tensor of integers says: what they mean, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task
from septran.task.errors import (
    CountRangeError,
    IndexingError,
    IndirectIndexError,
    RaceError,
    SymbolicValueError,
)


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


def test_a_count_is_no_index():
    @task.define
    def indexed(Y: task.Tensor["D"], X: task.Tensor["L", "D"], n: task.Tensor["B"]):
        task.launch(add, Y, X[task.count(n[0], most=5)])

    with pytest.raises(IndexingError, match="for loops, the ends of slices and") as caught:
        task.trace(indexed, SHAPES, KINDS)
    assert "x[n[b]]" in caught.value.hint


@task.define
def doubled(
    Y: task.InOut["L", "D"], X: task.Tensor["L", "D"], n: task.Tensor["B"], *, low: task.static = 1
):
    """Y = 2 X in the rows from n[0] to n[1], or from the first one on."""
    ends = [task.count(n[b], most=X.shape[0]) for b in (0, 1)]
    y, x = (t[ends[0] : ends[1]] if low else t[: ends[1]] for t in (Y, X))
    yp, xp = (task.partition(t, shape=(4, t.shape[1])) for t in (y, x))
    for i in task.parallel_range(yp.shape[0]):
        task.launch(twice, yp[i, 0], xp[i, 0])


@task.define(leaf=True)
def twice(Y, X):
    """Y = 2 X."""
    Y[:, :] = X * 2


@pytest.mark.parametrize("ends", [(0, 6), (1, 6), (2, 3), (4, 4), (5, 2)])
@pytest.mark.parametrize("low", [0, 1])
def test_a_slice_is_from_one_count_to_another(ends, low):
    tree = task.trace(doubled, {**SHAPES, "Y": (6, 4)}, KINDS, static={"low": low})
    found = task.run_tree(tree, {"X": X, "Y": np.zeros_like(X), "n": np.array(ends)})["Y"]
    there = slice(ends[0] if low else 0, ends[1])
    assert np.array_equal(found[there], 2 * X[there])
    assert np.count_nonzero(found) == np.count_nonzero(X[there])


def test_a_slice_leaves_its_tensor_at_neither_end():
    def refused(low, high):
        @task.define
        def logic(Y: task.Tensor["D"], X: task.Tensor["L", "D"], n: task.Tensor["B"]):
            task.fill(Y, 0)
            part = X[low(task.count(n[0], most=9)) : high(task.count(n[1], most=9))]
            for p in task.sequential_range(part.shape[0]):
                task.launch(add, Y, part[p])

        with pytest.raises(IndexingError, match="may reach from") as caught:
            task.trace(logic, SHAPES, KINDS)
        return caught.value.hint

    assert "task.greatest(a, 0)" in refused(lambda n: n - 1, lambda n: task.least(n, 6))
    assert "task.least" in refused(lambda n: n, lambda n: n)


def test_parallel_iterations_do_not_write_sections():
    @task.define
    def logic(Y: task.Tensor["L", "D"], X: task.Tensor["L", "D"], n: task.Tensor["B"]):
        for b in task.parallel_range(n.shape[0] - 1):
            low, high = (task.count(n[b + e], most=6) for e in (0, 1))
            task.launch(twice, Y[low:high], X[low:high])

    with pytest.raises(RaceError, match="may write the same elements of Y"):
        task.trace(logic, {**SHAPES, "Y": (6, 4), "n": (3,)}, KINDS)


def test_counts_may_be_computed_in_the_kernel():
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

    given = {"X": X, "n": np.array([3, 0]), "Y": np.zeros(4)}
    found = task.run_tree(task.trace(held, SHAPES, KINDS), given)["Y"]
    assert np.array_equal(found, X[:3].sum(axis=0))
    found = task.run_tree(task.trace(written, SHAPES, KINDS), given)
    assert np.array_equal(found["Y"], X[:2].sum(axis=0))
    assert found["n"].tolist() == [2, 2]


def test_counts_are_added_and_subtracted():
    logic = sums(lambda X, n: task.count(n[1], most=6) - task.count(n[0], most=6))
    more = sums(lambda X, n: task.count(n[1], most=3) + task.count(n[0], most=3))
    for n, between, both in (([1, 3], 2, 4), ([2, 0], 0, 2), ([2, 2], 0, 4)):
        given = {"X": X, "n": np.array(n)}
        for each, rows in ((logic, between), (more, both)):
            found = task.run_tree(task.trace(each, SHAPES, KINDS), given)["Y"]
            assert np.array_equal(found, X[:rows].sum(axis=0))


def skipping(condition):
    """A logic that sums the rows of which `condition` says so."""

    @task.define
    def logic(Y: task.Tensor["D"], X: task.Tensor["L", "D"], mask: task.Tensor["L"]):
        task.fill(Y, 0)
        for p in task.sequential_range(X.shape[0]):
            with task.when(condition(mask, p)):
                task.launch(add, Y, X[p])

    return logic


MASKED = ({**SHAPES, "mask": (6,)}, {"mask": "uint8"})


def test_a_launch_runs_where_its_condition_is_one():
    mask = np.array([1, 0, 0, 1, 1, 0], "uint8")
    for condition, rows in (
        (lambda mask, p: mask[p], mask == 1),
        (lambda mask, p: 1 - task.count(mask[p], most=1), mask == 0),
        (lambda mask, p: p - 2, np.arange(6) > 2),
        (lambda mask, p: 3 - p, np.arange(6) < 3),
        (lambda mask, p: 1, mask < 2),
        (lambda mask, p: 0, mask > 1),
    ):
        tree = task.trace(skipping(condition), *MASKED)
        found = task.run_tree(tree, {"X": X, "mask": mask})["Y"]
        assert np.array_equal(found, X[rows].sum(axis=0))


def test_a_mask_is_of_zeros_and_ones():
    tree = task.trace(skipping(lambda mask, p: mask[p]), *MASKED)
    with pytest.raises(CountRangeError, match=r"mask\[2\] is 3, and counts 0 to 1") as caught:
        task.run_tree(tree, {"X": X, "mask": np.array([1, 0, 3, 0, 0, 0], "uint8")})
    assert caught.value.where.file.endswith("test_count.py")


def test_what_decides_nothing_is_refused_in_words():
    def refused(condition, error, match, kinds=MASKED[1]):
        with pytest.raises(error, match=match) as caught:
            task.trace(skipping(condition), MASKED[0], kinds)
        return caught.value.hint

    hint = refused(lambda mask, p: mask[p] > 0, IndexingError, "one integer, not by an expression")
    assert "task.when(mask[i, j])" in hint
    refused(lambda mask, p: mask, IndirectIndexError, "1 axes")
    refused(lambda mask, p: mask[p], IndirectIndexError, "float32", {"mask": "float32"})

    @task.define
    def branch(Y: task.Tensor["D"], X: task.Tensor["L", "D"], mask: task.Tensor["L"]):
        task.fill(Y, 0)
        if task.when(mask[0]):
            task.launch(add, Y, X[0])

    @task.define
    def compared(Y: task.Tensor["D"], X: task.Tensor["L", "D"], mask: task.Tensor["L"]):
        task.fill(Y, 0)
        if task.count(mask[0], most=1) > 0:
            task.launch(add, Y, X[0])

    with pytest.raises(IndexingError, match="not known while tracing") as caught:
        task.trace(branch, *MASKED)
    assert "with task.when" in caught.value.hint
    with pytest.raises(SymbolicValueError, match="cannot be compared") as caught:
        task.trace(compared, *MASKED)
    assert "with task.when" in caught.value.hint
