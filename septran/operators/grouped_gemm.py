"""Products of groups of rows, each with a matrix of its own, as experts' layers have them.

X [T, K] has the rows of group e from offsets[e] on, up to offsets[e + 1]; W [E, K, N] has a matrix
a group, offsets [E + 1] are int64 from 0 to T. Y [T, N] is X[t] @ W[e] for the rows of a group, and
0 for rows of none; of groups that lie over each other the last one counts. Dtypes and sums as in
gemm. Source: Gale et al., MegaBlocks, arXiv 2211.15841.
"""

from septran import task
from septran.operators.gemm import gemm_tile

EXAMPLE = {"T": 512, "E": 8, "K": 512, "N": 512}
CASES = (
    {"T": 70, "E": 5, "K": 90, "N": 130},
    {"T": 130, "E": 3, "K": 64, "N": 33, "dtype": "float16"},
    {"T": 9, "E": 12, "K": 100, "N": 40, "dtype": "bfloat16"},
)


@task.define(leaf=True)
def clear_rows(Y):
    """Y is 0, which it stays where no group has rows."""
    task.fill(Y, 0)


@task.define(leaf=True)
def store_rows(Y, acc):
    """Y is what was summed, rounded once."""
    Y[:, :] = acc


@task.define
def group_rows(Y, X, W):
    """The product of a group's rows within one tile: walk the K axis."""
    block_k = task.tunable("block_K")
    acc = task.zeros(Y.shape, task.accumulator_dtype(Y.dtype), name="acc")
    Xp = task.partition(X, shape=(X.shape[0], block_k))
    Wp = task.partition(W, shape=(block_k, W.shape[1]))
    for k in task.sequential_range(Xp.shape[1]):
        task.launch(gemm_tile, acc, Xp[0, k], Wp[k, 0])
    task.launch(store_rows, Y, acc)


@task.define
def grouped_block(Y, X, W, offsets, *, rows: task.static):
    """One tile of Y: the groups that have rows in it, each with its section of the tile."""
    task.launch(clear_rows, Y)
    first = task.start(Y, 0)
    for e in task.sequential_range(W.shape[0]):
        ends = (task.count(offsets[e + n], most=rows) - first for n in (0, 1))
        low, high = (task.least(task.greatest(end, 0), Y.shape[0]) for end in ends)
        with task.when(high - low):
            task.launch(group_rows, Y[low:high], X[low:high], W[e])


@task.define
def grouped_gemm(
    Y: task.Tensor["T", "N"],
    X: task.Tensor["T", "K"],
    W: task.Tensor["E", "K", "N"],
    offsets: task.Tensor["E + 1", task.int64],
):
    """Tiles of Y, each on its own, whatever groups they cut."""
    block_m, block_n = task.tunable("block_M"), task.tunable("block_N")
    Yp = task.partition(Y, shape=(block_m, block_n))
    Xp = task.partition(X, shape=(block_m, X.shape[1]))
    Wp = task.partition(W, shape=(*W.shape[:2], block_n))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(grouped_block, Yp[i, j], Xp[i, 0], Wp[0, 0, j], offsets, rows=X.shape[0])
