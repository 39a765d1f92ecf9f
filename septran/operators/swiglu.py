"""Gated feed-forward products: Y = silu(X @ W) * (X @ V).

X [M, K], W (the gate's weights) and V [K, N], Y [M, N], any float dtype; sums in float32 for
16-bit floats (float64 for float64), rounded once, after the gate. Both products walk K together,
so that a tile of X serves both. Source: Shazeer, GLU Variants Improve Transformer, 2020, arXiv
2002.05202.
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
def gate_tile(Y, G, U):
    """Y = silu(G) * U on one tile."""
    Y[:, :] = task.silu(G) * U


@task.define
def swiglu_block(Y, X, W, V):
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
    task.launch(gate_tile, Y, gate, up)


@task.define
def swiglu(
    Y: task.Tensor["M", "N"],
    X: task.Tensor["M", "K"],
    W: task.Tensor["K", "N"],
    V: task.Tensor["K", "N"],
):
    """Y in blocks, each on its own."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Xp = task.partition(Y, shape=tile), task.partition(X, shape=(tile[0], X.shape[1]))
    Wp, Vp = (task.partition(x, shape=(x.shape[0], tile[1])) for x in (W, V))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(swiglu_block, Yp[i, j], Xp[i, 0], Wp[0, j], Vp[0, j])


FORWARD = "swiglu_gates"
"""The operator that runs where a gradient is to follow, which takes the gates."""
