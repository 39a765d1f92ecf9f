"""Matrix product with the K axis in independent parts: C = sum over p of A[:, p] @ B[p, :].

A [M, K], B [K, N], C [M, N], dtypes as `gemm`; partial sums in float32 (int32), added in
order. For few rows and columns and a long K, where blocks of C alone would leave units idle.
Source: Osama et al., Stream-K, arXiv 2301.03598 (fixed split).
"""

from septran import task
from septran.operators.gemm import gemm_core, sum_parts

EXAMPLE = {"M": 64, "N": 64, "K": 4096}
CASES = (
    {"M": 40, "N": 33, "K": 1100},
    {"M": 64, "N": 64, "K": 2048},
    {"M": 1, "N": 30, "K": 1500, "dtype": "float16"},
)


def add_up_parts(block, C, A, rights, *, depth, step, lefts=(), **flags):
    """C = the sum of what `block` makes of parts of K, and of `step` columns, each on its own.

    `rights` are the operands with columns, and how many rows each has in a part of `depth` steps;
    `lefts` are others without columns, and their rows in a part: None of those that all take whole.
    """
    Ap = task.partition(A, shape=(A.shape[0], depth))
    cut = [task.partition(x, shape=(rows, step)) for x, rows in rights]
    # In the type of the sums, so that C is rounded once.
    parts = task.empty((Ap.shape[1], *C.shape), task.accumulator_dtype(C.dtype), name="parts")
    for p, j in task.parallel_range(cut[0].shape):
        own = (x if n is None else task.partition(x, shape=(n, x.shape[1]))[p, 0] for x, n in lefts)
        part = task.partition(parts[p], shape=(C.shape[0], step))
        task.launch(block, part[0, j], Ap[0, p], *own, *(x[p, j] for x in cut), **flags)
    task.launch(sum_parts, C, parts)


@task.define
def gemm_splitk(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    """C = A @ B by parts of K."""
    depth = task.tunable("split_K", 1024)
    add_up_parts(gemm_core, C, A, ((B, depth),), depth=depth, step=B.shape[1])
