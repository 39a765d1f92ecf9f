"""One step of k-means, the assignment: which of K centres each point is nearest to.

P [N, D] points, C [K, D] centres, T [N] the least squared distance, W [N] the centre's number.
"""

from septran import task

EXAMPLE = {"N": 512, "K": 256, "D": 64}
CASES = ({"N": 100, "K": 70, "D": 16}, {"N": 70, "K": 130, "D": 128})


@task.define(leaf=True)
def dots(R, A, B):
    task.fill(R, 0)
    task.call_primitive("gemm", R, A, B.T)


@task.define(leaf=True)
def nearest(best, where, R, A, B):
    far = task.empty(R.shape, task.float32, name="far")
    least = task.empty(best.shape, task.float32, name="least")
    number = task.empty(best.shape, task.float32, name="number")
    b, w = task.empty(best.shape, name="b"), task.empty(best.shape, name="w")
    far[:, :] = task.sum(A * A, axis=1)[:, None] - 2 * R + task.sum(B * B, axis=1)[None, :]
    least[:] = task.min(far, axis=1)
    which = task.index(B, 0)[None, :].astype(task.float32)
    number[:] = task.min(task.where(far > least[:, None], 1e9, which), axis=1)
    w[:] = task.where(least < best, number, where)
    b[:] = task.minimum(least, best)
    where[:] = w
    best[:] = b


@task.define(leaf=True)
def keep(T, W, best, where):
    T[:] = best
    W[:] = where


@task.define
def points(T, W, P, C):
    size = task.tunable("block_N")
    best = task.full(T.shape, 1e30, name="best")
    where = task.full(T.shape, 0.0, name="where")
    Cp = task.partition(C, shape=(size, C.shape[1]))
    for k in task.sequential_range(Cp.shape[0]):
        R = task.empty((P.shape[0], Cp[k, 0].shape[0]), task.float32, name="R")
        task.launch(dots, R, P, Cp[k, 0])
        task.launch(nearest, best, where, R, P, Cp[k, 0])
    task.launch(keep, T, W, best, where)


@task.define
def kmeans_step(
    T: task.Tensor["N"], W: task.Tensor["N"], P: task.Tensor["N", "D"], C: task.Tensor["K", "D"]
):
    rows = task.tunable("block_M")
    Tp, Wp = task.partition(T, shape=(rows,)), task.partition(W, shape=(rows,))
    Pp = task.partition(P, shape=(rows, P.shape[1]))
    for i in task.parallel_range(Tp.shape[0]):
        task.launch(points, Tp[i], Wp[i], Pp[i, 0], C)
