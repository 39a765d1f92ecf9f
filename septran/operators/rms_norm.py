"""Root-mean-square normalisation: Y[i, j] = W[j] * X[i, j] / sqrt(mean over j of X[i, j]^2 + eps).

X and Y [M, N], W [N], any float dtype; sums in float32 (float64 for float64). Source: Zhang
and Sennrich, 2019, arXiv 1910.07467; torch.nn.functional.rms_norm.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 1024}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def rms_norm_rows(Y, X, W, *, eps: float):
    """Some rows, whole."""
    wide = task.compute_dtype(X.dtype)
    scale = task.empty(X.shape[:1], wide, name="scale")
    scale[:] = task.rsqrt(task.sum(X * X, axis=1) / X.shape[1] + eps)
    Y[:, :] = X * scale[:, None] * W[None, :]


@task.define
def rms_norm(
    Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], W: task.Tensor["N"], *, eps: float = 1e-6
):
    """Scale each row to unit root mean square, then by W."""
    rows = task.tunable("block_rows")
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(rms_norm_rows, Yp[i, 0], Xp[i, 0], W, eps=eps)


BACKWARD = "rms_norm_backward"
"""The operator that computes the gradient (`septran.torch`)."""
