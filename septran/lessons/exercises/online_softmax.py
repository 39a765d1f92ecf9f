"""An online softmax that forgets to rescale what it has summed so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from septran import task
from septran.lessons.goals import agrees, right
from septran.lessons.lesson import Lesson


@task.define(leaf=True)
def start_sums(m, l):
    """No element seen so far."""
    m[:] = -task.inf
    l[:] = 0.0


@task.define(leaf=True)
def fold_wrong(m, l, X):
    """Fold some columns into the greatest element and the sum of exponentials."""
    new = task.empty(m.shape, name="new")
    new[:] = task.maximum(m, task.max(X, axis=1))
    l[:] = l + task.sum(task.exp(X - new[:, None]), axis=1)
    m[:] = new


@task.define(leaf=True)
def fold_right(m, l, X):
    """The same: what was summed before belongs to the old maximum."""
    new = task.empty(m.shape, name="new")
    new[:] = task.maximum(m, task.max(X, axis=1))
    l[:] = l * task.exp(m - new) + task.sum(task.exp(X - new[:, None]), axis=1)
    m[:] = new


@task.define(leaf=True)
def finish(L, m, l):
    """The logarithm of the sum."""
    L[:] = m + task.log(l)


def _logic(fold: Any) -> Any:
    @task.define
    def some_rows(L, X):
        Xp = task.partition(X, shape=(X.shape[0], task.tunable("block_N")))
        m, l = task.empty(L.shape, name="m"), task.empty(L.shape, name="l")
        task.launch(start_sums, m, l)
        for j in task.sequential_range(Xp.shape[1]):
            task.launch(fold, m, l, Xp[0, j])
        task.launch(finish, L, m, l)

    @task.define
    def log_sum_exp(L: task.Tensor["M"], X: task.Tensor["M", "N"]):
        """L[i] = log(sum of exp(X[i, j]) over j), columns in blocks."""
        rows = task.tunable("block_M")
        Lp = task.partition(L, shape=(rows,))
        Xp = task.partition(X, shape=(rows, X.shape[1]))
        for i in task.parallel_range(Lp.shape[0]):
            task.launch(some_rows, Lp[i], Xp[i, 0])

    return log_sum_exp


def _reference(x: Any) -> Any:
    m = x.max(axis=1)
    return m + np.log(np.exp(x - m[:, None]).sum(axis=1))


LESSON = Lesson(
    title="Rescale what was summed",
    story="The logarithm of a sum of exponentials, a block of columns at a time: one pass over X, "
    "as flash attention does it. Each block may bring a new maximum, and the sum so far belongs "
    "to the old one. The fold forgets that.",
    logic=_logic(fold_wrong),
    mapping="machine: dsa-sim\nextends: dsa-sim.mapping.yaml\n",
    mends="logic",
    goals=(
        agrees(
            "the result is that of two passes",
            _reference,
            lambda: (3 * np.random.default_rng(0).standard_normal((40, 150)),),
            hint="with the new maximum m', the old sum is worth l * exp(m - m')",
        ),
        right(),
    ),
    solution=_logic(fold_right),
    shapes={"M": 40, "N": 150},
)
