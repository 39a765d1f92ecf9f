"""The last two axes change places: Y[b, j, i] = X[b, i, j].

X [B, M, N], Y [B, N, M] of any dtype. Source: numpy.swapaxes, torch.transpose (definition).
"""

from septran import task

EXAMPLE = {"B": 1, "M": 1024, "N": 512}
CASES = (
    {"B": 2, "M": 40, "N": 70},
    {"B": 1, "M": 128, "N": 512},
    {"B": 3, "M": 1, "N": 501, "dtype": "float16"},
)


@task.define(leaf=True)
def transpose_tile(Y, X):
    """One tile, which X is a transposed view of."""
    Y[:, :] = X


def _turned(Y, X):
    """Tiles of each matrix, each on its own."""
    tile = (1, task.tunable("block_height"), task.tunable("block_width"))
    Yp, Xp = (task.partition(x, shape=tile) for x in (Y, X.transpose(0, 2, 1)))
    for b, i, j in task.parallel_range(Yp.shape):
        task.launch(transpose_tile, Yp[b, i, j][0], Xp[b, i, j][0])


@task.define
def transpose(Y: task.Tensor["B", "N", "M"], X: task.Tensor["B", "M", "N"]):
    """Each matrix transposed."""
    _turned(Y, X)


@task.define
def transpose_back(dX: task.Tensor["B", "M", "N"], dY: task.Tensor["B", "N", "M"]):
    """The gradient: each matrix transposed back."""
    _turned(dX, dY)


BACKWARD = transpose_back
