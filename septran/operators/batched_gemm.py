"""Batched matrix product: C[b] = A[b] @ B[b].

A [S, M, K], B [S, K, N], C [S, M, N]; dtypes as `gemm`. Source: BLAS extensions, batched GEMM.
"""

from septran import task
from septran.operators.gemm import gemm_core

EXAMPLE = {"S": 8, "M": 256, "N": 256, "K": 256}
CASES = (
    {"S": 3, "M": 40, "N": 33, "K": 70},
    {"S": 2, "M": 128, "N": 64, "K": 128},
    {"S": 5, "M": 1, "N": 100, "K": 30, "dtype": "float16"},
)


@task.define
def batched_gemm(
    C: task.Tensor["S", "M", "N"], A: task.Tensor["S", "M", "K"], B: task.Tensor["S", "K", "N"]
):
    """C[b] = A[b] @ B[b] for each b."""
    for b in task.parallel_range(C.shape[0]):
        task.launch(gemm_core, C[b], A[b], B[b])
