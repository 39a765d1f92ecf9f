"""Softmax of the k greatest of each row, where they are; zeros elsewhere.

X and P [R, C]. The places of the greatest are found, and nobody asks for them.
"""

from septran import task

EXAMPLE = {"R": 256, "C": 200}
CASES = ({"R": 37, "C": 50}, {"R": 64, "C": 130})


@task.define(leaf=True)
def keep(P, X, best):
    lowest = task.min(best, axis=1)
    top = task.max(best, axis=1)
    e = task.empty(X.shape, task.float32, name="e")
    e[:, :] = task.where(lowest[:, None] <= X, task.exp(X - top[:, None]), 0.0)
    P[:, :] = e / task.sum(e, axis=1)[:, None]


@task.define(leaf=True)
def best_of(best, at, X):
    task.topk(best, at, X)


@task.define
def some(P, X, *, k: int):
    best = task.empty((X.shape[0], k), X.dtype, name="best")
    at = task.empty((X.shape[0], k), task.int64, name="at")
    task.launch(best_of, best, at, X)
    task.launch(keep, P, X, best)


@task.define
def greatest_softmax(P: task.Tensor["R", "C"], X: task.Tensor["R", "C"], *, k: int = 5):
    rows = task.tunable("few")
    Pp, Xp = (task.partition(t, shape=(rows, t.shape[1])) for t in (P, X))
    for i in task.parallel_range(Pp.shape[0]):
        task.launch(some, Pp[i, 0], Xp[i, 0], k=k)
