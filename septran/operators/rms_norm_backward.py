"""Gradient of rms_norm: dX and dW from X, W and dY.

With r[i] = 1 / sqrt(mean over j of X[i, j]^2 + eps) and g = W * dY:
dX[i, j] = r[i] * g[i, j] - X[i, j] * r[i]^3 * mean over k of g[i, k] * X[i, k], and
dW[j] = sum over i of dY[i, j] * X[i, j] * r[i]. dX, X and dY [M, N], dW and W [N], any float
dtype; sums in float32 (float64 for float64), those of dW by blocks of rows, joined in their order.
Source: the chain rule on Zhang and Sennrich, 2019, arXiv 1910.07467, equation 4.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 1024}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def rms_norm_backward_rows(dX, part, X, W, dY, *, eps: float):
    """Some rows, whole, and what they add to dW."""
    wide = task.compute_dtype(X.dtype)
    scale = task.empty(X.shape[:1], wide, name="scale")
    along = task.empty(X.shape[:1], wide, name="along")
    scale[:] = task.rsqrt(task.sum(X * X, axis=1) / X.shape[1] + eps)
    # The derivative of v^(-1/2) at v, the mean square, has v^(-3/2), which is scale^3.
    along[:] = task.sum(W[None, :] * dY * X, axis=1) * scale * scale * scale / X.shape[1]
    dX[:, :] = W[None, :] * dY * scale[:, None] - X * along[:, None]
    part[:] = task.sum(dY * X * scale[:, None], axis=0)


@task.define
def rms_norm_backward(
    dX: task.Tensor["M", "N"],
    dW: task.Tensor["N"],
    X: task.Tensor["M", "N"],
    W: task.Tensor["N"],
    dY: task.Tensor["M", "N"],
    *,
    eps: float = 1e-6,
):
    """Blocks of rows, each on its own; their parts of dW are summed."""
    task.fill(dW, 0)
    rows = task.tunable("block_rows")
    dXp, Xp, dYp = (task.partition(T, shape=(rows, T.shape[1])) for T in (dX, X, dY))
    for i in task.parallel_range(Xp.shape[0]):
        part = task.empty(W.shape, task.compute_dtype(X.dtype), name="part")
        task.launch(rms_norm_backward_rows, dXp[i, 0], part, Xp[i, 0], W, dYp[i, 0], eps=eps)
        task.reduce_into(dW, part, "sum")
