"""Attention with its log-sum-exp: O = softmax(scale * Q K^T) V, L = log(sum of exp(scale * Q K^T)).

As `attention`, with one number more a query, L [B, H, M] in float32, of float64 tensors, too: what
a gradient takes, and what joins the results for parts of the keys. A query that sees no key has
-inf. Source: Dao, FlashAttention-2, arXiv 2307.08691, 3.1.
"""

import math

from septran import task
from septran.operators.attention import (
    LOG2_E,
    heads_a_group,
    normalise,
    times,
    unit_of,
    walk_keys,
)

EXAMPLE = {"B": 1, "H": 4, "M": 256, "N": 256, "D": 64}
SAME = {"G": "H"}
CASES = (
    {"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 16},
    {"B": 1, "H": 1, "G": 1, "M": 100, "N": 70, "D": 64, "causal": True},
    {"B": 2, "H": 4, "G": 2, "M": 1, "N": 130, "D": 32, "dtype": "float16"},
)


@task.define(leaf=True)
def log_sums(L, m, l, *, scale: task.static):
    """L = log(l) and the maximum, which is as `softmax_step` leaves it."""
    top = times(m, unit_of(scale * LOG2_E))
    L[:] = task.where(task.equal(l, 0.0), -task.inf, (top + task.log2(l)) * math.log(2.0))


@task.define
def attention_lse_block(O, L, Q, K, V, *, scale: task.static, ahead: task.static):
    """One block of queries."""
    acc, m, l = walk_keys(Q, K, V, scale, ahead)
    task.launch(normalise, O, acc, l)
    task.launch(log_sums, L, m, l, scale=scale)


@task.define
def attention_lse_head(O, L, Q, K, V, *, scale: task.static, ahead: task.static):
    """A head of keys and the heads of queries that share it: blocks, each on its own."""
    rows = task.tunable("block_M")
    for h in task.parallel_range(Q.shape[0]):
        Op, Qp = (task.partition(x[h], shape=(rows, x.shape[2])) for x in (O, Q))
        Lp = task.partition(L[h], shape=(rows,))
        for i in task.parallel_range(Op.shape[0]):
            given = Op[i, 0], Lp[i], Qp[i, 0], K, V
            task.launch(attention_lse_block, *given, scale=scale, ahead=ahead)


@task.define
def attention_lse(
    O: task.Tensor["B", "H", "M", "D"],
    L: task.Tensor["B", "H", "M", task.float32],
    Q: task.Tensor["B", "H", "M", "D"],
    K: task.Tensor["B", "G", "N", "D"],
    V: task.Tensor["B", "G", "N", "D"],
    *,
    causal: bool = False,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V and L for each batch and head."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else scale
    ahead = K.shape[2] - Q.shape[2] if causal else None
    group = heads_a_group(Q, K)
    for b, g in task.parallel_range(*K.shape[:2]):
        o, q = (task.partition(x[b], shape=(group, *x.shape[2:]))[g, 0, 0] for x in (O, Q))
        l = task.partition(L[b], shape=(group, L.shape[2]))[g, 0]
        task.launch(attention_lse_head, o, l, q, K[b, g], V[b, g], scale=factor, ahead=ahead)


BACKWARD = "attention_backward"
"""The operator that computes the gradient (`septran.torch`)."""
