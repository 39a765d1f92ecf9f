"""Attention with a bias on the scores: O = softmax(scale * Q K^T + bias) V.

As `attention`, with bias [B, H, M, N] added to the scaled scores: positions (ALiBi, T5),
masks (-inf hides a key). Source: Dao et al., arXiv 2205.14135; torch's `attn_mask`.
"""

import math

from septran import task
from septran.operators.attention import (
    heads_a_group,
    normalise,
    scores_tile,
    softmax_step,
    values_tile,
)

EXAMPLE = {"B": 1, "H": 4, "M": 256, "N": 256, "D": 64}
SAME = {"G": "H"}
CASES = (
    {"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 16},
    {"B": 1, "H": 1, "G": 1, "M": 64, "N": 64, "D": 64},
    {"B": 2, "H": 2, "G": 2, "M": 5, "N": 130, "D": 32, "dtype": "float16"},
)


@task.define(leaf=True)
def add_bias(S, bias, *, scale: task.static):
    """S = scale * S + bias."""
    S[:, :] = S * scale + bias


@task.define
def attention_bias_block(O, Q, K, V, bias, *, scale: task.static):
    """One block of queries: walk the keys."""
    keys = task.tunable("block_N")
    Kp = task.partition(K, shape=(keys, K.shape[1]))
    Vp = task.partition(V, shape=(keys, V.shape[1]))
    Bp = task.partition(bias, shape=(bias.shape[0], keys))
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    for k in task.sequential_range(Kp.shape[0]):
        S = task.empty((Q.shape[0], Kp[k, 0].shape[0]), task.float32, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        task.launch(scores_tile, S, Q, Kp[k, 0])
        task.launch(add_bias, S, Bp[0, k], scale=scale)
        # No scale here: with a bias added the scores are in their own units already.
        task.launch(softmax_step, P, acc, m, l, S, Q, Kp[k, 0], scale=None, ahead=None)
        task.launch(values_tile, acc, P, Vp[k, 0])
    task.launch(normalise, O, acc, l)


@task.define
def attention_bias_head(O, Q, K, V, bias, *, scale: task.static):
    """A head of keys and the heads of queries that share it: blocks, each on its own."""
    queries = task.tunable("block_M")
    for h in task.parallel_range(Q.shape[0]):
        Op, Qp, Bp = (task.partition(x[h], shape=(queries, x.shape[2])) for x in (O, Q, bias))
        for i in task.parallel_range(Op.shape[0]):
            task.launch(attention_bias_block, Op[i, 0], Qp[i, 0], K, V, Bp[i, 0], scale=scale)


@task.define
def attention_bias(
    O: task.Tensor["B", "H", "M", "D"],
    Q: task.Tensor["B", "H", "M", "D"],
    K: task.Tensor["B", "G", "N", "D"],
    V: task.Tensor["B", "G", "N", "D"],
    bias: task.Tensor["B", "H", "M", "N"],
    *,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T + bias) V for each batch and head."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else scale
    group = heads_a_group(Q, K)
    for b, g in task.parallel_range(*K.shape[:2]):
        o, q, added = (
            task.partition(x[b], shape=(group, *x.shape[2:]))[g, 0, 0] for x in (O, Q, bias)
        )
        task.launch(attention_bias_head, o, q, K[b, g], V[b, g], added, scale=factor)
