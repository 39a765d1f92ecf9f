"""Layer normalisation: Y = W * (X - mean) / sqrt(variance + eps) + bias, row by row.

X and Y [M, N], W and bias [N], any float dtype; sums in float32 (float64 for float64), the
variance from the deviations (two passes), divided by N. Source: Ba et al., 2016, arXiv
1607.06450; torch.nn.functional.layer_norm.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 1024}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def layer_norm_rows(Y, X, W, bias, *, eps: float):
    """Some rows, whole."""
    wide = task.compute_dtype(X.dtype)
    d = task.empty(X.shape, wide, name="d")
    mean = task.empty(X.shape[:1], wide, name="mean")
    scale = task.empty(X.shape[:1], wide, name="scale")
    mean[:] = task.sum(X, axis=1) / X.shape[1]
    d[:, :] = X - mean[:, None]
    # Not the mean of squares less the squared mean, which cancels where the mean is large.
    scale[:] = task.rsqrt(task.sum(d * d, axis=1) / X.shape[1] + eps)
    Y[:, :] = d * scale[:, None] * W[None, :] + bias[None, :]


@task.define
def layer_norm(
    Y: task.Tensor["M", "N"],
    X: task.Tensor["M", "N"],
    W: task.Tensor["N"],
    bias: task.Tensor["N"],
    *,
    eps: float = 1e-5,
):
    """Shift and scale each row to mean 0 and variance 1, then by W and bias."""
    rows = task.tunable("block_rows")
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(layer_norm_rows, Yp[i, 0], Xp[i, 0], W, bias, eps=eps)


BACKWARD = "layer_norm_backward"
"""The operator that computes the gradient (`septran.torch`)."""
