"""The k greatest elements of each row, greatest first, and where they are.

X [M, N], values [M, k] of its dtype, indices [M, k] int64. Among equals the first; NaN is
greater than all. Source: torch.topk (definition, but for the order among equals, which it
leaves open).
"""

from septran import task

EXAMPLE = {"M": 256, "N": 512}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 128, "k": 1},
    {"M": 3, "N": 501, "k": 3, "dtype": "float16"},
)


@task.define(leaf=True)
def topk_rows(values, indices, X, *, k: task.static):
    """Some rows, whole: k times the maximum of what is left."""
    wide = task.compute_dtype(X.dtype)
    left = task.empty(X.shape, wide, name="left")
    top = task.empty(X.shape[:1], wide, name="top")
    where = task.empty(X.shape[:1], task.int64, name="where")
    free = task.empty(X.shape, task.int32, name="free")
    left[:, :] = X
    column = task.index(X, 1)[None, :]
    free[:, :] = column
    for n in range(k):
        top[:] = task.max(left, axis=1)
        greatest = (left == top[:, None]) | (left != left)  # the second: NaN
        # The least column, so the first one among equals.
        where[:] = task.min(task.where(greatest, free, X.shape[1]), axis=1)
        values[:, n] = top
        indices[:, n] = where
        if n + 1 == k:
            break
        taken = column == where[:, None]
        left[:, :] = task.where(taken, -task.inf, left)
        free[:, :] = task.where(taken, X.shape[1], free)  # -inf may be an element as well


@task.define
def topk(
    values: task.Out["M", "k"],
    indices: task.Out["M", "k", task.int64],
    X: task.In["M", "N"],
    *,
    k: task.static = 4,
):
    """Rows in blocks, each on its own."""
    task.require(1 <= k <= X.shape[1], f"k is {k}, and a row has {X.shape[1]} elements")
    rows = task.tunable("block_rows")
    Vp, Ip, Xp = (task.partition(x, shape=(rows, x.shape[1])) for x in (values, indices, X))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(topk_rows, Vp[i, 0], Ip[i, 0], Xp[i, 0], k=k)
