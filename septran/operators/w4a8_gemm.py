"""Matrix product of rows rounded to int8 and weights of 4 bits: C = s * (Q @ (W * scale)).

A [M, K] and C [M, N] in a float dtype. Each row of A is rounded to int8 by a scale of its own,
s[i] = max over k of |A[i, k]| / 127 and Q = round(A / s), as a token's activations are. W holds
two weights of -8 to 7 in each byte, uint8 [K/2, N], 8 added to both; of each group's `group`/2
rows the low halves are the group's first rows, the high halves its last ones (`dequant_gemm`).
scale [K/group, N] in A's dtype is one a group of K and column. Products of a group are summed
exactly, in int32, groups in float32. With `row_group`, a multiple of `group`, each so many elements
of a row have a scale of their own, as in blocks of Q8_0. Source: Lin et al., QServe, arXiv
2405.04532; Dettmers et al., LLM.int8(), arXiv 2208.07339 (scales of rows); ggml (Q8_0).
"""

from septran import task
from septran.operators.dequant_gemm import equal_parts
from septran.operators.gemm import gemm_tile
from septran.operators.gemm_splitk import add_up_parts

EXAMPLE = {"M": 64, "N": 256, "K": 256}
CASES = (
    {"M": 40, "N": 70, "K": 192},
    {"M": 64, "N": 128, "K": 128, "group": 32},
    {"M": 1, "N": 100, "K": 96, "group": 32, "row_group": 32, "dtype": "float16"},
)


@task.define(leaf=True)
def round_rows(Q, S, A):
    """Q = A / S rounded for some rows, whose largest magnitude becomes 127; S is 1 for zeros."""
    wide = task.compute_dtype(A.dtype)
    m = task.empty(A.shape[:1], wide, name="m")
    m[:] = task.max(task.abs(A.astype(wide)), axis=1)
    S[:] = task.where(m > 0, m / 127, 1)
    Q[:, :] = task.round(A / S[:, None]).astype(Q.dtype)


@task.define
def round_all(Q, S, A):
    """Rows in blocks, each on its own."""
    rows = task.tunable("block_rows")
    Qp, Ap = (task.partition(x, shape=(rows, x.shape[1])) for x in (Q, A))
    Sp = task.partition(S, shape=(rows,))
    for i in task.parallel_range(Qp.shape[0]):
        task.launch(round_rows, Qp[i, 0], Sp[i], Ap[i, 0])


@task.define
def round_groups(Q, S, A):
    """Groups of rows in blocks, each with scales of its own."""
    tile = (task.tunable("block_rows"), A.shape[1] // S.shape[0])
    Qp, Ap = (task.partition(x, shape=tile) for x in (Q, A))
    Sp = task.partition(S, shape=(1, tile[0]))
    for i, g in task.parallel_range(Qp.shape):
        task.launch(round_rows, Qp[i, g], Sp[g, i][0], Ap[i, g])


def rounded(A, group, row_group):
    """Q and S of A, whose rows are whole groups; S is [M], or [K/row_group, M]."""
    task.require(group > 0 and group % 2 == 0, f"a group has an even number of rows, not {group}")
    task.require(A.shape[1] % group == 0, f"{A.shape[1]} rows are not in whole groups of {group}")
    Q, wide = task.empty(A.shape, task.int8, name="Q"), task.compute_dtype(A.dtype)
    if not row_group:
        S = task.empty(A.shape[:1], wide, name="S")
        task.launch(round_all, Q, S, A)
        return Q, S
    whole = row_group > 0 and not row_group % group and not A.shape[1] % row_group
    task.require(
        whole, f"rows of {A.shape[1]} have no scale for each {row_group}: groups of {group}"
    )
    S = task.empty((A.shape[1] // row_group, A.shape[0]), wide, name="S")
    task.launch(round_groups, Q, S, A)
    return Q, S


@task.define(leaf=True)
def unpack_signed(T, W):
    """T = W - 8, two weights a byte."""
    half = W.shape[0]
    T[:half, :] = (W & 15).astype(T.dtype) - 8
    T[half:, :] = (W >> 4).astype(T.dtype) - 8


@task.define(leaf=True)
def add_scaled(C, P, scale):
    """C += P * scale, the sums of one group of K."""
    C[:, :] = C + P.astype(C.dtype) * scale


@task.define(leaf=True)
def add_scaled_twice(C, P, scale, S):
    """C += P * scale * S, the sums of one group of K, of which each row has a scale, too."""
    C[:, :] = C + P.astype(C.dtype) * scale * S[:, None]


@task.define(leaf=True)
def scale_rows(C, total, S):
    """C = total * S, a scale a row."""
    C[:, :] = (total * S[:, None]).astype(C.dtype)


@task.define
def w4a8_block(C, Q, S, W, scale, *, group: int):
    """One block of C: walk the groups of K."""
    total = task.zeros(C.shape, task.compute_dtype(C.dtype), name="total")
    Qp = task.partition(Q, shape=(Q.shape[0], group))
    Wp = task.partition(W, shape=(group // 2, W.shape[1]))
    Sp = task.partition(scale, shape=(1, scale.shape[1]))
    # How many groups of W have one scale of a row.
    shared = Qp.shape[1] // S.shape[0] if S.ndim == 2 else None
    for k in task.sequential_range(Qp.shape[1]):
        # At most 127 * 8 each: the sums of a group of up to two million rows are exact in int32.
        T = task.empty((group, W.shape[1]), task.int8, name="T")
        P = task.empty(C.shape, task.int32, name="P")
        task.launch(unpack_signed, T, Wp[k, 0])
        task.fill(P, 0)
        task.launch(gemm_tile, P, Qp[0, k], T)
        if shared is None:
            task.launch(add_scaled, total, P, Sp[k, 0])
        else:
            task.launch(add_scaled_twice, total, P, Sp[k, 0], S[k // shared])
    if shared is None:
        # A row of A has one scale for all of K, which is multiplied once.
        task.launch(scale_rows, C, total, S)
    else:
        task.copy(C, total)


@task.define
def w4a8_gemm(
    C: task.Tensor["M", "N"],
    A: task.Tensor["M", "K"],
    W: task.Tensor["K // 2", "N", task.uint8],
    scale: task.Tensor["K // group", "N"],
    *,
    group: int = 64,
    row_group: int = 0,
):
    """Rows are rounded once, then C in blocks, each on its own."""
    Q, S = rounded(A, group, row_group)
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Cp = task.partition(C, shape=tile)
    Qp = task.partition(Q, shape=(tile[0], Q.shape[1]))
    Sp = task.partition(S, shape=(*S.shape[:-1], tile[0]))
    Wp, Xp = (task.partition(x, shape=(x.shape[0], tile[1])) for x in (W, scale))
    for i, j in task.parallel_range(Cp.shape):
        s = Sp[0, i] if row_group else Sp[i]
        task.launch(w4a8_block, Cp[i, j], Qp[i, 0], s, Wp[0, j], Xp[0, j], group=group)


@task.define(variant_of="w4a8_gemm")
def w4a8_in_parts(C, A, W, scale, *, group: int, row_group: int):
    """Parts of K, each on its own, and then their sums: what a part reads of W lies together."""
    Q, S = rounded(A, group, row_group)
    depth = equal_parts(A.shape[1], row_group or group, task.tunable("split_K", 512))
    rights = ((W, depth // 2), (scale, depth // group))
    step = task.tunable("split_N", 4096)
    lefts = ((S, depth // row_group if row_group else None),)
    add_up_parts(w4a8_block, C, Q, rights, depth=depth, step=step, lefts=lefts, group=group)
