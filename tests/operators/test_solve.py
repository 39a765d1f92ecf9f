"""Triangular systems of a tile, on every machine, and the bound of their errors."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.runtime.accuracy import compare, error_bounds
from septran.runtime.rounding import Bounded, exact, solved
from septran.task.errors import DtypeError, LaunchArgumentsError, ShapeError
from tests.tiers import slow_but

GPUS = ("nvidia-a100", "nvidia-h200")
MACHINES = slow_but(
    ["cpu-x86", "dsa-sim", "npu-cube", GPUS[1]], ["cpu-x86", "dsa-sim", "npu-cube", *GPUS]
)


@task.define(leaf=True)
def columns(X, L, B, *, unit: bool):
    """Some right sides."""
    task.solve_triangular(X, L, B, unit=unit)


@task.define
def solve(X: task.Out["N", "M"], L: task.In["N", "N"], B: task.In["N", "M"], *, unit: bool = False):
    """Blocks of right sides, each on its own."""
    width = task.tunable("block_width", 32)
    Xp, Bp = (task.partition(t, shape=(t.shape[0], width)) for t in (X, B))
    for j in task.parallel_range(Xp.shape[1]):
        task.launch(columns, Xp[0, j], L, Bp[0, j], unit=unit)


def system(n, m, dtype="float32", spread=1.0):
    rng = np.random.default_rng(0)
    lower = np.tril(spread * rng.standard_normal((n, n)) / n, -1) + np.diag(rng.uniform(1, 2, n))
    return lower.astype(dtype), rng.standard_normal((n, m)).astype(dtype)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.one_in(3)
def test_a_system_is_solved(machine, unit):
    kernel = septran.compile(
        solve, machine, shapes={"N": 11, "M": 70}, static={"unit": unit},
        emulate=machine in GPUS,
    )  # fmt: skip
    lower, right = system(11, 70)
    whole = np.tril(lower, -1) + np.eye(11) if unit else lower
    check = kernel.check(lower, right)
    assert check.right, str(check)
    # What is above the diagonal is not read, nor is a diagonal that is taken for ones.
    unread = np.triu(np.full((11, 11), np.nan, "float32"), 0 if unit else 1)
    found = kernel(np.where(np.isnan(unread), unread, lower), right).astype(float)
    (exact,) = error_bounds(
        kernel.stages.task_tree, {"L": lower, "B": right, "X": np.zeros_like(right)}
    ).values()
    assert compare("X", found, exact).right
    assert compare("X", np.linalg.solve(whole.astype(float), right), exact).worst < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "nvidia-h200"])
@pytest.mark.parametrize("sizes", [{"N": 1, "M": 5}, {"N": 2, "M": 1}, {"N": 64, "M": 130}])
def test_systems_of_other_sizes(machine, sizes):
    emulated = machine in GPUS
    kernel = septran.compile(solve, machine, shapes=sizes, emulate=emulated)
    check = kernel.check(*system(*sizes.values()))
    assert check.right, str(check)


@task.define(leaf=True)
def solved_and_left(Y, L, B):
    """A system whose solution nothing reads."""
    S = task.empty(B.shape, task.float32, name="S")
    task.solve_triangular(S, L, B, unit=True)
    Y[:, :] = task.tanh(B)


@task.define
def leave(Y: task.Out["N", "M"], L: task.In["N", "N"], B: task.In["N", "M"]):
    task.launch(solved_and_left, Y, L, B)


def test_a_solution_that_nothing_reads():
    """Of one equation that is a move across into a buffer that has no memory."""
    kernel = septran.compile(leave, "cpu-x86", shapes={"N": 1, "M": 1})
    check = kernel.check(*system(1, 1))
    assert check.right, str(check)


def test_whole_numbers_are_exact():
    lower = np.tril(np.arange(36).reshape(6, 6) % 5 - 2, -1).astype("float32") + np.eye(
        6, dtype="f"
    )
    wanted = np.arange(18, dtype="float32").reshape(6, 3)
    found = septran.compile(solve, "cpu-x86")(lower, lower @ wanted)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bound_holds_for_other_orders_and_not_for_mistakes(dtype):
    lower, right = system(24, 5, dtype, spread=8.0)
    tree = task.trace(solve, {"X": (24, 5), "L": (24, 24), "B": (24, 5)}, {n: dtype for n in "XLB"})
    given = {"L": lower, "B": right, "X": np.zeros_like(right)}
    (expected,) = error_bounds(tree, given).values()
    by_rows = np.zeros_like(right)
    for i in range(24):  # by rows, sums from their last term on
        total = np.zeros(5, dtype)
        for j in reversed(range(i)):
            total = total + lower[i, j] * by_rows[j]
        by_rows[i] = (right[i] - total) / lower[i, i]
    verdict = compare("X", by_rows, expected)
    assert verdict.right, str(verdict)
    assert verdict.worst > 1e-3  # the bound is not so wide that it says nothing
    lower[20, 3] = 0  # one product is left out
    (wrong,) = error_bounds(tree, given).values()
    assert not compare("X", wrong.value.astype(dtype), expected).right


def test_a_diagonal_that_may_be_zero_promises_nothing():
    lower, right = np.array([[1.0, 0.0], [1.0, 0.5]]), np.ones((2, 1))
    doubt = Bounded(lower, np.array([[0.0, 0.0], [0.0, 0.6]]), "float32")
    found = solved(doubt, Bounded(right, 0 * right, "float32"), "float32", unit=False)
    assert np.isfinite(found.error[0]).all()
    assert np.isinf(found.error[1]).all()
    sure = solved(exact(lower), exact(right), "float32", unit=False)
    assert np.isfinite(sure.error).all()


@pytest.mark.parametrize(
    ("shapes", "dtype", "error", "words"),
    [
        ({"X": (4, 5), "L": (4, 4), "B": (4, 5)}, "float16", DtypeError, "X float16"),
        ({"X": (4, 5), "L": (4, 4), "B": (4, 5)}, "int32", DtypeError, "X int32"),
        ({"X": (4, 5), "L": (4, 3), "B": (4, 5)}, "float32", ShapeError, "extents of n differ"),
    ],
)
def test_other_types_and_shapes_are_refused(shapes, dtype, error, words):
    @task.define(leaf=True)
    def tile(X, L, B):
        task.solve_triangular(X, L, B)

    with pytest.raises(error, match=words):
        task.trace(tile, shapes, dict.fromkeys(shapes, dtype))


def test_a_factor_that_is_overwritten_is_refused():
    @task.define(leaf=True)
    def tile(L, B):
        task.solve_triangular(L, L, B)

    with pytest.raises(LaunchArgumentsError, match="writes L while it reads it"):
        task.trace(tile, {"L": (4, 4), "B": (4, 4)})
