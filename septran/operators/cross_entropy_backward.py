"""Gradient of cross_entropy: dX[t, v] = dloss[t] * (softmax(X)[t, v] - (v is target[t])).

X and dX [T, V], dloss [T], any float dtype, target [T] int64; sums in float32 (float64 for
float64). A row whose target is no class of 0 to V - 1 has the gradient 0. The log-sum-exp of a row
is computed again, by the walk of `logsumexp`, and a second walk over the columns, which then are
in a cache mostly, writes. Source: torch.nn.functional.cross_entropy with reduction "none".
"""

from septran import task
from septran.operators.logsumexp import logsumexp_step

EXAMPLE = {"T": 256, "V": 8192}
CASES = (
    {"T": 40, "V": 70},
    {"T": 64, "V": 512},
    {"T": 3, "V": 1001, "dtype": "float16"},
)


@task.define(leaf=True)
def scale_of_rows(g, m, s, target, dloss, *, classes: task.static):
    """What the exponentials of each row are multiplied by."""
    there = (target >= 0) & (target < classes)
    none = m - m  # NaN where the greatest logit is infinite, as in torch, else 0
    g[:] = task.where(there, dloss / s + none, 0.0)


@task.define(leaf=True)
def cross_entropy_slopes(dX, X, m, g, target, dloss):
    """Some columns of some rows."""
    here = task.index(X, 1)[None, :] == target[:, None]
    chosen = task.where(here, dloss[:, None], 0.0)
    dX[:, :] = g[:, None] * task.exp(X - m[:, None]) - chosen


@task.define
def cross_entropy_backward_rows(dX, X, target, dloss):
    """Some rows: walk the columns, then once more."""
    wide = task.compute_dtype(X.dtype)
    m = task.full(target.shape, -task.inf, wide, name="m")
    s = task.zeros(target.shape, wide, name="s")
    g = task.empty(target.shape, wide, name="g")
    step = (X.shape[0], task.tunable("block_N"))
    dXp, Xp = task.partition(dX, shape=step), task.partition(X, shape=step)
    for j in task.sequential_range(Xp.shape[1]):
        task.launch(logsumexp_step, m, s, Xp[0, j])
    task.launch(scale_of_rows, g, m, s, target, dloss, classes=X.shape[1])
    for j in task.sequential_range(Xp.shape[1]):
        task.launch(cross_entropy_slopes, dXp[0, j], Xp[0, j], m, g, target, dloss)


@task.define
def cross_entropy_backward(
    dX: task.Tensor["T", "V"],
    X: task.Tensor["T", "V"],
    target: task.Tensor["T", task.int64],
    dloss: task.Tensor["T"],
):
    """Rows in blocks, each on its own."""
    rows = task.tunable("block_M")
    Tp, Lp = (task.partition(x, shape=(rows,)) for x in (target, dloss))
    dXp, Xp = (task.partition(x, shape=(rows, x.shape[1])) for x in (dX, X))
    for i in task.parallel_range(Tp.shape[0]):
        task.launch(cross_entropy_backward_rows, dXp[i, 0], Xp[i, 0], Tp[i], Lp[i])
