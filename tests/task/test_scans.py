"""Scans in leaves: what they mean, where they may stand, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task
from septran.task.errors import (
    CompositeTouchesDataError,
    ShapeError,
    UnknownConstructError,
    UnknownPrimitiveError,
)
from septran.task.tree import Allocate, Primitive, statements

X = np.random.default_rng(0).integers(-3, 4, (5, 9)).astype("float32")
UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def of_leaf(body, *arrays):
    """The first output of a task of one leaf."""
    leaf = task.define(leaf=True)(body)

    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        task.launch(leaf, Y, X)

    return task.run(entry, *arrays)


@pytest.mark.parametrize("function", UFUNCS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_numpys_accumulate(function, axis, reverse):
    def body(Y, X):
        Y[:, :] = task.scan(function, X, axis, reverse=reverse)

    along = np.flip(X, axis) if reverse else X
    wanted = UFUNCS[function].accumulate(along, axis=axis)
    np.testing.assert_array_equal(of_leaf(body, X), np.flip(wanted, axis) if reverse else wanted)


@pytest.mark.parametrize(("function", "first"), [("sum", 0), ("prod", 1), ("max", -np.inf)])
def test_an_exclusive_scan_begins_with_what_changes_nothing(function, first):
    def body(Y, X):
        Y[:, :] = task.scan(function, X, 1, exclusive=True)

    found = of_leaf(body, X)
    assert np.all(found[:, 0] == first)
    np.testing.assert_array_equal(found[:, 1:], UFUNCS[function].accumulate(X, axis=1)[:, :-1])


def test_a_scan_is_an_expression_as_others():
    def body(Y, X):
        sums = task.cumsum(X * 2, axis=1)
        Y[:, :] = X + task.cumprod(sums[:, :] * 0 + 1, axis=0) * sums

    np.testing.assert_array_equal(of_leaf(body, X), X + np.cumsum(X * 2, 1))


def test_a_scan_is_evaluated_where_its_value_is_assigned():
    def body(Y, X):
        t = task.empty(X.shape, task.float32, name="t")
        t[:, :] = X
        sums = task.cumsum(t, axis=1)
        t[:, :] = X + 1
        Y[:, :] = sums

    np.testing.assert_array_equal(of_leaf(body, X), np.cumsum(X + 1, 1))


def test_a_scan_into_what_it_reads_takes_the_elements_as_they_were():
    def body(Y, X):
        Y[:, :] = X
        Y[:, :] = task.cumsum(Y, axis=0, reverse=True, exclusive=True)

    wanted = np.flip(np.cumsum(np.flip(X, 0), 0), 0) - X
    np.testing.assert_array_equal(of_leaf(body, X), wanted)


def test_a_scan_alone_needs_no_temporary():
    @task.define(leaf=True)
    def leaf(Y, X):
        Y[:, :] = task.cumsum(X, axis=1)

    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        task.launch(leaf, Y, X)

    shape = {"Y": (5, 9), "X": (5, 9)}
    for dtype, temporaries in (("float32", 0), ("float16", 1)):  # which is summed in float32
        tree = task.trace(entry, shape, dict.fromkeys(shape, dtype))
        body = list(statements(tree.root.body[0].task.body))
        assert sum(isinstance(s, Allocate) for s in body) == temporaries
        assert sum(isinstance(s, Primitive) for s in body) == 1


def test_short_integers_are_summed_in_int32():
    def body(Y, X):
        Y[:, :] = task.cumsum(X, axis=1) // 100

    x = np.full((5, 9), 100, "int8")
    np.testing.assert_array_equal(of_leaf(body, x), np.cumsum(x, 1, dtype="int32") // 100)


@pytest.mark.parametrize("axis", [2, -3, None, True, (0, 1)])
def test_an_axis_that_is_not_there_is_refused(axis):
    def body(Y, X):
        Y[:, :] = task.cumsum(X, axis)

    with pytest.raises(ShapeError, match="cannot be scanned"):
        of_leaf(body, X)


def test_a_function_without_a_scan_is_refused():
    def body(Y, X):
        Y[:, :] = task.scan("mean", X, 1)

    with pytest.raises(UnknownPrimitiveError, match="no scan joins elements by 'mean'"):
        of_leaf(body, X)


def test_the_primitive_is_not_called_by_its_name():
    def body(Y, X):
        task.call_primitive("scan", Y, X)

    with pytest.raises(UnknownPrimitiveError) as caught:
        of_leaf(body, X)
    assert "task.cumsum" in str(caught.value)


def test_a_composite_scans_nothing():
    @task.define
    def entry(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        task.cumsum(X, 1)

    with pytest.raises(CompositeTouchesDataError):
        task.run(entry, X)


def test_words_of_others_are_answered_with_ours():
    def body(Y, X):
        Y[:, :] = task.cummax(X, 1)

    with pytest.raises(UnknownConstructError) as caught:
        of_leaf(body, X)
    assert 'task.scan("max", x, axis)' in str(caught.value)
