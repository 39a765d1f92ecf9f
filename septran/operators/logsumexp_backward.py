"""Gradient of logsumexp: dX[i, j] = dY[i] * exp(X[i, j] - Y[i]), the row's softmax.

X and dX [M, N], Y and dY [M], any float dtype; Y is logsumexp's output. A row of -inf, or one with
an inf, has NaN where X - Y is no number, as in torch. Source: torch's tools/autograd/
derivatives.yaml, logsumexp.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 4096}
CASES = (
    {"M": 70, "N": 150},
    {"M": 128, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def logsumexp_backward_tile(dX, X, Y, dY):
    """One tile."""
    dX[:, :] = dY[:, None] * task.exp(X - Y[:, None])


@task.define
def logsumexp_backward(
    dX: task.Tensor["M", "N"],
    X: task.Tensor["M", "N"],
    Y: task.Tensor["M"],
    dY: task.Tensor["M"],
):
    """Tiles, each on its own."""
    tile = (task.tunable("block_height"), task.tunable("block_width"))
    dXp, Xp = task.partition(dX, shape=tile), task.partition(X, shape=tile)
    Yp, dYp = (task.partition(T, shape=tile[:1]) for T in (Y, dY))
    for i, j in task.parallel_range(dXp.shape):
        task.launch(logsumexp_backward_tile, dXp[i, j], Xp[i, j], Yp[i], dYp[i])
