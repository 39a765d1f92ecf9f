"""X with L X = B for each of a batch, by blocks: of L the lower triangles are read.

X and B [Nb, n, rhs], L [Nb, n, n]. The loop over earlier blocks has none for the first one.
"""

from septran import task

EXAMPLE = {"Nb": 2, "n": 128, "rhs": 64}
CASES = ({"Nb": 2, "n": 50, "rhs": 20}, {"Nb": 1, "n": 97, "rhs": 33})


@task.define(leaf=True)
def minus_product(acc, l, x):
    task.call_primitive("gemm", acc, l, x)


@task.define(leaf=True)
def within(X, B, L, acc):
    r = task.empty(X.shape, task.float32, name="r")
    r[:, :] = B - acc
    task.solve_triangular(r, L, r)
    X[:, :] = r


@task.define
def one(X, B, L):
    step = task.tunable("blk")
    Xp, Bp = (task.partition(t, shape=(step, t.shape[1])) for t in (X, B))
    Lp = task.partition(L, shape=(step, step))
    for i in task.sequential_range(Xp.shape[0]):
        acc = task.zeros(Xp[i, 0].shape, task.float32, name="acc")
        for j in task.sequential_range(i):
            task.launch(minus_product, acc, Lp[i, j], Xp[j, 0])
        task.launch(within, Xp[i, 0], Bp[i, 0], Lp[i, i], acc)


@task.define
def block_solve(
    X: task.Out["Nb", "n", "rhs"], B: task.Tensor["Nb", "n", "rhs"], L: task.Tensor["Nb", "n", "n"]
):
    cols = task.tunable("cols")
    Xp, Bp = (task.partition(t, shape=(1, t.shape[1], cols)) for t in (X, B))
    for b, j in task.parallel_range(X.shape[0], Xp.shape[2]):
        task.launch(one, Xp[b, 0, j][0], Bp[b, 0, j][0], L[b])
