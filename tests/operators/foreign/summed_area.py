"""A summed-area table: Y[i, j] is the sum of all X[a, b] with a <= i and b <= j. X and Y [M, N]."""

from septran import task

EXAMPLE = {"M": 96, "N": 120}
CASES = ({"M": 13, "N": 37}, {"M": 70, "N": 33})


@task.define(leaf=True)
def along(Z, total, X):
    Z[:, :] = total[:, None] + task.cumsum(X, axis=1)
    total[:] = total + task.sum(X, axis=1)


@task.define(leaf=True)
def down(Y, total, Z):
    Y[:, :] = total[None, :] + task.cumsum(Z, axis=0)
    total[:] = total + task.sum(Z, axis=0)


@task.define
def rows(Z, X):
    size = task.tunable("block_N", 32)
    total = task.zeros(X.shape[:1], task.float32, name="total")
    Zp, Xp = (task.partition(t, shape=(t.shape[0], size)) for t in (Z, X))
    for j in task.sequential_range(Xp.shape[1]):
        task.launch(along, Zp[0, j], total, Xp[0, j])


@task.define
def columns(Y, Z):
    size = task.tunable("block_M", 32)
    total = task.zeros(Z.shape[1:], task.float32, name="total")
    Yp, Zp = (task.partition(t, shape=(size, t.shape[1])) for t in (Y, Z))
    for i in task.sequential_range(Zp.shape[0]):
        task.launch(down, Yp[i, 0], total, Zp[i, 0])


@task.define
def summed_area(Y: task.Out["M", "N"], X: task.In["M", "N"]):
    Z = task.empty(X.shape, task.float32, name="Z")
    high, wide = task.tunable("block_M", 32), task.tunable("block_N", 32)
    Xp, Zp = (task.partition(t, shape=(high, X.shape[1])) for t in (X, Z))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(rows, Zp[i, 0], Xp[i, 0])
    Yp, Zp = (task.partition(t, shape=(X.shape[0], wide)) for t in (Y, Z))
    for j in task.parallel_range(Yp.shape[1]):
        task.launch(columns, Yp[0, j], Zp[0, j])
