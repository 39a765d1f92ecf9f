"""Attention in which a query sees the keys at most W before it: a window of the sequence.

Q, K, V and O [H, N, D]. Blocks of keys that no query of a block sees are not walked.
"""

import math

from septran import task

EXAMPLE = {"H": 2, "N": 256, "D": 64}
CASES = ({"H": 1, "N": 150, "D": 64}, {"H": 1, "N": 70, "D": 128})
W = 48


@task.define(leaf=True)
def dots(R, A, B):
    task.fill(R, 0)
    task.call_primitive("gemm", R, A, B.T)


@task.define(leaf=True)
def fold(E, total, top, mass, R, A, B):
    high = task.empty(top.shape, task.float32, name="high")
    past = task.empty(top.shape, task.float32, name="past")
    T = task.empty(R.shape, task.float32, name="T")
    row, column = task.index(A, 0)[:, None], task.index(B, 0)[None, :]
    near = (column <= row) & (row - column <= W)
    T[:, :] = task.where(near, R / math.sqrt(A.shape[1]), -1e30)
    high[:] = task.maximum(top, task.max(T, axis=1))
    past[:] = task.exp(top - high)
    T[:, :] = task.where(near, task.exp(T - high[:, None]), 0.0)
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
def window(O, Q, K, V):
    size = task.tunable("block_N")
    total = task.zeros(O.shape, task.float32, name="total")
    top = task.full(Q.shape[:1], -1e30, name="top")
    mass = task.zeros(Q.shape[:1], name="mass")
    low = task.greatest(0, task.start(Q, 0) - W) // size
    Kp, Vp = (task.partition(x, shape=(size, x.shape[1])) for x in (K, V))
    high = task.least(Kp.shape[0], (task.start(Q, 0) + Q.shape[0] - 1) // size + 1)
    for step in task.sequential_range(high - low):
        k = low + step
        R = task.empty((Q.shape[0], Kp[k, 0].shape[0]), task.float32, name="R")
        E = task.empty(R.shape, Q.dtype, name="E")
        task.launch(dots, R, Q, Kp[k, 0])
        task.launch(fold, E, total, top, mass, R, Q, Kp[k, 0])
        task.launch(weigh, total, E, Vp[k, 0])
    task.launch(divide, O, total, mass)


@task.define
def sliding_attention(
    O: task.Tensor["H", "N", "D"],
    Q: task.Tensor["H", "N", "D"],
    K: task.Tensor["H", "N", "D"],
    V: task.Tensor["H", "N", "D"],
):
    block = (1, task.tunable("block_M"), Q.shape[2])
    Op, Qp = task.partition(O, shape=block), task.partition(Q, shape=block)
    for h, i in task.parallel_range(*Op.shape[:2]):
        task.launch(window, Op[h, i, 0][0], Qp[h, i, 0][0], K[h], V[h])
