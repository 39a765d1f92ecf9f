"""The gated half of a feed-forward layer: Y = silu(X G) * (X U), both products of one tile.

X [M, K], G and U [K, N], Y [M, N].
"""

from septran import task

EXAMPLE = {"M": 256, "N": 256, "K": 256}
CASES = ({"M": 100, "N": 130, "K": 70}, {"M": 17, "N": 256, "K": 300})


@task.define(leaf=True)
def multiply(S, X, G):
    task.call_primitive("gemm", S, X, G)


@task.define(leaf=True)
def gate(Y, S, T):
    Y[:, :] = task.silu(S) * T


@task.define
def cell(Y, X, G, U):
    size = task.tunable("block_K")
    S = task.zeros(Y.shape, task.float32, name="S")
    T = task.zeros(Y.shape, task.float32, name="T")
    Xp = task.partition(X, shape=(X.shape[0], size))
    Gp, Up = (task.partition(x, shape=(size, x.shape[1])) for x in (G, U))
    for k in task.sequential_range(Xp.shape[1]):
        task.launch(multiply, S, Xp[0, k], Gp[k, 0])
        task.launch(multiply, T, Xp[0, k], Up[k, 0])
    task.launch(gate, Y, S, T)


@task.define
def swiglu(
    Y: task.Tensor["M", "N"],
    X: task.Tensor["M", "K"],
    G: task.Tensor["K", "N"],
    U: task.Tensor["K", "N"],
):
    rows, columns = task.tunable("block_M"), task.tunable("block_N")
    Yp = task.partition(Y, shape=(rows, columns))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    Gp, Up = (task.partition(x, shape=(x.shape[0], columns)) for x in (G, U))
    for i, j in task.parallel_range(*Yp.shape):
        task.launch(cell, Yp[i, j], Xp[i, 0], Gp[0, j], Up[0, j])
