"""The product of a matrix with itself: C = A A^T, tile by tile."""

from septran import task

EXAMPLE = {"N": 256, "K": 128}
CASES = ({"N": 100, "K": 70}, {"N": 64, "K": 300})


@task.define(leaf=True)
def add(T, A, B):
    task.call_primitive("gemm", T, A, B.T)


@task.define(leaf=True)
def store(C, T):
    C[:, :] = T


@task.define
def block(C, A, B):
    size = task.tunable("block_K")
    T = task.zeros(C.shape, task.float32, name="T")
    Ap, Bp = (task.partition(x, shape=(x.shape[0], size)) for x in (A, B))
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(add, T, Ap[0, k], Bp[0, k])
    task.launch(store, C, T)


@task.define
def syrk(C: task.Tensor["N", "N"], A: task.Tensor["N", "K"]):
    size = task.tunable("block_N")
    Cp = task.partition(C, shape=(size, size))
    Ap = task.partition(A, shape=(size, A.shape[1]))
    for i, j in task.parallel_range(*Cp.shape):
        task.launch(block, Cp[i, j], Ap[i, 0], Ap[j, 0])
