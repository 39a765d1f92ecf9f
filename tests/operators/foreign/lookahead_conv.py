"""Lookahead convolution of speech models: Y[t, d] = sum over i of F[d, i] * X[d, t + i].

X and Y [D, T], F [D, W]; behind the end are zeros.
"""

from septran import task

EXAMPLE = {"D": 64, "T": 200, "W": 5}
CASES = ({"D": 9, "T": 37, "W": 3}, {"D": 33, "T": 130, "W": 8})


@task.define(leaf=True)
def some(Y, X, F):
    Y[:, :] = task.sum(X * F[:, None, :], axis=2)


@task.define
def lookahead_conv(Y: task.Tensor["D", "T"], X: task.Tensor["D", "T"], F: task.Tensor["D", "W"]):
    wide = F.shape[1]
    seen = task.window(X, size=wide, padding=((0, wide - 1),))
    high, long = task.tunable("block_M", 8), task.tunable("block_N", 32)
    Yp = task.partition(Y, shape=(high, long))
    Xp = task.partition(seen, shape=(high, long, wide))
    Fp = task.partition(F, shape=(high, wide))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(some, Yp[i, j], Xp[i, j, 0], Fp[i, 0])
