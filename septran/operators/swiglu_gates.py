"""swiglu with what its gradient takes: Y = silu(G) * U, G = X @ W and U = X @ V.

As `swiglu`, and G and U [M, N] in the inputs' dtype, as torch keeps them. Y is computed before
they are rounded. Source: Shazeer, GLU Variants Improve Transformer, 2020, arXiv 2002.05202.
"""

from septran import task
from septran.operators.gemm import gemm_tile

EXAMPLE = {"M": 256, "N": 512, "K": 256}
CASES = (
    {"M": 70, "N": 40, "K": 66},
    {"M": 64, "N": 128, "K": 128},
    {"M": 1, "N": 100, "K": 50, "dtype": "float16"},
)


@task.define(leaf=True)
def gates_tile(Y, G, U, gate, up):
    """Y = silu(gate) * up on one tile, and both of them as they are kept."""
    Y[:, :] = task.silu(gate) * up
    G[:, :] = gate
    U[:, :] = up


@task.define
def gates_block(Y, G, U, X, W, V):
    """One block of Y: walk the K axis."""
    step = task.tunable("block_K")
    wide = task.accumulator_dtype(Y.dtype)
    gate = task.zeros(Y.shape, wide, name="gate")
    up = task.zeros(Y.shape, wide, name="up")
    Xp = task.partition(X, shape=(X.shape[0], step))
    Wp, Vp = (task.partition(x, shape=(step, x.shape[1])) for x in (W, V))
    for k in task.sequential_range(Xp.shape[1]):
        task.launch(gemm_tile, gate, Xp[0, k], Wp[k, 0])
        task.launch(gemm_tile, up, Xp[0, k], Vp[k, 0])
    task.launch(gates_tile, Y, G, U, gate, up)


@task.define
def swiglu_gates(
    Y: task.Tensor["M", "N"],
    G: task.Tensor["M", "N"],
    U: task.Tensor["M", "N"],
    X: task.Tensor["M", "K"],
    W: task.Tensor["K", "N"],
    V: task.Tensor["K", "N"],
):
    """Y, G and U in blocks, each on its own."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Gp, Up = (task.partition(T, shape=tile) for T in (Y, G, U))
    Xp = task.partition(X, shape=(tile[0], X.shape[1]))
    Wp, Vp = (task.partition(x, shape=(x.shape[0], tile[1])) for x in (W, V))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(gates_block, Yp[i, j], Gp[i, j], Up[i, j], Xp[i, 0], Wp[0, j], Vp[0, j])


BACKWARD = "swiglu_backward"
"""The operator that computes the gradient (`septran.torch`)."""
