"""Attention whose scores are bounded by a soft cap: softmax(c tanh(Q K^T / (c sqrt(D)))) V.

Q and O [H, M, D], K and V [H, N, D], as in Gemma 2.
"""

import math

from septran import task

EXAMPLE = {"H": 2, "M": 256, "N": 256, "D": 64}
CASES = ({"H": 1, "M": 70, "N": 130, "D": 64}, {"H": 1, "M": 64, "N": 100, "D": 128})
CAP = 20.0


@task.define(leaf=True)
def dots(R, A, B):
    task.fill(R, 0)
    task.call_primitive("gemm", R, A, B.T)


@task.define(leaf=True)
def fold(E, total, top, mass, R, A):
    high = task.empty(top.shape, task.float32, name="high")
    past = task.empty(top.shape, task.float32, name="past")
    T = task.empty(R.shape, task.float32, name="T")
    T[:, :] = CAP * task.tanh(R / (CAP * math.sqrt(A.shape[1])))
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
def queries(O, Q, K, V):
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
    task.launch(divide, O, total, mass)


@task.define
def softcap_attention(
    O: task.Tensor["H", "M", "D"],
    Q: task.Tensor["H", "M", "D"],
    K: task.Tensor["H", "N", "D"],
    V: task.Tensor["H", "N", "D"],
):
    block = (1, task.tunable("block_M"), Q.shape[2])
    Op, Qp = task.partition(O, shape=block), task.partition(Q, shape=block)
    for h, i in task.parallel_range(*Op.shape[:2]):
        task.launch(queries, Op[h, i, 0][0], Qp[h, i, 0][0], K[h], V[h])
