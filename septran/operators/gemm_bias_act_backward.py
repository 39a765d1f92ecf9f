"""Gradient of gemm_bias_act: dA, dB and dbias from A, B, bias and dC.

With Z = A @ B + bias, computed again, and dZ = dC * act'(Z): dA = dZ @ B^T, dB = A^T @ dZ, and
dbias[j] = sum over i of dZ[i, j]. A and dA [M, K], B and dB [K, N] ([N, K] with `trans_b`), bias
and dbias [N], dC [M, N]. dZ is kept in the inputs' dtype, as torch keeps it; sums as in gemm, those
of dbias by blocks of rows, joined in their order. Source: Giles, Collected Matrix Derivative
Results for Algorithmic Differentiation, 2008, 2.2.2.
"""

from septran import task
from septran.operators.elementwise_backward import DERIVATIVES
from septran.operators.gemm import gemm_core

EXAMPLE = {"M": 512, "N": 512, "K": 512}
CASES = (
    {"M": 70, "N": 40, "K": 66},
    {"M": 128, "N": 128, "K": 128, "act": "gelu"},
    {"M": 3, "N": 100, "K": 50, "act": "none", "trans_b": True, "dtype": "float16"},
)


@task.define(leaf=True)
def slope_tile(dZ, part, Z, bias, dC, *, act: str):
    """Compute dZ = dC * act'(Z + bias) for some rows, and what they add to dbias."""
    if act == "none":
        dZ[:, :] = dC
    else:
        dZ[:, :] = dC * DERIVATIVES[act](Z + bias[None, :])
    part[:] = task.sum(dZ, axis=0)


@task.define
def slopes(dZ, dbias, Z, bias, dC, *, act: str):
    """Rows in blocks, each on its own; their parts of dbias are summed."""
    task.fill(dbias, 0)
    rows = (task.tunable("block_rows"), dZ.shape[1])
    dZp, Zp, dCp = (task.partition(T, shape=rows) for T in (dZ, Z, dC))
    for i in task.parallel_range(dZp.shape[0]):
        part = task.empty(bias.shape, task.accumulator_dtype(bias.dtype), name="part")
        task.launch(slope_tile, dZp[i, 0], part, Zp[i, 0], bias, dCp[i, 0], act=act)
        task.reduce_into(dbias, part, "sum")


@task.define
def gemm_bias_act_backward(
    dA: task.Tensor["M", "K"],
    dB: task.Tensor["N if trans_b else K", "K if trans_b else N"],
    dbias: task.Tensor["N"],
    A: task.Tensor["M", "K"],
    B: task.Tensor["N if trans_b else K", "K if trans_b else N"],
    bias: task.Tensor["N"],
    dC: task.Tensor["M", "N"],
    *,
    act: str = "relu",
    trans_b: bool = False,
):
    """The product again where the activation bends, the slopes, and a product for each operand."""
    dZ, Z = task.empty(dC.shape, dC.dtype, name="dZ"), dC
    if act != "none":
        Z = task.empty(dC.shape, task.accumulator_dtype(dC.dtype), name="Z")
        task.launch(gemm_core, Z, A, B.T if trans_b else B)
    task.launch(slopes, dZ, dbias, Z, bias, dC, act=act)
    task.launch(gemm_core, dA, dZ, B if trans_b else B.T)
    task.launch(gemm_core, dB.T if trans_b else dB, A.T, dZ)
