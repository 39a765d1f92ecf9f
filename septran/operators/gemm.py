"""Matrix product: C = A @ B.

C[i, j] = sum over k of A[i, k] * B[k, j], for A [M, K], B [K, N], C [M, N]; with `trans_a`
A is given as [K, M], with `trans_b` B as [N, K]. Any float dtype (16-bit ones are summed
in float32), or int8 to int32. Source: BLAS level 3, GEMM.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 512, "K": 512}
CASES = (
    {"M": 70, "N": 130, "K": 90},
    {"M": 128, "N": 256, "K": 256},
    {"M": 33, "N": 1, "K": 100, "trans_b": True, "dtype": "float16"},
)


@task.define(leaf=True)
def gemm_tile(C, A, B):
    """C += A @ B on one tile."""
    task.call_primitive("gemm", C, A, B)


@task.define
def gemm_block(C, A, B):
    """One block of C: walk the K axis."""
    block_k = task.tunable("block_K")
    acc = accumulator(C)
    Ap = task.partition(A, shape=(A.shape[0], block_k))
    Bp = task.partition(B, shape=(block_k, B.shape[1]))
    task.fill(acc, 0)
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(gemm_tile, acc, Ap[0, k], Bp[k, 0])
    if acc is not C:
        task.copy(C, acc)


@task.define
def gemm_core(C, A, B):
    """C in blocks, each on its own."""
    block_m, block_n = task.tunable("block_M"), task.tunable("block_N")
    Cp = task.partition(C, shape=(block_m, block_n))
    Ap = task.partition(A, shape=(block_m, A.shape[1]))
    Bp = task.partition(B, shape=(B.shape[0], block_n))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_block, Cp[i, j], Ap[i, 0], Bp[0, j])


@task.define
def gemm_rows(C, A, B):
    """C += A @ B for some rows of C: one step of K, all of a panel's columns."""
    task.launch(gemm_tile, C, A, B)


@task.define
def gemm_step(C, A, B):
    """C += A @ B for one step of K: rows in blocks, each on its own."""
    block_m = task.tunable("block_M")
    Cp = task.partition(C, shape=(block_m, C.shape[1]))
    Ap = task.partition(A, shape=(block_m, A.shape[1]))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(gemm_rows, Cp[i, 0], Ap[i, 0], B)


@task.define
def gemm_panel(C, A, B):
    """A panel of columns of C: walk the K axis, so that a slab of B serves all rows."""
    block_k = task.tunable("block_K")
    acc = accumulator(C)
    Ap = task.partition(A, shape=(A.shape[0], block_k))
    Bp = task.partition(B, shape=(block_k, B.shape[1]))
    task.fill(acc, 0)
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(gemm_step, acc, Ap[0, k], Bp[k, 0])
    if acc is not C:
        task.copy(C, acc)


@task.define(variant_of="gemm_core")
def gemm_by_panels(C, A, B):
    """C in panels of columns, one after another."""
    block_n = task.tunable("block_N")
    Cp = task.partition(C, shape=(C.shape[0], block_n))
    Bp = task.partition(B, shape=(B.shape[0], block_n))
    for j in task.parallel_range(Cp.shape[1]):
        task.launch(gemm_panel, Cp[0, j], A, Bp[0, j])


@task.define
def gemm(
    C: task.Tensor["M", "N"],
    A: task.Tensor["K if trans_a else M", "M if trans_a else K"],
    B: task.Tensor["N if trans_b else K", "K if trans_b else N"],
    *,
    trans_a: bool = False,
    trans_b: bool = False,
):
    """C = A @ B, either operand transposed on request."""
    task.launch(gemm_core, C, A.T if trans_a else A, B.T if trans_b else B)


def accumulator(C):
    """C itself where it sums exactly enough, else a wider temporary of its shape."""
    wide = task.accumulator_dtype(C.dtype)
    return C if C.dtype == wide else task.empty(C.shape, wide, name="acc")


def equal_depth(total, step, most):
    """The depth of a part of `total`, of which there are at most so many: whole steps.

    All parts have as many steps, so that every one of them is known to end with one.
    """
    steps = task.cdiv(total, step)
    count = max(1, min(steps, most))
    while steps % count:
        count -= 1
    return steps // count * step


@task.define(leaf=True)
def add_part(total, part):
    """Add one part."""
    total[:, :] = total + part


@task.define(leaf=True)
def round_sum(C, total):
    """The sum in the dtype of C."""
    C[:, :] = total.astype(C.dtype)


@task.define
def sum_parts_block(C, parts):
    """Some rows of all parts, added in order."""
    total = task.zeros(C.shape, parts.dtype, name="total")
    for p in task.sequential_range(parts.shape[0]):
        task.launch(add_part, total, parts[p])
    task.launch(round_sum, C, total)


@task.define
def sum_parts(C, parts):
    """C = the sum of the parts, in blocks."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Cp = task.partition(C, shape=tile)
    Pp = task.partition(parts, shape=(parts.shape[0], *tile))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(sum_parts_block, Cp[i, j], Pp[0, i, j])


@task.define(variant_of="gemm_core")
def gemm_in_parts(C, A, B):
    """C in blocks and K in parts, each on its own, and then their sums: for few blocks of C."""
    m, n, step = task.tunable("block_M"), task.tunable("block_N"), task.tunable("block_K")
    depth = equal_depth(A.shape[1], step, task.tunable("parts", 2))
    Ap, Bp = task.partition(A, shape=(m, depth)), task.partition(B, shape=(depth, n))
    # In the type of the sums, so that C is rounded once.
    parts = task.empty((Ap.shape[1], *C.shape), task.accumulator_dtype(C.dtype), name="parts")
    Cp = task.partition(parts, shape=(1, m, n))
    for p, i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_block, task.partition(parts[p], shape=(m, n))[i, j], Ap[i, p], Bp[p, j])
    task.launch(sum_parts, C, parts)


BACKWARD = "gemm_backward"
"""The operator that computes the gradient (`septran.torch`)."""
