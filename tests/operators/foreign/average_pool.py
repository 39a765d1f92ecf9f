"""Means of windows of 3 x 3: Y[c] = X[c] pooled with stride 2, zeros around it counted.

X [C, H, W], Y [C, (H - 1) // 2 + 1, (W - 1) // 2 + 1].
"""

from septran import task

EXAMPLE = {"C": 8, "H": 32, "W": 32}
CASES = ({"C": 3, "H": 15, "W": 20}, {"C": 2, "H": 56, "W": 56})


@task.define(leaf=True)
def mean(Y, X):
    seen = task.window(X, (3, 3), 2, 1)  # [P, Q, 3, 3]
    Y[:, :] = task.sum(task.sum(seen, axis=3), axis=2) / 9


@task.define
def average_pool(
    Y: task.Tensor["C", "(H - 1) // 2 + 1", "(W - 1) // 2 + 1"], X: task.Tensor["C", "H", "W"]
):
    for c in task.parallel_range(Y.shape[0]):
        task.launch(mean, Y[c], X[c])
