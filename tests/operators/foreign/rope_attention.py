"""Attention whose queries and keys are turned by their positions as they are multiplied.

Q, K, V and O [H, N, D], A (cosines) and B (sines) [N, D / 2]; D is even.
"""

import math

from septran import task

EXAMPLE = {"H": 2, "N": 256, "D": 64}
CASES = ({"H": 1, "N": 150, "D": 64}, {"H": 1, "N": 70, "D": 32})


@task.define(leaf=True)
def turn(Y, X, A, B):
    half = X.shape[1] // 2
    Y[:, :half] = X[:, :half] * A - X[:, half:] * B
    Y[:, half:] = X[:, half:] * A + X[:, :half] * B


@task.define(leaf=True)
def dots(R, A, B):
    task.fill(R, 0)
    task.call_primitive("gemm", R, A, B.T)


@task.define(leaf=True)
def fold(E, total, top, mass, R, A):
    high = task.empty(top.shape, task.float32, name="high")
    past = task.empty(top.shape, task.float32, name="past")
    T = task.empty(R.shape, task.float32, name="T")
    T[:, :] = R / math.sqrt(A.shape[1])
    high[:] = task.maximum(top, task.max(T, axis=1))
    past[:] = task.exp(top - high)
    T[:, :] = task.exp(T - high[:, None])
    E[:, :] = T
    mass[:] = mass * past + task.sum(T, axis=1)
    top[:] = high
    total[:, :] = total * past[:, None]


@task.define(leaf=True)
def weigh(total, E, V):
    task.call_primitive("gemm", total, E, V)


@task.define(leaf=True)
def divide(O, total, mass):
    O[:, :] = total / mass[:, None]


@task.define
def queries(O, Q, K, V, A, B, a, b):
    size = task.tunable("block_N")
    total = task.zeros(O.shape, task.float32, name="total")
    top = task.full(Q.shape[:1], -task.inf, name="top")
    mass = task.zeros(Q.shape[:1], name="mass")
    q = task.empty(Q.shape, Q.dtype, name="q")
    task.launch(turn, q, Q, a, b)
    Kp, Vp, Ap, Bp = (task.partition(x, shape=(size, x.shape[1])) for x in (K, V, A, B))
    for n in task.sequential_range(Kp.shape[0]):
        k = task.empty(Kp[n, 0].shape, K.dtype, name="k")
        R = task.empty((Q.shape[0], Kp[n, 0].shape[0]), task.float32, name="R")
        E = task.empty(R.shape, Q.dtype, name="E")
        task.launch(turn, k, Kp[n, 0], Ap[n, 0], Bp[n, 0])
        task.launch(dots, R, q, k)
        task.launch(fold, E, total, top, mass, R, Q)
        task.launch(weigh, total, E, Vp[n, 0])
    task.launch(divide, O, total, mass)


@task.define
def rope_attention(
    O: task.Tensor["H", "N", "D"],
    Q: task.Tensor["H", "N", "D"],
    K: task.Tensor["H", "N", "D"],
    V: task.Tensor["H", "N", "D"],
    A: task.Tensor["N", "D // 2"],
    B: task.Tensor["N", "D // 2"],
):
    rows = task.tunable("block_M")
    block = (1, rows, Q.shape[2])
    Op, Qp = task.partition(O, shape=block), task.partition(Q, shape=block)
    Ap, Bp = (task.partition(x, shape=(rows, x.shape[1])) for x in (A, B))
    for h, i in task.parallel_range(*Op.shape[:2]):
        o, q = Op[h, i, 0][0], Qp[h, i, 0][0]
        task.launch(queries, o, q, K[h], V[h], A, B, Ap[i, 0], Bp[i, 0])
