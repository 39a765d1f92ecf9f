"""Softmax along the last axis: Y[i, j] = exp(X[i, j] - m[i]) / sum over j of the same.

X and Y [M, N], any float dtype; m[i] is the row's maximum, subtracted so that nothing
overflows. NaN in a row makes the row NaN, as in torch. Source: Goodfellow et al., Deep
Learning, 4.1.
"""

import math

from septran import task

LOG2_E = math.log2(math.e)
EXAMPLE = {"M": 1024, "N": 1024}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def softmax_rows(Y, X):
    """Some rows, whole."""
    e = task.empty(X.shape, task.compute_dtype(X.dtype), name="e")
    m = task.empty(X.shape[:1], task.compute_dtype(X.dtype), name="m")
    s = task.empty(X.shape[:1], task.compute_dtype(X.dtype), name="s")
    m[:] = task.max(X, axis=1)
    below = X - m[:, None]
    # Rounding the exponent is far below what a short float shows, and powers of two cost less.
    e[:, :] = task.exp(below) if e.dtype == X.dtype else task.exp2(below * LOG2_E)
    s[:] = task.sum(e, axis=1)
    Y[:, :] = e * (1.0 / s)[:, None]


@task.define
def softmax(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """Normalise the exponentials of each row."""
    rows = task.tunable("block_rows")
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(softmax_rows, Yp[i, 0], Xp[i, 0])


BACKWARD = "softmax_backward"
"""The operator that computes the gradient (`septran.torch`)."""
