"""The greatest or the mean element of each window: Y[b, c, p, q] = f over r, s of X[b, c, ...].

X [B, C, H, W], Y [B, C, P, Q], any float dtype, P = (H + 2*padding - size) // stride + 1 and Q
likewise. `function` is ``max``, of the elements of a window that there are (NaN if one is), or
``mean``, whose sum takes what lies outside for zeros and divides by all places, in float32
(float64 for float64). Source: torch.nn.functional.max_pool2d, avg_pool2d (definition).
"""

from septran import task

EXAMPLE = {"B": 1, "C": 64, "H": 56, "W": 56}
CASES = (
    {"B": 2, "C": 3, "H": 11, "W": 13, "size": 2},
    {"B": 1, "C": 16, "H": 28, "W": 28, "padding": 1, "function": "mean"},
    {"B": 1, "C": 5, "H": 15, "W": 9, "stride": 1, "padding": 1, "dtype": "float16"},
)
FUNCTIONS = ("max", "mean")


def require_known(function):
    """Refuse other functions."""
    known = ", ".join(FUNCTIONS)
    task.require(function in FUNCTIONS, f"function is {function!r}, and none of {known}")


@task.define(leaf=True)
def pool_tile(Y, X, *, function: str, padding: task.static):
    """Some rows of places of one channel."""
    if function == "max":
        # The zeros that a window reads outside would win where all elements are negative.
        there = task.where(task.inside(X), X, -task.inf) if padding else X
        Y[:, :] = task.max(there, axis=(2, 3))
    else:
        Y[:, :] = task.sum(X, axis=(2, 3)) / (X.shape[2] * X.shape[3])


@task.define
def pool2d(
    Y: task.Tensor[
        "B", "C", "(H + 2*padding - size) // stride + 1", "(W + 2*padding - size) // stride + 1"
    ],
    X: task.Tensor["B", "C", "H", "W"],
    *,
    function: str = "max",
    size: task.static = 3,
    stride: task.static = 2,
    padding: task.static = 0,
):
    """Each image, channel and block of places on its own."""
    require_known(function)
    windows = task.window(X, (size, size), stride, padding)
    tile = (1, 1, task.tunable("block_height"), task.tunable("block_width"))
    Yp, Xp = task.partition(Y, shape=tile), task.partition(windows, shape=(*tile, size, size))
    for b, c, i, j in task.parallel_range(Yp.shape):
        y, x = Yp[b, c, i, j][0, 0], Xp[b, c, i, j, 0, 0][0, 0]
        task.launch(pool_tile, y, x, function=function, padding=padding)


BACKWARD = "pool2d_backward"
"""The operator that computes the gradient (`septran.torch`)."""
