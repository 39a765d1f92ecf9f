"""A matrix turned: Y = X^T, tile by tile."""

from septran import task

EXAMPLE = {"M": 512, "N": 512}
CASES = ({"M": 100, "N": 70}, {"M": 256, "N": 300})


@task.define(leaf=True)
def turn(Y, X):
    task.copy(Y, X.T)


@task.define
def transpose(Y: task.Tensor["N", "M"], X: task.Tensor["M", "N"]):
    high, wide = task.tunable("block_M"), task.tunable("block_N")
    Yp, Xp = task.partition(Y, shape=(wide, high)), task.partition(X, shape=(high, wide))
    for i, j in task.parallel_range(*Xp.shape):
        task.launch(turn, Yp[j, i], Xp[i, j])
