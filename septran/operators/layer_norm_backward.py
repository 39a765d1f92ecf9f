"""Gradient of layer_norm: dX, dW and dbias from X, W and dY.

With h the normalised rows, r[i] = 1 / sqrt(variance of row i + eps) and g = W * dY:
dX[i, j] = r[i] * (g[i, j] - mean over k of g[i, k] - h[i, j] * mean over k of g[i, k] * h[i, k]),
dW[j] = sum over i of dY[i, j] * h[i, j] and dbias[j] = sum over i of dY[i, j]. dX, X and dY
[M, N], dW, dbias and W [N], any float dtype; sums in float32 (float64 for float64), those of dW
and dbias by blocks of rows, joined in their order. Source: the chain rule on Ba et al., 2016,
arXiv 1607.06450, equation 3.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 1024}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def layer_norm_backward_rows(dX, part, X, W, dY, *, eps: float):
    """Some rows, whole, and what they add to dW."""
    wide, rows = task.compute_dtype(X.dtype), X.shape[:1]
    mean, scale, first, second = (
        task.empty(rows, wide, name=name) for name in ("mean", "scale", "first", "second")
    )
    mean[:] = task.sum(X, axis=1) / X.shape[1]
    away = X - mean[:, None]
    scale[:] = task.rsqrt(task.sum(away * away, axis=1) / X.shape[1] + eps)
    h, g = away * scale[:, None], W[None, :] * dY
    first[:] = task.sum(g, axis=1) / X.shape[1]
    second[:] = task.sum(g * h, axis=1) / X.shape[1]
    dX[:, :] = scale[:, None] * (g - first[:, None] - h * second[:, None])
    part[:] = task.sum(dY * h, axis=0)


@task.define(leaf=True)
def sum_rows(part, dY):
    """What some rows add to dbias."""
    part[:] = task.sum(dY, axis=0)


@task.define
def layer_norm_backward(
    dX: task.Tensor["M", "N"],
    dW: task.Tensor["N"],
    dbias: task.Tensor["N"],
    X: task.Tensor["M", "N"],
    W: task.Tensor["N"],
    dY: task.Tensor["M", "N"],
    *,
    eps: float = 1e-5,
):
    """Blocks of rows, each on its own; their parts of dW and dbias are summed."""
    task.fill(dW, 0)
    task.fill(dbias, 0)
    rows = task.tunable("block_rows")
    dXp, Xp, dYp = (task.partition(T, shape=(rows, T.shape[1])) for T in (dX, X, dY))
    for i in task.parallel_range(Xp.shape[0]):
        wide = task.compute_dtype(X.dtype)
        w, bias = (task.empty(W.shape, wide, name=name) for name in ("part_W", "part_bias"))
        task.launch(layer_norm_backward_rows, dXp[i, 0], w, Xp[i, 0], W, dYp[i, 0], eps=eps)
        task.launch(sum_rows, bias, dYp[i, 0])
        task.reduce_into(dW, w, "sum")
        task.reduce_into(dbias, bias, "sum")
