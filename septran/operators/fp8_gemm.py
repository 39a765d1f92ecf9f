"""Matrix product of 8-bit floats with scales of blocks: C = (A * SA) @ (B * SB).T.

A [M, K] and B [N, K] are float8_e4m3fn, C [M, N] any float type, float32 where none is named. SA
[M, ceil(K/block)] has a scale for each 1 x `block` elements of a row of A, SB [ceil(N/block),
ceil(K/block)] one for each `block` x `block` of B, both float32. Each block of K is summed by
itself, then multiplied by its scales and added in float32: so a tensor core's short sums stay
short. Where no instruction multiplies 8-bit floats they are widened, which is exact. Source:
DeepSeek-AI, DeepSeek-V3, arXiv 2412.19437, section 3.3.
"""

from septran import task
from septran.operators.gemm import gemm_tile

EXAMPLE = {"M": 64, "N": 256, "K": 256}
CASES = (
    {"M": 40, "N": 70, "K": 200, "block": 32},
    {"M": 64, "N": 256, "K": 256},
    {"M": 1, "N": 100, "K": 96, "block": 64, "dtype": "bfloat16"},
)


@task.define(leaf=True)
def widen(T, X):
    """T = X, of a wider type."""
    T[:, :] = X.astype(T.dtype)


@task.define(leaf=True)
def add_block(total, P, SA, SB):
    """Add P * SA * SB, the sums of a block of K: a scale for each row, one for all columns."""
    total[:, :] = total + P * (SA * SB)


@task.define
def fp8_block(C, A, B, SA, SB, *, block: int):
    """A block of C, whose operands are widened: walk the blocks of K."""
    total = task.zeros(C.shape, task.float32, name="total")
    Ap, Bp = (task.partition(x, shape=(x.shape[0], block)) for x in (A, B))
    Sp, Tp = task.partition(SA, shape=(SA.shape[0], 1)), task.partition(SB, shape=(1, 1))
    for k in task.sequential_range(Ap.shape[1]):
        left = task.empty(Ap[0, k].shape, task.bfloat16, name="left")
        right = task.empty(Bp[0, k].shape, task.bfloat16, name="right")
        P = task.zeros(C.shape, task.float32, name="P")
        task.launch(widen, left, Ap[0, k])
        task.launch(widen, right, Bp[0, k])
        task.launch(gemm_tile, P, left, right.T)
        task.launch(add_block, total, P, Sp[0, k], Tp[0, k])
    task.copy(C, total)


@task.define(variant_of="fp8_block")
def fp8_block_as_it_is(C, A, B, SA, SB, *, block: int):
    """The same of operands as they are: of 8 bits where an instruction multiplies such."""
    total = task.zeros(C.shape, task.float32, name="total")
    Ap, Bp = (task.partition(x, shape=(x.shape[0], block)) for x in (A, B))
    Sp, Tp = task.partition(SA, shape=(SA.shape[0], 1)), task.partition(SB, shape=(1, 1))
    for k in task.sequential_range(Ap.shape[1]):
        P = task.zeros(C.shape, task.float32, name="P")
        task.launch(gemm_tile, P, Ap[0, k], Bp[0, k].T)
        task.launch(add_block, total, P, Sp[0, k], Tp[0, k])
    task.copy(C, total)


def tiles(C, A, B, SA, SB, block):
    """The blocks of C with what they are made of: as many columns as have one scale, or fewer."""
    height, most = task.tunable("block_M"), min(task.tunable("block_N"), block)
    width = next(n for n in range(most, 0, -1) if block % n == 0)
    Cp = task.partition(C, shape=(height, width))
    Ap, Sp = (task.partition(x, shape=(height, x.shape[1])) for x in (A, SA))
    Bp, Tp = (task.partition(x, shape=(n, x.shape[1])) for x, n in ((B, width), (SB, 1)))
    return Cp, lambda i, j: (Cp[i, j], Ap[i, 0], Bp[j, 0], Sp[i, 0], Tp[j * width // block, 0])


@task.define
def fp8_core(C, A, B, SA, SB, *, block: int):
    """C in blocks, each on its own."""
    Cp, parts = tiles(C, A, B, SA, SB, block)
    for i, j in task.parallel_range(Cp.shape):
        task.launch(fp8_block, *parts(i, j), block=block)


@task.define
def widen_all(T, X):
    """T = X in blocks of rows."""
    rows = task.tunable("block_rows")
    Tp, Xp = (task.partition(x, shape=(rows, x.shape[1])) for x in (T, X))
    for i in task.parallel_range(Tp.shape[0]):
        task.launch(widen, Tp[i, 0], Xp[i, 0])


@task.define(variant_of="fp8_core")
def fp8_widened(C, A, B, SA, SB, *, block: int):
    """The same where many blocks share an operand: each is widened once, to what C is summed in."""
    L, R = (task.empty(x.shape, task.float32, name=n) for x, n in ((A, "L"), (B, "R")))
    task.launch(widen_all, L, A)
    task.launch(widen_all, R, B)
    Cp, parts = tiles(C, L, R, SA, SB, block)
    for i, j in task.parallel_range(Cp.shape):
        task.launch(fp8_block_as_it_is, *parts(i, j), block=block)


@task.define
def fp8_gemm(
    C: task.Tensor["M", "N"],
    A: task.Tensor["M", "K", task.float8_e4m3fn],
    B: task.Tensor["N", "K", task.float8_e4m3fn],
    SA: task.Tensor["M", "(K + block - 1) // block", task.float32],
    SB: task.Tensor["(N + block - 1) // block", "(K + block - 1) // block", task.float32],
    *,
    block: int = 128,
):
    """C = (A * SA) @ (B * SB).T."""
    task.require(block > 0, f"a block has some elements, not {block}")
    task.launch(fp8_core, C, A, B, SA, SB, block=block)
