"""Cumulative sum along the last axis: Y[i, j] = sum over k <= j of X[i, k].

X and Y [M, N], any float dtype; sums in float32 (float64 for float64), rounded once. With
`reverse` over k >= j, with `exclusive` without k = j. Rows come in tiles of columns, each
scanned by itself and added to the total of those before it. Source: Blelloch, Prefix Sums and
Their Applications, 1990; torch.cumsum.
"""

from septran import task

EXAMPLE = {"M": 256, "N": 4096}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512, "reverse": True},
    {"M": 3, "N": 1001, "exclusive": True, "dtype": "float16"},
)


@task.define(leaf=True)
def cumsum_tile(Y, X, total, *, reverse: bool, exclusive: bool):
    """Some columns of some rows, after those whose sums `total` has."""
    Y[:, :] = total[:, None] + task.cumsum(X, axis=1, reverse=reverse, exclusive=exclusive)
    # Not the last prefix of Y, which with `exclusive` lacks an element, and which is rounded.
    total[:] = total + task.sum(X, axis=1)


@task.define
def cumsum_rows(Y, X, *, reverse: bool, exclusive: bool):
    """Some rows, tile by tile from the end where the sums begin."""
    tile = (X.shape[0], task.tunable("block_width"))
    Yp, Xp = task.partition(Y, shape=tile), task.partition(X, shape=tile)
    total = task.zeros(X.shape[:1], task.compute_dtype(X.dtype), name="total")
    last = Xp.shape[1] - 1
    for k in task.sequential_range(Xp.shape[1]):
        at = last - k if reverse else k
        task.launch(cumsum_tile, Yp[0, at], Xp[0, at], total, reverse=reverse, exclusive=exclusive)


@task.define
def cumsum(
    Y: task.Tensor["M", "N"],
    X: task.Tensor["M", "N"],
    *,
    reverse: bool = False,
    exclusive: bool = False,
):
    """Rows in blocks, each on its own."""
    rows = task.tunable("block_height")
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(cumsum_rows, Yp[i, 0], Xp[i, 0], reverse=reverse, exclusive=exclusive)


BACKWARD = "cumsum_backward"
"""The operator that computes the gradient (`septran.torch`)."""
