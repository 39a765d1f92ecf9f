"""Gradient of softmax along the last axis: dX[i, j] = Y[i, j] * (dY[i, j] - sum over j of Y dY).

dX, Y and dY [M, N], any float dtype; Y is softmax's output. Sums in float32 (float64 for float64).
Source: the Jacobian diag(y) - y y^T of a row; torch's _softmax_backward_data.
"""

from septran import task

EXAMPLE = {"M": 1024, "N": 1024}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def softmax_backward_rows(dX, Y, dY):
    """Some rows, whole."""
    wide = task.compute_dtype(Y.dtype)
    s = task.empty(Y.shape[:1], wide, name="s")
    s[:] = task.sum(Y * dY, axis=1)
    dX[:, :] = Y * (dY - s[:, None])


@task.define
def softmax_backward(
    dX: task.Tensor["M", "N"], Y: task.Tensor["M", "N"], dY: task.Tensor["M", "N"]
):
    """Multiply each row of gradients by the Jacobian of its softmax."""
    rows = task.tunable("block_rows")
    whole = (rows, Y.shape[1])
    dXp, Yp, dYp = (task.partition(T, shape=whole) for T in (dX, Y, dY))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(softmax_backward_rows, dXp[i, 0], Yp[i, 0], dYp[i, 0])
