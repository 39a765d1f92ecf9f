"""Gradient of swiglu: dX, dW and dV from X, W, V, the gates G = X @ W and U = X @ V, and dY.

With dG = dY * U * silu'(G) and dU = dY * silu(G), both kept in the inputs' dtype, as torch keeps
them: dX = dG @ W^T + dU @ V^T, dW = X^T @ dG and dV = X^T @ dU. X and dX [M, K], W, V, dW and dV
[K, N], G, U and dY [M, N], any float dtype; sums as in gemm. `swiglu_gates` gives G and U.
Source: Giles, Collected Matrix Derivative Results for Algorithmic Differentiation, 2008, 2.2.2.
"""

from septran import task
from septran.operators.elementwise_backward import DERIVATIVES
from septran.operators.gemm import accumulator, gemm_core, gemm_tile

EXAMPLE = {"M": 256, "N": 512, "K": 256}
CASES = (
    {"M": 70, "N": 40, "K": 66},
    {"M": 64, "N": 128, "K": 128},
    {"M": 1, "N": 100, "K": 50, "dtype": "float16"},
)


@task.define(leaf=True)
def gate_slopes_tile(dG, dU, G, U, dY):
    """Both slopes of one tile."""
    dG[:, :] = dY * U * DERIVATIVES["silu"](G)
    dU[:, :] = dY * task.silu(G)


@task.define
def gate_slopes(dG, dU, G, U, dY):
    """Tiles, each on its own."""
    tile = (task.tunable("block_height"), task.tunable("block_width"))
    parts = [task.partition(T, shape=tile) for T in (dG, dU, G, U, dY)]
    for i, j in task.parallel_range(parts[0].shape):
        task.launch(gate_slopes_tile, *(part[i, j] for part in parts))


@task.define
def two_products_block(C, A, B, D, E):
    """One block of C = A @ B + D @ E: walk one sum, then the other."""
    step = task.tunable("block_K")
    acc = accumulator(C)
    task.fill(acc, 0)
    for left, right in ((A, B), (D, E)):
        Lp = task.partition(left, shape=(left.shape[0], step))
        Rp = task.partition(right, shape=(step, right.shape[1]))
        for k in task.sequential_range(Lp.shape[1]):
            task.launch(gemm_tile, acc, Lp[0, k], Rp[k, 0])
    if acc is not C:
        task.copy(C, acc)


@task.define
def two_products(C, A, B, D, E):
    """C in blocks, each on its own."""
    m, n = task.tunable("block_M"), task.tunable("block_N")
    Cp = task.partition(C, shape=(m, n))
    Ap, Dp = (task.partition(T, shape=(m, T.shape[1])) for T in (A, D))
    Bp, Ep = (task.partition(T, shape=(T.shape[0], n)) for T in (B, E))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(two_products_block, Cp[i, j], Ap[i, 0], Bp[0, j], Dp[i, 0], Ep[0, j])


@task.define
def swiglu_backward(
    dX: task.Tensor["M", "K"],
    dW: task.Tensor["K", "N"],
    dV: task.Tensor["K", "N"],
    X: task.Tensor["M", "K"],
    W: task.Tensor["K", "N"],
    V: task.Tensor["K", "N"],
    G: task.Tensor["M", "N"],
    U: task.Tensor["M", "N"],
    dY: task.Tensor["M", "N"],
):
    """The slopes of both gates, then the products that they go through."""
    dG, dU = (task.empty(dY.shape, dY.dtype, name=name) for name in ("dG", "dU"))
    task.launch(gate_slopes, dG, dU, G, U, dY)
    task.launch(two_products, dX, dG, W.T, dU, V.T)
    task.launch(gemm_core, dW, X.T, dG)
    task.launch(gemm_core, dV, X.T, dU)
