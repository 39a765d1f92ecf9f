"""Error bounds of programs that carry what rounding left out, as compensated sums do."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.runtime.accuracy import compare, error_bounds
from septran.runtime.rounding import Bounded
from septran.runtime.shared_errors import MOST, ErrorSources, Labels, condensed, fresh, joined
from tests.tiers import slow_but

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-a100", "nvidia-h200")


@task.define(leaf=True)
def kahan_step(total, lost, x):
    y = task.empty(x.shape, name="y")
    t = task.empty(x.shape, name="t")
    y[:] = x - lost
    t[:] = total + y
    lost[:] = (t - total) - y
    total[:] = t


@task.define
def kahan_rows(Y, X):
    lost = task.zeros(Y.shape, name="lost")
    task.fill(Y, 0)
    for k in task.sequential_range(X.shape[0]):
        task.launch(kahan_step, Y, lost, X[k])


@task.define
def kahan(Y: task.Tensor["N"], X: task.Tensor["L", "N"]):
    """The sum of each column, by Kahan's algorithm."""
    n = task.tunable("block_N", 32)
    Yp, Xp = task.partition(Y, shape=(n,)), task.partition(X, shape=(X.shape[0], n))
    for j in task.parallel_range(Yp.shape[0]):
        task.launch(kahan_rows, Yp[j], Xp[0, j])


def columns(length, width, rng=0):
    """Large numbers first, then small ones, which a plain sum loses."""
    found = np.random.default_rng(rng).standard_normal((length, width)).astype(np.float32)
    found[0] = 1e4
    return found


def bound(X):
    L, N = X.shape
    tree = septran.trace(kahan, {"X": (L, N), "Y": (N,)}, {"X": "float32", "Y": "float32"})
    return error_bounds(tree, {"X": X})["Y"]


@pytest.mark.parametrize("length", [40, 150])
def test_a_compensated_sum_has_a_bound_for_any_number_of_terms(length):
    """A few roundings of the terms' magnitudes (Higham, Accuracy and Stability, equation 4.8)."""
    X = columns(length, 40)
    found, terms = bound(X), X.astype(np.float64)
    assert (found.error <= 4 * 2.0**-24 * np.abs(terms).sum(axis=0)).all()
    assert np.allclose(found.value, terms.sum(axis=0), rtol=1e-14, atol=0)


def test_a_plain_sum_is_found_wrong_where_a_compensated_one_is_promised():
    X = columns(600, 8)
    plain, limit = np.zeros(8, np.float32), bound(X)
    for row in X:
        plain += row
    assert compare("Y", X.astype(np.float64).sum(axis=0).astype(np.float32), limit).right
    assert not compare("Y", plain, limit).right


@pytest.mark.parametrize("machine", slow_but(["cpu-x86", "dsa-sim"], MACHINES))
def test_a_compensated_sum_is_compensated_on_every_machine(machine):
    kernel = septran.compile(kahan, machine, emulate=machine.startswith("nvidia"))
    X = columns(60, 40)
    found = kernel.check(X).raise_if_wrong()
    assert found.outputs[0].unknown == 0


def sources(*elements):
    """ErrorSources of elements that are written as tables of factors by label."""
    most = max(map(len, elements))
    pairs = [[*e.items(), *[(0, 0.0)] * (most - len(e))] for e in elements]
    labels, factors = np.moveaxis(np.array(pairs, float), 2, 0)
    return ErrorSources(labels.T.astype(int), factors.T)


def tables(found):
    """The same way back."""
    pairs = zip(found.labels.T, found.factors.T, strict=True)
    return [{int(n): f for n, f in zip(*pair, strict=True) if n} for pair in pairs]


def test_sources_of_one_label_are_added_and_cancel():
    x, y = sources({1: 1.0, 2: 2.0}, {3: 1.0}), sources({2: 2.0}, {4: 0.5, 3: 1.0})
    assert tables(joined(x, y)) == [{1: 1.0, 2: 4.0}, {3: 2.0, 4: 0.5}]
    assert tables(joined(x, y.scaled(-1.0))) == [{1: 1.0}, {4: -0.5}]


def test_of_many_sources_the_greatest_are_kept_and_the_others_are_errors_still():
    many = sources({n: float(n) for n in range(1, MOST + 3)})
    kept = joined(many)
    assert min(tables(kept)[0]) == 3
    x = Bounded(np.zeros(1), many.reach, "float32", kept)
    assert x.rest == 3.0


def test_what_one_element_alone_has_is_joined_and_what_others_have_is_not():
    x, y = sources({1: 1.0, 2: -2.0, 3: 4.0}, {4: 1.0}), sources({3: 4.0}, {4: -1.0})
    one, two = condensed([x, y], Labels(10))
    assert tables(one) == [{3: 4.0, 10: 3.0}, {4: 1.0}]
    assert tables(two) == tables(y)


def test_sources_are_broadcast_as_arrays_are():
    row, column = fresh(np.ones(3), Labels()), fresh(np.ones((2, 1)), Labels(4))
    assert joined(row, column).reach.shape == (2, 3)
    assert row.where(np.ones((2, 1), bool)).labels[0].tolist() == [[1, 2, 3]] * 2
