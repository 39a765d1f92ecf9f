"""Squared distances of all pairs: D[i, j] = sum over k of (A[i, k] - B[j, k])^2, by a product."""

from septran import task

EXAMPLE = {"M": 256, "N": 256, "K": 128}
CASES = ({"M": 100, "N": 70, "K": 48}, {"M": 130, "N": 64, "K": 300})


@task.define(leaf=True)
def cross(R, A, B):
    task.fill(R, 0)
    task.call_primitive("gemm", R, A, B.T)


@task.define(leaf=True)
def join(D, R, A, B):
    D[:, :] = task.sum(A * A, axis=1)[:, None] + task.sum(B * B, axis=1)[None, :] - 2 * R


@task.define
def pairs(D, A, B):
    R = task.empty(D.shape, task.float32, name="R")
    task.launch(cross, R, A, B)
    task.launch(join, D, R, A, B)


@task.define
def distances(D: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["N", "K"]):
    high, wide = task.tunable("block_M"), task.tunable("block_N")
    Dp = task.partition(D, shape=(high, wide))
    Ap = task.partition(A, shape=(high, A.shape[1]))
    Bp = task.partition(B, shape=(wide, B.shape[1]))
    for i, j in task.parallel_range(*Dp.shape):
        task.launch(pairs, Dp[i, j], Ap[i, 0], Bp[j, 0])
