"""Cross entropy of rows of logits: loss[t] = log(sum over v of exp(X[t, v])) - X[t, target[t]].

X [T, V], loss [T], any float dtype, target [T] int64; sums in float32 (float64 for float64),
rounded once. A target that is no class of 0 to V - 1, as torch's ignore_index of -100, gives 0.
Columns are walked once, and the target's is found on the way. Source:
torch.nn.functional.cross_entropy with reduction "none"; the walk is that of `logsumexp`.
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
def find_target(chosen, X, target):
    """The logit of each row's target, where it is among these columns."""
    here = task.index(X, 1)[None, :] == target[:, None]
    # At most one column of all tiles is the target's, so that this sum is its logit.
    chosen[:] = chosen + task.sum(task.where(here, X, 0.0), axis=1)


@task.define(leaf=True)
def cross_entropy_end(loss, m, s, chosen, target, *, classes: task.static):
    """The difference, of rows that have a target."""
    there = (target >= 0) & (target < classes)
    none = m - m  # NaN where the greatest logit is infinite, as in torch, else 0
    # m - chosen comes first: logits may be so large that log(s) would be rounded away.
    loss[:] = task.where(there, task.log(s) + (m - chosen) + none, 0.0)


@task.define
def cross_entropy_rows(loss, X, target):
    """Some rows: walk the columns."""
    wide = task.compute_dtype(X.dtype)
    m = task.full(loss.shape, -task.inf, wide, name="m")
    s = task.zeros(loss.shape, wide, name="s")
    chosen = task.zeros(loss.shape, wide, name="chosen")
    Xp = task.partition(X, shape=(X.shape[0], task.tunable("block_N")))
    for j in task.sequential_range(Xp.shape[1]):
        task.launch(logsumexp_step, m, s, Xp[0, j])
        task.launch(find_target, chosen, Xp[0, j], target)
    task.launch(cross_entropy_end, loss, m, s, chosen, target, classes=X.shape[1])


@task.define
def cross_entropy(
    loss: task.Tensor["T"], X: task.Tensor["T", "V"], target: task.Tensor["T", task.int64]
):
    """One number a row, rows in blocks."""
    rows = task.tunable("block_M")
    Lp, Tp = (task.partition(x, shape=(rows,)) for x in (loss, target))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Lp.shape[0]):
        task.launch(cross_entropy_rows, Lp[i], Xp[i, 0], Tp[i])


BACKWARD = "cross_entropy_backward"
"""The operator that computes the gradient (`septran.torch`)."""
