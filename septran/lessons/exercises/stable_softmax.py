"""A softmax that overflows where its reference in float64 does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from septran import task
from septran.lessons.goals import agrees, right
from septran.lessons.lesson import Lesson


@task.define(leaf=True)
def naive_rows(Y, X):
    """Some rows: exponentials, over their sum."""
    e = task.empty(X.shape, name="e")
    e[:, :] = task.exp(X)
    Y[:, :] = e / task.sum(e, axis=1)[:, None]


@task.define(leaf=True)
def stable_rows(Y, X):
    """The same; no exponent is above 0."""
    e = task.empty(X.shape, name="e")
    e[:, :] = task.exp(X - task.max(X, axis=1)[:, None])
    Y[:, :] = e / task.sum(e, axis=1)[:, None]


def _logic(leaf: Any) -> Any:
    @task.define
    def row_softmax(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        """exp(X) over the sum of each row."""
        rows = task.tunable("block_M")
        Yp = task.partition(Y, shape=(rows, Y.shape[1]))
        Xp = task.partition(X, shape=(rows, X.shape[1]))
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(leaf, Yp[i, 0], Xp[i, 0])

    return row_softmax


def _reference(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _large() -> tuple[Any, ...]:
    """Values like those of attention scores that nobody scaled."""
    return ((60 * np.random.default_rng(0).standard_normal((33, 50))).astype(np.float32),)


LESSON = Lesson(
    title="A softmax for large values",
    story="This softmax is right for random numbers, and its check says so. With scores of some "
    "hundreds the exponentials overflow in float32. Mend the leaf.",
    logic=_logic(naive_rows),
    mapping="machine: cpu-x86\nextends: cpu-x86.mapping.yaml\n",
    mends="logic",
    goals=(
        right(),
        agrees(
            "in float32 it is right for scores of some hundreds, too", _reference, _large,
            within=1e-5, dtype=None,
            hint="subtracting one number from a whole row changes nothing: which one is safe?",
        ),
    ),
    solution=_logic(stable_rows),
    shapes={"M": 33, "N": 50},
)  # fmt: skip
