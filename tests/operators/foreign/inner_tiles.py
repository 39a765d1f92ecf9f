"""Y = sum over r of A[r] @ B[r], whose blocks cut tiles in parallel, and Z = leaky(Y) * X.

A [R, M, K], B [R, K, N], X, Y, Z [M, N].
"""

from septran import task

EXAMPLE = {"R": 3, "M": 72, "N": 80, "K": 100}
CASES = ({"R": 2, "M": 40, "N": 70, "K": 36}, {"R": 1, "M": 1, "N": 130, "K": 50})


@task.define(leaf=True)
def product(part, a, b):
    task.call_primitive("gemm", part, a, b)


@task.define(leaf=True)
def leaky(Y, Z, total, x):
    Y[:, :] = total
    Z[:, :] = task.where(total > 0, total, total * 0.25) * x


@task.define
def tiles(total, A, B):
    high, wide = task.tunable("inner_high", 16), task.tunable("inner_wide", 16)
    Tp = task.partition(total, shape=(high, wide))
    Ap = task.partition(A, shape=(high, A.shape[1]))
    Bp = task.partition(B, shape=(B.shape[0], wide))
    for i, j in task.parallel_range(Tp.shape):
        task.launch(product, Tp[i, j], Ap[i, 0], Bp[0, j])


@task.define
def block(Y, Z, A, B, X):
    total = task.zeros(Y.shape, task.float32, name="total")
    for r in task.sequential_range(A.shape[0]):
        task.launch(tiles, total, A[r], B[r])
    task.launch(leaky, Y, Z, total, X)


@task.define
def inner_tiles(
    Y: task.Tensor["M", "N"],
    Z: task.Tensor["M", "N"],
    A: task.Tensor["R", "M", "K"],
    B: task.Tensor["R", "K", "N"],
    X: task.Tensor["M", "N"],
):
    m, n = task.tunable("high", 32), task.tunable("wide", 32)
    Yp, Zp, Xp = (task.partition(t, shape=(m, n)) for t in (Y, Z, X))
    Ap = task.partition(A, shape=(A.shape[0], m, A.shape[2]))
    Bp = task.partition(B, shape=(B.shape[0], B.shape[1], n))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(block, Yp[i, j], Zp[i, j], Ap[0, i, 0], Bp[0, 0, j], Xp[i, j])
