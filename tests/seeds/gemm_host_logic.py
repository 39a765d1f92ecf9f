"""The host task that the seeds' example names and leaves out."""

import task_lang as task
from gemm_logic import gemm_block_logic


@task.define
def gemm_host_logic(C, A, B):
    """C += A @ B: square blocks of C, each with its panel of A and of B."""
    size = task.tunable("block_size")
    Cp = task.partition(C, by="blocks", shape=(size, size))
    Ap = task.partition(A, by="blocks", shape=(size, A.shape[1]))
    Bp = task.partition(B, by="blocks", shape=(B.shape[0], size))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_block_logic, Cp[i, j], Ap[i, 0], Bp[0, j])
