"""The greatest element of each window and its place: Y[b, c, p, q] = max over r, s of X[b, c, ...].

As `pool2d` with `function` ``max``; I [B, C, P, Q], of int64, says where in its channel of X each
lies, counted row by row: the first one of equals, the last NaN if there is one. It is what a
gradient and an unpooling take. Source: torch.nn.functional.max_pool2d(.., return_indices=True).
"""

from septran import task
from septran.operators.pool2d_backward import choose_block

EXAMPLE = {"B": 1, "C": 64, "H": 56, "W": 56}
CASES = (
    {"B": 2, "C": 3, "H": 11, "W": 13, "size": 2},
    {"B": 1, "C": 16, "H": 28, "W": 28, "padding": 1},
    {"B": 1, "C": 5, "H": 15, "W": 9, "stride": 1, "padding": 1, "dtype": "float16"},
)


@task.define
def max_pool2d_indices(
    Y: task.Tensor[
        "B", "C", "(H + 2*padding - size) // stride + 1", "(W + 2*padding - size) // stride + 1"
    ],
    I: task.Tensor[
        "B", "C", "(H + 2*padding - size) // stride + 1", "(W + 2*padding - size) // stride + 1",
        task.int64,
    ],
    X: task.Tensor["B", "C", "H", "W"],
    *,
    size: task.static = 3,
    stride: task.static = 2,
    padding: task.static = 0,
):  # fmt: skip
    """Each image, channel and block of places on its own."""
    windows = task.window(X, (size, size), stride, padding)
    tile = (1, 1, task.tunable("block_height"), task.tunable("block_width"))
    Yp, Ip = task.partition(Y, shape=tile), task.partition(I, shape=tile)
    Xp = task.partition(windows, shape=(*tile, size, size))
    for b, c, i, j in task.parallel_range(Yp.shape):
        parts = Ip[b, c, i, j][0, 0], Yp[b, c, i, j][0, 0], Xp[b, c, i, j, 0, 0][0, 0]
        task.launch(choose_block, *parts, width=X.shape[3])


BACKWARD = "max_pool2d_indices_backward"
"""The operator that computes the gradient (`septran.torch`)."""
