"""Y = sum over r of E[r] * (A[r] @ (B[0] + B[1] + ...)), a product in three sequential loops.

A [R, M, K], B [S, K, N], E [R, M, N].
"""

from septran import task

EXAMPLE = {"R": 3, "S": 2, "M": 33, "N": 40, "K": 50}
CASES = (
    {"R": 2, "S": 3, "M": 64, "N": 48, "K": 96},
    {"R": 1, "S": 5, "M": 1, "N": 7, "K": 130},
)


@task.define(leaf=True)
def product(part, a, b):
    task.call_primitive("gemm", part, a, b)


@task.define(leaf=True)
def weighted(total, part, e):
    total[:, :] = total + part * e


@task.define(leaf=True)
def put(Y, total):
    Y[:, :] = total


@task.define
def block(Y, A, B, E):
    step = task.tunable("deep", 16)
    total = task.zeros(Y.shape, task.float32, name="total")
    for r in task.sequential_range(A.shape[0]):
        part = task.zeros(Y.shape, task.float32, name="part")
        Ap = task.partition(A[r], shape=(A.shape[1], step))
        for s in task.sequential_range(B.shape[0]):
            Bp = task.partition(B[s], shape=(step, B.shape[2]))
            for k in task.sequential_range(Ap.shape[1]):
                task.launch(product, part, Ap[0, k], Bp[k, 0])
        task.launch(weighted, total, part, E[r])
    task.launch(put, Y, total)


@task.define
def nested_products(
    Y: task.Tensor["M", "N"],
    A: task.Tensor["R", "M", "K"],
    B: task.Tensor["S", "K", "N"],
    E: task.Tensor["R", "M", "N"],
):
    m, n = task.tunable("high", 32), task.tunable("wide", 32)
    Yp = task.partition(Y, shape=(m, n))
    Ap = task.partition(A, shape=(A.shape[0], m, A.shape[2]))
    Bp = task.partition(B, shape=(B.shape[0], B.shape[1], n))
    Ep = task.partition(E, shape=(E.shape[0], m, n))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(block, Yp[i, j], Ap[0, i, 0], Bp[0, 0, j], Ep[0, i, j])
