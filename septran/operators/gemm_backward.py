"""Gradient of the matrix product C = A @ B: dA = dC @ B^T and dB = A^T @ dC.

A and dA [M, K], B and dB [K, N], dC [M, N]; with `trans_a` A and dA are [K, M], with `trans_b` B
and dB are [N, K]. Dtypes and sums as in gemm.
Source: Giles, Collected Matrix Derivative Results for Algorithmic Differentiation, 2008, 2.2.2.
"""

from septran import task
from septran.operators.gemm import gemm_core

EXAMPLE = {"M": 512, "N": 512, "K": 512}
CASES = (
    {"M": 70, "N": 130, "K": 90},
    {"M": 128, "N": 256, "K": 256},
    {"M": 33, "N": 1, "K": 100, "trans_b": True, "dtype": "float16"},
)


@task.define
def gemm_backward(
    dA: task.Tensor["K if trans_a else M", "M if trans_a else K"],
    dB: task.Tensor["N if trans_b else K", "K if trans_b else N"],
    A: task.Tensor["K if trans_a else M", "M if trans_a else K"],
    B: task.Tensor["N if trans_b else K", "K if trans_b else N"],
    dC: task.Tensor["M", "N"],
    *,
    trans_a: bool = False,
    trans_b: bool = False,
):
    """Two products, one for each operand."""
    task.launch(gemm_core, dA.T if trans_a else dA, dC, B if trans_b else B.T)
    task.launch(gemm_core, dB.T if trans_b else dB, A if trans_a else A.T, dC)
