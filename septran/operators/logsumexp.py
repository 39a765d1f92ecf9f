"""Logarithm of the sum of exponentials along the last axis: Y[i] = log(sum over j of exp(X[i, j])).

X [M, N], Y [M], any float dtype; sums in float32 (float64 for float64), rounded once. What is
summed is exp(X - m), m being the greatest so far, so that nothing overflows; a row of -inf gives
-inf. Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, arXiv
1805.02867; torch.logsumexp.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 4096}
CASES = (
    {"M": 70, "N": 150},
    {"M": 128, "N": 512},
    {"M": 3, "N": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def logsumexp_step(m, s, X):
    """Fold some columns into the maximum and the sum so far."""
    new = task.empty(m.shape, m.dtype, name="new")
    shift = task.empty(m.shape, m.dtype, name="shift")
    new[:] = task.maximum(m, task.max(X, axis=1))
    shift[:] = task.where(task.abs(new) == task.inf, 0.0, new)  # inf - inf is no number
    s[:] = s * task.exp(m - shift) + task.sum(task.exp(X - shift[:, None]), axis=1)
    m[:] = new


@task.define(leaf=True)
def logsumexp_end(Y, m, s):
    """The logarithm, back at the size that was subtracted."""
    Y[:] = task.log(s) + task.where(task.abs(m) == task.inf, 0.0, m)


@task.define
def logsumexp_rows(Y, X):
    """Some rows: walk the columns."""
    wide = task.compute_dtype(X.dtype)
    m = task.full(Y.shape, -task.inf, wide, name="m")
    s = task.zeros(Y.shape, wide, name="s")
    Xp = task.partition(X, shape=(X.shape[0], task.tunable("block_N")))
    for j in task.sequential_range(Xp.shape[1]):
        task.launch(logsumexp_step, m, s, Xp[0, j])
    task.launch(logsumexp_end, Y, m, s)


@task.define
def logsumexp(Y: task.Tensor["M"], X: task.Tensor["M", "N"]):
    """One number a row, rows in blocks."""
    rows = task.tunable("block_M")
    Yp = task.partition(Y, shape=(rows,))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(logsumexp_rows, Yp[i], Xp[i, 0])


BACKWARD = "logsumexp_backward"
"""The operator that computes the gradient (`septran.torch`)."""
