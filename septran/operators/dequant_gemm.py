"""Matrix product with quantised weights: C = A @ ((W - zero) * scale).

A [M, K] and C [M, N] in a float dtype, scale and zero [K/group, N] in A's dtype, one a group
of K and column; W is passed as bytes, uint8. `bits` 8: they are int8 [K, N]
(`w.view(torch.uint8)`). `bits` 4: two unsigned weights each, [K/2, N]; of each group's
`group`/2 rows the low halves are the group's first rows, the high halves its last ones, so
that both unpack without a shuffle. Sums in float32. Source: Frantar et al., GPTQ, arXiv
2210.17323 (groups); Marlin, arXiv 2408.11743 (packing by halves).
"""

from septran import task
from septran.operators.gemm import accumulator, gemm_tile
from septran.operators.gemm_splitk import add_up_parts

EXAMPLE = {"M": 64, "N": 256, "K": 256}
CASES = (
    {"M": 40, "N": 70, "K": 192},
    {"M": 64, "N": 128, "K": 128, "bits": 8},
    {"M": 1, "N": 100, "K": 96, "group": 32, "dtype": "float16"},
)


@task.define(leaf=True)
def unpack8(T, W, scale, zero):
    """T = (W - zero) * scale for some rows of one group."""
    # A byte is a signed weight: with its sign bit inverted it is that weight plus 128.
    signed, wide = (W ^ 128).astype(task.int32) - 128, task.compute_dtype(T.dtype)
    T[:, :] = (signed.astype(wide) - zero) * scale


@task.define(leaf=True)
def unpack4(T, W, scale, zero):
    """The same, two weights a byte."""
    half, wide = W.shape[0], task.compute_dtype(T.dtype)
    T[:half, :] = ((W & 15).astype(wide) - zero) * scale
    T[half:, :] = ((W >> 4).astype(wide) - zero) * scale


@task.define
def dequant_block(C, A, W, scale, zero, *, bits: int, group: int):
    """One block of C: walk the groups of K."""
    acc = accumulator(C)
    Ap = task.partition(A, shape=(A.shape[0], group))
    Wp = task.partition(W, shape=(group * bits // 8, W.shape[1]))
    Sp, Zp = (task.partition(x, shape=(1, x.shape[1])) for x in (scale, zero))
    task.fill(acc, 0)
    for k in task.sequential_range(Ap.shape[1]):
        T = task.empty((group, W.shape[1]), A.dtype, name="T")
        task.launch(unpack4 if bits == 4 else unpack8, T, Wp[k, 0], Sp[k, 0], Zp[k, 0])
        task.launch(gemm_tile, acc, Ap[0, k], T)
    if acc is not C:
        task.copy(C, acc)


@task.define(leaf=True)
def widen8(T, W):
    """T = W for some rows of one group."""
    T[:, :] = ((W ^ 128).astype(task.int32) - 128).astype(T.dtype)


@task.define(leaf=True)
def widen4(T, W):
    """The same, two weights a byte."""
    half = W.shape[0]
    T[:half, :] = (W & 15).astype(T.dtype)
    T[half:, :] = (W >> 4).astype(T.dtype)


@task.define(leaf=True)
def sum_rows(S, A):
    """S = the sums of A's rows."""
    S[:, 0] = task.sum(A.astype(S.dtype), axis=1)


@task.define(leaf=True)
def add_shifted(C, P, S, scale, zero):
    """C += (P - S * zero) * scale, the sums of one group of K with W - zero for W."""
    C[:, :] = C + (P.astype(C.dtype) - S * zero) * scale


@task.define(variant_of="dequant_block")
def dequant_by_sums(C, A, W, scale, zero, *, bits: int, group: int):
    """The same, but not the weights are shifted and scaled: the sums of a group, which are fewer.

    Its sums are of A * W and of A, so that they may lose what is small beside these: the bound is
    theirs, and an infinite element of A makes NaN where the other gives infinities.
    """
    acc = accumulator(C)
    Ap = task.partition(A, shape=(A.shape[0], group))
    Wp = task.partition(W, shape=(group * bits // 8, W.shape[1]))
    Xp, Zp = (task.partition(x, shape=(1, x.shape[1])) for x in (scale, zero))
    S = task.empty((A.shape[0], scale.shape[0]), acc.dtype, name="S")
    Sp = task.partition(S, shape=(A.shape[0], 1))
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(sum_rows, Sp[0, k], Ap[0, k])
    task.fill(acc, 0)
    for k in task.sequential_range(Ap.shape[1]):
        T = task.empty((group, W.shape[1]), A.dtype, name="T")
        P = task.empty(C.shape, acc.dtype, name="P")
        task.launch(widen4 if bits == 4 else widen8, T, Wp[k, 0])
        task.fill(P, 0)
        task.launch(gemm_tile, P, Ap[0, k], T)
        # Scale and zero are one for all rows of the group, so that they are taken out of its sums.
        task.launch(add_shifted, acc, P, Sp[0, k], Xp[k, 0], Zp[k, 0])
    if acc is not C:
        task.copy(C, acc)


@task.define(leaf=True)
def shift4_apart(L, H, X, W, scale, zero):
    """L and H = W - zero, of the low and of the high halves of bytes; X = scale."""
    wide = task.compute_dtype(L.dtype)
    X[:] = scale[0, :]
    L[:, :] = (W & 15).astype(wide) - zero
    H[:, :] = (W >> 4).astype(wide) - zero


@task.define(leaf=True)
def shift8(T, X, W, scale, zero):
    """T = W - zero; X = scale."""
    signed, wide = (W ^ 128).astype(task.int32) - 128, task.compute_dtype(T.dtype)
    X[:] = scale[0, :]
    T[:, :] = signed.astype(wide) - zero


@task.define(leaf=True)
def add_scaled(C, P, scale):
    """C += P * scale, the sums of one group of K."""
    C[:, :] = C + P * scale[:, None]


@task.define(variant_of="dequant_block")
def dequant_turned(C, A, W, scale, zero, *, bits: int, group: int):
    """The same, but the weights are the left operand, and the product is C's transpose.

    Left operands can be read where they are computed, in the registers of threads. Few rows of A
    are few columns here, which tensor cores take in smaller steps than rows. Not the weights are
    scaled, but the sums of a group, which are fewer: weights are rounded once, as they are there.
    """
    pieces = 8 // bits
    depth, columns = group // pieces, C.shape[1]
    acc = task.zeros((columns, C.shape[0]), task.accumulator_dtype(C.dtype), name="acc")
    Ap = task.partition(A, shape=(A.shape[0], depth))
    Wp = task.partition(W, shape=(depth, columns))
    Sp, Zp = (task.partition(x, shape=(1, columns)) for x in (scale, zero))
    for k in task.sequential_range(Wp.shape[0]):
        T = [task.empty((columns, depth), A.dtype, name=name) for name in "LH"[:pieces]]
        X = task.empty((columns,), acc.dtype, name="X")
        P = task.zeros(acc.shape, acc.dtype, name="P")
        shift = shift4_apart if bits == 4 else shift8
        task.launch(shift, *(x.T for x in T), X, Wp[k, 0], Sp[k, 0], Zp[k, 0])
        for piece, weights in enumerate(T):
            task.launch(gemm_tile, P, weights, Ap[0, k * pieces + piece].T)
        task.launch(add_scaled, acc, P, X)
    task.copy(C, acc.T)


@task.define
def dequant_gemm(
    C: task.Tensor["M", "N"],
    A: task.Tensor["M", "K"],
    W: task.Tensor["K * bits // 8", "N", task.uint8],
    scale: task.Tensor["K // group", "N"],
    zero: task.Tensor["K // group", "N"],
    *,
    bits: int = 4,
    group: int = 64,
):
    """C in blocks, each on its own."""
    task.require(bits in (4, 8), f"weights have 4 or 8 bits, not {bits}")
    task.require(group > 0 and group % 2 == 0, f"a group has an even number of rows, not {group}")
    task.require(A.shape[1] % group == 0, f"{A.shape[1]} rows are not in whole groups of {group}")
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Cp = task.partition(C, shape=tile)
    Ap = task.partition(A, shape=(tile[0], A.shape[1]))
    Wp, Sp, Zp = (task.partition(x, shape=(x.shape[0], tile[1])) for x in (W, scale, zero))
    for i, j in task.parallel_range(Cp.shape):
        operands = (Ap[i, 0], Wp[0, j], Sp[0, j], Zp[0, j])
        task.launch(dequant_block, Cp[i, j], *operands, bits=bits, group=group)


@task.define(variant_of="dequant_gemm")
def dequant_in_parts(C, A, W, scale, zero, *, bits: int, group: int):
    """Parts of K, each on its own, and then their sums: what a part reads of W lies together."""
    depth = equal_parts(A.shape[1], group, task.tunable("split_K", 512))
    rights = ((W, depth * bits // 8), (scale, depth // group), (zero, depth // group))
    step = task.tunable("split_N", 4096)
    flags = {"bits": bits, "group": group}
    add_up_parts(dequant_block, C, A, rights, depth=depth, step=step, **flags)


def equal_parts(total, group, most):
    """The steps of K in a part: whole groups, as many in each, and at most so many steps.

    All parts are alike, so that every one of them is known to end with a group.
    """
    count = max(1, most // group)
    while total // group % count:
        count -= 1
    return group * count
