"""The antisymmetric part of square blocks: Y[b] = X[b] - X[b]^T, computed in a temporary."""

from septran import task

EXAMPLE = {"B": 4, "N": 64}
CASES = ({"B": 3, "N": 64}, {"B": 2, "N": 100})


@task.define(leaf=True)
def part(Y, X):
    t = task.empty(X.shape, name="t")
    t[:, :] = X * 0.5
    t[:, :] = t - t.T
    Y[:, :] = t


@task.define
def antisymmetric(Y: task.Tensor["B", "N", "N"], X: task.Tensor["B", "N", "N"]):
    for b in task.parallel_range(Y.shape[0]):
        task.launch(part, Y[b], X[b])
