"""Attention with linear biases, a window of W keys, and S first keys that all queries see.

Q, K, V and O [H, N, D], slope [H]. ALiBi: Press et al., 2022; sinks: Xiao et al., 2024.
"""

import math

from septran import task

EXAMPLE = {"H": 2, "N": 192, "D": 64}
CASES = ({"H": 2, "N": 90, "D": 32}, {"H": 1, "N": 70, "D": 64})
W, S = 40, 4


@task.define(leaf=True)
def dots(R, A, B):
    task.fill(R, 0)
    task.call_primitive("gemm", R, A, B.T)


@task.define(leaf=True)
def fold(E, total, top, mass, R, A, B, slope):
    row, column = task.index(A, 0)[:, None], task.index(B, 0)[None, :]
    seen = (column <= row) & ((row - column <= W) | (column < S))
    biased = R / math.sqrt(A.shape[1]) - slope[:, None] * (row - column)
    T = task.empty(R.shape, task.float32, name="T")
    high = task.empty(top.shape, task.float32, name="high")
    past = task.empty(top.shape, task.float32, name="past")
    T[:, :] = task.where(seen, biased, -1e30)
    high[:] = task.maximum(top, task.max(T, axis=1))
    past[:] = task.exp(top - high)
    T[:, :] = task.where(seen, task.exp(T - high[:, None]), 0.0)
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
def head(O, Q, K, V, slope):
    size = task.tunable("block_N", 32)
    total = task.zeros(O.shape, task.float32, name="total")
    top = task.full(Q.shape[:1], -1e30, name="top")
    mass = task.zeros(Q.shape[:1], name="mass")
    Kp, Vp = (task.partition(x, shape=(size, x.shape[1])) for x in (K, V))
    low = task.greatest(task.cdiv(S, size), task.greatest(0, task.start(Q, 0) - W) // size)
    high = task.least(Kp.shape[0], (task.start(Q, 0) + Q.shape[0] - 1) // size + 1)

    def walk(k):
        R = task.empty((Q.shape[0], Kp[k, 0].shape[0]), task.float32, name="R")
        E = task.empty(R.shape, Q.dtype, name="E")
        task.launch(dots, R, Q, Kp[k, 0])
        task.launch(fold, E, total, top, mass, R, Q, Kp[k, 0], slope)
        task.launch(weigh, total, E, Vp[k, 0])

    for k in task.sequential_range(task.cdiv(S, size)):
        walk(k)
    for step in task.sequential_range(high - low):
        walk(low + step)
    task.launch(divide, O, total, mass)


@task.define
def alibi_sinks(
    O: task.Tensor["H", "N", "D"],
    Q: task.Tensor["H", "N", "D"],
    K: task.Tensor["H", "N", "D"],
    V: task.Tensor["H", "N", "D"],
    slope: task.Tensor["H", task.float32],
):
    block = (1, task.tunable("block_M", 32), Q.shape[2])
    Op, Qp = task.partition(O, shape=block), task.partition(Q, shape=block)
    for h, i in task.parallel_range(*Op.shape[:2]):
        task.launch(head, Op[h, i, 0][0], Qp[h, i, 0][0], K[h], V[h], slope[h : h + 1])
