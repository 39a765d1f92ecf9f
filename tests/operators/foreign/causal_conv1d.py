"""A short causal convolution of each channel: silu(sum over r of X[c, t + r] W[c, r]).

X with three zeros before it [C, T + 3], W [C, 4], Y [C, T], as in Mamba.
"""

from septran import task

EXAMPLE = {"C": 64, "T": 512}
CASES = ({"C": 64, "T": 130}, {"C": 7, "T": 1000})


@task.define(leaf=True)
def taps(Y, X, W):
    seen = task.window(X, (W.shape[1],))  # [C, T, 4]
    Y[:, :] = task.silu(task.sum(seen * W[:, None, :], axis=2))


@task.define
def causal_conv1d(Y: task.Tensor["C", "T"], X: task.Tensor["C", "T + 3"], W: task.Tensor["C", 4]):
    rows = task.tunable("block_C")
    Yp, Xp, Wp = (task.partition(x, shape=(rows, x.shape[1])) for x in (Y, X, W))
    for c in task.parallel_range(Yp.shape[0]):
        task.launch(taps, Yp[c, 0], Xp[c, 0], Wp[c, 0])
