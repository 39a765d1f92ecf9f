"""Matrix product with bias and activation in one pass: C = act(A @ B + bias).

A [M, K], B [K, N] ([N, K] with `trans_b`), bias [N], C [M, N]; act is none, relu, gelu (by
erf, as torch's default) or silu. Sums in float32 for 16-bit floats, and rounds once, after the
activation. Source: the epilogue of cublasLt (CUBLASLT_EPILOGUE_GELU_BIAS and its kin).
"""

from septran import task
from septran.operators.gemm import accumulator, gemm_core

EXAMPLE = {"M": 512, "N": 512, "K": 512}
CASES = (
    {"M": 70, "N": 40, "K": 66},
    {"M": 128, "N": 128, "K": 128, "act": "gelu"},
    {"M": 1, "N": 100, "K": 50, "act": "silu", "dtype": "float16"},
)
ACTIVATIONS = {"none": lambda x: x, "relu": task.relu, "gelu": task.gelu, "silu": task.silu}


@task.define(leaf=True)
def bias_act_tile(C, X, bias, *, act: str):
    """C = act(X + bias) on one tile."""
    C[:, :] = ACTIVATIONS[act](X + bias[None, :])


@task.define
def bias_act(C, X, bias, *, act: str):
    """The epilogue, rows in blocks."""
    block_m = task.tunable("block_rows")
    Cp = task.partition(C, shape=(block_m, C.shape[1]))
    Xp = task.partition(X, shape=(block_m, C.shape[1]))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(bias_act_tile, Cp[i, 0], Xp[i, 0], bias, act=act)


@task.define
def gemm_bias_act(
    C: task.Tensor["M", "N"],
    A: task.Tensor["M", "K"],
    B: task.Tensor["N if trans_b else K", "K if trans_b else N"],
    bias: task.Tensor["N"],
    *,
    act: str = "relu",
    trans_b: bool = False,
):
    """C = act(A @ B + bias), B transposed on request, as torch keeps the weights of a layer."""
    acc = accumulator(C)
    task.launch(gemm_core, acc, A, B.T if trans_b else B)
    task.launch(bias_act, C, acc, bias, act=act)


BACKWARD = "gemm_bias_act_backward"
"""The operator that computes the gradient (`septran.torch`)."""
