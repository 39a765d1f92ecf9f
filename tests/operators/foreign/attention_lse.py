"""Attention that also gives the logarithm of the sum of exponentials of each row of scores.

Q and O [H, M, D], K and V [H, N, D], S [H, M]: what merging parts of a long context needs.
"""

import math

from septran import task

EXAMPLE = {"H": 2, "M": 256, "N": 256, "D": 64}
CASES = ({"H": 1, "M": 70, "N": 130, "D": 64}, {"H": 1, "M": 64, "N": 100, "D": 128})


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
def finish(O, lse, total, top, mass):
    O[:, :] = total / mass[:, None]
    lse[:] = top + task.log(mass)


@task.define
def queries(O, lse, Q, K, V):
    size = task.tunable("block_N")
    total = task.zeros(O.shape, task.float32, name="total")
    top = task.full(Q.shape[:1], -task.inf, name="top")
    mass = task.zeros(Q.shape[:1], name="mass")
    Kp, Vp = (task.partition(x, shape=(size, x.shape[1])) for x in (K, V))
    for k in task.sequential_range(Kp.shape[0]):
        R = task.empty((Q.shape[0], Kp[k, 0].shape[0]), task.float32, name="R")
        E = task.empty(R.shape, Q.dtype, name="E")
        task.launch(dots, R, Q, Kp[k, 0])
        task.launch(fold, E, total, top, mass, R, Q)
        task.launch(weigh, total, E, Vp[k, 0])
    task.launch(finish, O, lse, total, top, mass)


@task.define
def attention_lse(
    O: task.Tensor["H", "M", "D"],
    S: task.Tensor["H", "M"],
    Q: task.Tensor["H", "M", "D"],
    K: task.Tensor["H", "N", "D"],
    V: task.Tensor["H", "N", "D"],
):
    rows = task.tunable("block_M")
    block = (1, rows, Q.shape[2])
    Op, Qp = task.partition(O, shape=block), task.partition(Q, shape=block)
    Sp = task.partition(S, shape=(1, rows))
    for h, i in task.parallel_range(*Op.shape[:2]):
        task.launch(queries, Op[h, i, 0][0], Sp[h, i][0], Qp[h, i, 0][0], K[h], V[h])
