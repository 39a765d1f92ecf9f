"""Scans by a function of the logic: what they mean, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task
from septran.task.errors import CompositeTouchesDataError, ScanError, ShapeError, TunableError
from septran.task.tree import Loop, statements

RANDOM = np.random.default_rng(0)
A = RANDOM.uniform(0.3, 1, (5, 9))
X = RANDOM.standard_normal((5, 9))


def follow(earlier, later):
    (a, x), (c, z) = earlier, later
    return a * c, c * x + z


def stepped(a, x, axis, reverse=False, exclusive=False):
    """Y[t] = a[t] * Y[t - 1] + x[t], step by step."""
    a, x = (np.moveaxis(v, axis, 0)[:: -1 if reverse else 1] for v in (a, x))
    state, found = np.zeros_like(x[0]), []
    for t in range(len(x)):
        before, state = state, a[t] * state + x[t]
        found.append(before if exclusive else state)
    return np.moveaxis(np.array(found)[:: -1 if reverse else 1], 0, axis)


def entry_of(body):
    """A task of one leaf, with two inputs."""
    leaf = task.define(leaf=True)(body)

    @task.define
    def entry(Y: task.Tensor["M", "N"], A: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        task.launch(leaf, Y, A, X)

    return entry


def of_leaf(body, *arrays, **tunables):
    return task.run(entry_of(body), *arrays, dtype="float64", chooser=task.DefaultChooser(tunables))


@pytest.mark.parametrize("way", ["doubled", "stepped"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_pairs_are_joined_in_order(way, axis, reverse, exclusive):
    def body(Y, A, X):
        first = (1, 0) if exclusive else None
        _, found = task.scan(follow, (A, X), axis, reverse, exclusive, identity=first)
        Y[:, :] = found

    found = of_leaf(body, A, X, scan=way)
    np.testing.assert_allclose(found, stepped(A, X, axis, reverse, exclusive), rtol=1e-12)


@pytest.mark.parametrize("way", ["doubled", "stepped"])
def test_one_tensor_is_joined_by_a_function_of_two(way):
    def lse(x, y):
        most = task.maximum(x, y)
        return most + task.log(task.exp(x - most) + task.exp(y - most))

    def body(Y, A, X):
        Y[:, :] = task.scan(lse, X * 2, axis=0, exclusive=True, identity=-task.inf)

    found = of_leaf(body, A, X, scan=way)
    assert np.all(found[0] == -np.inf)
    np.testing.assert_allclose(found[1:], np.logaddexp.accumulate(X * 2)[:-1], rtol=1e-12)


def test_sums_begin_again_where_a_flag_is_set():
    def begin(earlier, later):
        (f, x), (g, y) = earlier, later
        return task.maximum(f, g), task.where(g > 0, y, x + y)

    def body(Y, A, X):
        Y[:, :] = task.scan(begin, (task.where(A > 0.8, 1, 0), X), axis=1)[1]

    wanted = X.copy()
    for n in range(1, 9):
        wanted[:, n] += np.where(A[:, n] > 0.8, 0, wanted[:, n - 1])
    np.testing.assert_allclose(of_leaf(body, A, X), wanted, rtol=1e-12)


def test_what_has_no_axis_of_the_scan_is_read_besides():
    def body(Y, A, X):
        def weighted(x, y):
            return x + y + 0 * A[0]

        Y[:, :] = task.scan(weighted, X, axis=0)

    np.testing.assert_allclose(of_leaf(body, A, X), np.cumsum(X, 0), rtol=1e-12)


def test_what_is_scanned_is_as_it_was_where_the_scan_stands():
    def body(Y, A, X):
        Y[:, :] = X
        _, found = task.scan(follow, (A, Y), axis=0)
        Y[:, :] = 0
        Y[:, :] = Y + found

    np.testing.assert_allclose(of_leaf(body, A, X), stepped(A, X, 0), rtol=1e-12)


def test_smaller_extents_are_repeated():
    def body(Y, A, X):
        Y[:, :] = task.scan(follow, (A[:, 0][:, None], X), axis=1)[1]

    wanted = stepped(np.broadcast_to(A[:, :1], X.shape), X, 1)
    np.testing.assert_allclose(of_leaf(body, A, X), wanted, rtol=1e-12)


def test_a_scan_inside_of_a_scan():
    def body(Y, A, X):
        Y[:, :] = task.scan(follow, (A, task.cumsum(X, axis=0)), axis=1)[1]

    np.testing.assert_allclose(of_leaf(body, A, X), stepped(A, np.cumsum(X, 0), 1), rtol=1e-12)


@pytest.mark.parametrize(("axis", "loops"), [(0, 1), (1, 0)])
def test_what_lies_side_by_side_is_joined_all_at_a_time(axis, loops):
    def body(Y, A, X):
        Y[:, :] = task.scan(follow, (A, X), axis)[1]

    tree = task.trace(entry_of(body), {"Y": (5, 9), "A": (5, 9), "X": (5, 9)})
    leaf = tree.root.body[0].task
    assert sum(isinstance(s, Loop) for s in statements(leaf.body)) == loops


def test_a_first_place_that_is_alone_has_nothing_before_it():
    def body(Y, A, X):
        Y[:, :] = task.scan(task.minimum, X, axis=0, exclusive=True, identity=7)

    np.testing.assert_array_equal(of_leaf(body, A[:1], X[:1]), np.full((1, 9), 7.0))


def test_an_exclusive_scan_begins_with_an_element():
    def body(Y, A, X):
        Y[:, :] = task.scan(task.minimum, X, axis=0, exclusive=True, identity=A[0, 0] * 9)

    found = of_leaf(body, A, X)
    np.testing.assert_array_equal(found[0], np.full(9, A[0, 0] * 9))
    np.testing.assert_array_equal(found[1:], np.minimum.accumulate(X)[:-1])


def test_an_identity_may_be_beyond_short_floats():
    def body(Y, A, X):
        Y[:, :] = task.scan(task.minimum, X, axis=0, exclusive=True, identity=1e300)

    np.testing.assert_array_equal(of_leaf(body, A, X)[0], np.full(9, 1e300))


def begun(x, identity, function=lambda x, y: x + y):
    return task.scan(function, x, axis=0, exclusive=True, identity=identity)


REFUSED = {
    "is not associative: of": lambda A, X: task.scan(lambda x, y: (x + y) / 2, X, 0),
    "is not associative": lambda A, X: task.scan(lambda x, y: (x[0] - y[0], y[1]), (X, A), 0)[0],
    "of 2 tensors returns 1": lambda A, X: task.scan(lambda x, y: x[0] + y[0], (A, X), 0)[0],
    "of one tensor returns 2 values": lambda A, X: task.scan(lambda x, y: (x, y), (X,), 0)[0],
    "in no tuple returns a tuple": lambda A, X: task.scan(lambda x, y: (x + y,), X, 0),
    "makes float32 of int32": lambda A, X: task.scan(
        lambda x, y: x * 0.5 + y, X.astype(task.int32), 0
    ),
    r"makes \(9,\) of": lambda A, X: task.scan(lambda x, y: task.sum(y, 0), X, 0),
    "of one tensor begins with nothing": lambda A, X: begun(X, None),
    "of 2 tensors begins with one value": lambda A, X: task.scan(
        follow, (A, X), 0, exclusive=True, identity=1
    )[0],
    "begins with a tensor of 2 axes": lambda A, X: begun(X, A),
    "begins with a str": lambda A, X: begun(X, "0"),
    "of int32 begins with inf": lambda A, X: begun(X.astype(task.int8), task.inf, task.minimum),
    "with 0.5, which int32 does not have": lambda A, X: begun(X.astype(task.int8), 0.5),
    "of int32 begins with float64": lambda A, X: begun(X.astype(task.int8), A[0, 0]),
    "with 1e[+]300, which float32": lambda A, X: begun(X.astype(task.float32), 1e300),
    r"identity \(5\) of a scan changes something: of it and": lambda A, X: begun(X, 5),
    r"identity \(nan\)": lambda A, X: begun(X, task.inf - task.inf),
    r"identity \(0\)": lambda A, X: begun(X, 0, lambda x, y: x * y),
    r"identity \(1, 7\)": lambda A, X: task.scan(
        follow, (A, X), axis=0, exclusive=True, identity=(1, 7)
    )[1],
    "is not exclusive has an identity": lambda A, X: task.scan(
        lambda x, y: x + y, X, axis=0, identity=0
    ),
    "'sum' has an identity": lambda A, X: task.scan("sum", X, 0, exclusive=True, identity=0),
    "with parts": lambda A, X: task.scan(lambda x, y: x + y + A, X, 1),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_a_function_that_joins_nothing_is_refused(message):
    def body(Y, A, X):
        Y[:, :] = REFUSED[message](A, X)

    with pytest.raises(ScanError, match=message) as caught:
        of_leaf(body, A, X)
    assert caught.value.where
    assert caught.value.hint


@pytest.mark.parametrize(
    ("scan", "error"),
    [
        (lambda A, X: task.scan(follow, (A, X), 2), ShapeError),
        (lambda A, X: task.scan(follow, (), 0), ShapeError),
        (lambda A, X: task.scan(follow, (A[:, :3], X), 0), ShapeError),
    ],
)
def test_axes_and_extents_that_do_not_fit_are_refused(scan, error):
    def body(Y, A, X):
        Y[:, :] = scan(A, X)[1]

    with pytest.raises(error):
        of_leaf(body, A, X)


def test_the_way_is_one_of_two():
    def body(Y, A, X):
        Y[:, :] = task.scan(follow, (A, X), 0)[1]

    with pytest.raises(TunableError, match="doubled or stepped"):
        of_leaf(body, A, X, scan="twice")


def test_a_composite_scans_nothing():
    @task.define
    def entry(Y: task.Tensor["M"], X: task.Tensor["M"]):
        task.fill(Y, 0)
        task.scan(lambda x, y: x + y, X, 0)

    with pytest.raises(CompositeTouchesDataError):
        task.run(entry, X[0])


FUNCTIONS = {
    "quaternions": lambda p, q: (
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
        p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
    ),
    "moments": lambda p, q: (
        p[0] + q[0],
        (p[0] * p[1] + q[0] * q[1]) / (p[0] + q[0]),
        p[2] + q[2] + (q[1] - p[1]) ** 2 * p[0] * q[0] / (p[0] + q[0]),
    ),
    "first of the greatest": lambda p, q: (
        task.where(p[0] >= q[0], p[0], q[0]), task.where(p[0] >= q[0], p[1], q[1]),
    ),
    "clipped": lambda p, q: (
        task.minimum(task.maximum(p[0], q[0]), q[1]), task.minimum(task.maximum(p[1], q[0]), q[1])
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_join_groups_are_taken(name):
    count = {"quaternions": 4, "moments": 3}.get(name, 2)

    def body(Y, A, X):
        Y[:, :] = task.scan(FUNCTIONS[name], (A, X, X + 1, A * 2)[:count], 1)[0]

    assert np.isfinite(of_leaf(body, A, X)).all()


def flagged(join):
    """A function of flags and numbers, the numbers joined as sums that begin again."""
    return lambda p, q: (join(p[0], q[0]), p[1] * (1 - q[0]) + q[1])


def begin_again(p, q):
    return p[0] + q[0] - p[0] * q[0], task.where(q[0] != 0, q[1], p[1] + q[1])


OF_FLAGS = {
    "mask": lambda A, X: task.scan(flagged(task.maximum), (task.where(A > 0.8, 1, 0), X), 1),
    "truth": lambda A, X: task.scan(flagged(task.maximum), (A > 0.8, X), 1),
    "integers": lambda A, X: task.scan(flagged(task.maximum), (A.astype(task.int32), X), 1),
    "compared": lambda A, X: task.scan(begin_again, (task.floor(A), X), 1),
    "masks alone": lambda A, X: task.scan(
        lambda p, q: (abs(p[0] - q[0]), p[1] * q[1]), (A > 0.5, X > 0), 1
    ),
}


@pytest.mark.parametrize("name", OF_FLAGS)
def test_what_joins_groups_of_flags_is_taken_of_flags(name):
    def body(Y, A, X):
        Y[:, :] = OF_FLAGS[name](A, X)[1]

    one = of_leaf(body, A, X, scan="stepped")
    np.testing.assert_allclose(of_leaf(body, A, X, scan="doubled"), one, rtol=1e-12)


NO_GROUPS = {
    "distance": lambda A, X: task.scan(lambda x, y: abs(x - y), X, 0),
    "distance of integers": lambda A, X: task.scan(
        lambda x, y: abs(x - y), X.astype(task.int32), 0
    ),
    "difference": lambda A, X: task.scan(lambda x, y: x - y, X, 0),
    "mean": lambda A, X: task.scan(lambda x, y: (x + y) / 2, X, 0),
    "right of positive numbers": lambda A, X: task.scan(lambda x, y: x + abs(y), X, 0),
    "right of flags": lambda A, X: task.scan(flagged(task.maximum), (A, X), 0)[1],
    "compared alone": lambda A, X: task.scan(
        lambda x, y: task.where(y > 0, abs(x - y), abs(x - y)), X, 0
    ),
    "numbers beside flags": lambda A, X: task.scan(
        lambda p, q: (task.maximum(p[0], q[0]), abs(p[1] - q[1])), (A > 0.5, X), 0
    )[1],
    "flags that become numbers": lambda A, X: task.scan(
        lambda p, q: (abs(p[0] - 2 * q[0]), p[1] + q[1]), (A > 0.5, X), 0
    )[1],
}


@pytest.mark.parametrize("name", NO_GROUPS)
def test_what_joins_groups_of_some_numbers_alone_is_refused(name):
    def body(Y, A, X):
        Y[:, :] = NO_GROUPS[name](A, X)

    with pytest.raises(ScanError, match="is not associative: of"):
        of_leaf(body, A, X)


BEGINNINGS = {
    "segmented": (lambda A, X: (task.where(A > 0.8, 1, 0), X), (0, 0)),
    "quaternions": (lambda A, X: (A, X, X + 1, A * 2), (1, 0, 0, 0)),
    "moments": (lambda A, X: (A, X, X * 0), (0, 0, 0)),
    "first of the greatest": (lambda A, X: (A, X), (-task.inf, 0)),
    "clipped": (lambda A, X: (X, X + A), (-task.inf, task.inf)),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_what_changes_nothing_begins(name):
    scanned, identity = BEGINNINGS[name]
    function = FUNCTIONS.get(name, flagged(task.maximum))

    def body(Y, A, X):
        given = scanned(A, X)
        Y[:, :] = task.scan(function, given, 1, exclusive=True, identity=identity)[0]

    np.testing.assert_array_equal(of_leaf(body, A, X)[:, 0], np.full(5, float(identity[0])))
