"""Attention by blocks: O = softmax(scale * Q K^T) V over the blocks of scores that a mask names.

Q and O [B, H, M, D], K and V [B, G, N, D]; G heads of keys serve H heads of queries, H/G each.
mask [B, H, I, J], uint8 of 0 and 1, has an element for each block of `rows` queries by `columns`
keys, of which the last may be smaller: of a block with 0 no score is computed, and nothing follows
from its keys and values. With `causal` query i sees, of the others, keys up to i + N - M. A query
that sees no key gives 0. `scale` is 1/sqrt(D) unless given. Source: Child et al., Sparse
Transformers, arXiv 1904.10509; the walk is that of `attention`.
"""

import math

from septran import task
from septran.operators.attention import (
    heads_a_group,
    keys_seen,
    normalise,
    scores_tile,
    softmax_step,
    values_tile,
)

EXAMPLE = {"B": 1, "H": 4, "M": 512, "N": 512, "D": 64}
SAME = {"G": "H"}
CASES = (
    {"B": 1, "H": 2, "G": 1, "M": 40, "N": 70, "D": 16, "rows": 16, "columns": 32},
    {"B": 1, "H": 2, "G": 2, "M": 200, "N": 200, "D": 64, "causal": True},
    {"B": 2, "H": 4, "G": 2, "M": 33, "N": 130, "D": 32, "columns": 16, "dtype": "float16"},
)


@task.define
def sparse_block(
    O, Q, K, V, mask, *, scale: task.static, ahead: task.static, columns: int
):  # fmt: skip
    """One block of queries, or a part of it: walk the blocks of keys that its row names."""
    keys = task.tunable("block_N")
    Kp, Vp = (task.partition(x, shape=(columns, x.shape[1])) for x in (K, V))
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    for j in task.sequential_range(task.cdiv(keys_seen(K, Q, ahead), columns)):
        with task.when(mask[j]):
            kp, vp = (task.partition(x[j, 0], shape=(keys, K.shape[1])) for x in (Kp, Vp))
            for n in task.sequential_range(kp.shape[0]):
                k, v = kp[n, 0], vp[n, 0]
                S = task.empty((Q.shape[0], k.shape[0]), task.float32, name="S")
                P = task.empty(S.shape, Q.dtype, name="P")
                task.launch(scores_tile, S, Q, k)
                task.launch(softmax_step, P, acc, m, l, S, Q, k, scale=scale, ahead=ahead)
                task.launch(values_tile, acc, P, v)
    task.launch(normalise, O, acc, l)


@task.define
def sparse_head(
    O, Q, K, V, mask, *, scale: task.static, ahead: task.static, rows: int, columns: int
):  # fmt: skip
    """A head of keys and the heads of queries that share it: blocks, each on its own."""
    # A row of blocks is one block of queries, or as many equal ones as do not cut the next row.
    parts = task.cdiv(rows, task.tunable("block_M"))
    while rows % parts:
        parts += 1
    flags = {"scale": scale, "ahead": ahead, "columns": columns}
    for h in task.parallel_range(Q.shape[0]):
        Op, Qp = (task.partition(x[h], shape=(rows // parts, x.shape[2])) for x in (O, Q))
        for i in task.parallel_range(Op.shape[0]):
            task.launch(sparse_block, Op[i, 0], Qp[i, 0], K, V, mask[h, i // parts], **flags)


@task.define
def block_sparse_attention(
    O: task.Tensor["B", "H", "M", "D"],
    Q: task.Tensor["B", "H", "M", "D"],
    K: task.Tensor["B", "G", "N", "D"],
    V: task.Tensor["B", "G", "N", "D"],
    mask: task.Tensor[
        "B", "H", "(M + rows - 1) // rows", "(N + columns - 1) // columns", task.uint8
    ],
    *,
    rows: int = 64,
    columns: int = 64,
    causal: bool = False,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V for each batch and head."""
    task.require(min(rows, columns) > 0, f"blocks have elements, not {rows} x {columns}")
    factor = 1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else scale
    flags = {"scale": factor, "rows": rows, "columns": columns}
    flags["ahead"] = K.shape[2] - Q.shape[2] if causal else None
    group = heads_a_group(Q, K)
    for b, g in task.parallel_range(*K.shape[:2]):
        o, q, of = (task.partition(x[b], shape=(group, *x.shape[2:])) for x in (O, Q, mask))
        task.launch(sparse_head, o[g, 0, 0], q[g, 0, 0], K[b, g], V[b, g], of[g, 0, 0], **flags)
