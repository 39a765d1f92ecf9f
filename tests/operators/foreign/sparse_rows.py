"""Compressed sparse rows times a dense matrix: Y[i] = sum over p in row i of v[p] * X[col[p]].

v and col [NNZ], of row i those from ends[i] to ends[i + 1]; X [K, N], Y [M, N].
"""

from septran import task

EXAMPLE = {"M": 30, "NNZ": 60, "K": 100, "N": 96}
CASES = ({"M": 20, "NNZ": 90, "K": 30, "N": 48}, {"M": 9, "NNZ": 33, "K": 70, "N": 130})


@task.define(leaf=True)
def axpy(acc, v, x):
    acc[:] = acc + v * x


@task.define(leaf=True)
def put(y, acc):
    y[:] = acc


@task.define
def row(y, v, col, X, ends):
    acc = task.zeros(y.shape, task.float32, name="acc")
    low, high = (task.count(ends[n], most=v.shape[0]) for n in (0, 1))
    vs, cs = v[low:high], col[low:high]
    for p in task.sequential_range(vs.shape[0]):
        task.launch(axpy, acc, vs[p : p + 1], X[cs[p]])
    task.launch(put, y, acc)


@task.define
def sparse_rows(
    Y: task.Tensor["M", "N"],
    v: task.Tensor["NNZ"],
    col: task.Tensor["NNZ", task.int32],
    ends: task.Tensor["M + 1", task.int32],
    X: task.Tensor["K", "N"],
):
    wide = task.tunable("wide")
    Yp, Xp = task.partition(Y, shape=(1, wide)), task.partition(X, shape=(X.shape[0], wide))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(row, Yp[i, j][0], v, col, Xp[0, j], ends[i : i + 2])
