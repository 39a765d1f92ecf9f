"""Decoding with multi-head latent attention: all heads share one latent of keys and values.

O[b, h] = softmax(scale * (Q[b, h] L[b]^T + R[b, h] P[b]^T)) L[b]: queries in the latent space
Q [B, H, C] and their rotary part R [B, H, E], the cache of latents L [B, N, C] and of rotary
keys P [B, N, E], O [B, H, C]; DeepSeek-V2 has H = 128, C = 512, E = 64. `scale` is
1/sqrt(192) unless given (128 + 64, the head size before absorption). Source: DeepSeek-V2,
arXiv 2405.04434, section 2.1 with the absorbed projections of its appendix.
"""

import math

from septran import task
from septran.operators.attention import normalise, softmax_step, values_tile

EXAMPLE = {"B": 1, "H": 16, "N": 512, "C": 512, "E": 64}
CASES = (
    {"B": 1, "H": 5, "N": 50, "C": 40, "E": 8},
    {"B": 1, "H": 16, "N": 64, "C": 128, "E": 64},
    {"B": 2, "H": 3, "N": 70, "C": 64, "E": 16, "dtype": "float16"},
)


@task.define(leaf=True)
def mla_scores(S, Q, L, R, P):
    """S = Q L^T + R P^T for one block of keys."""
    task.fill(S, 0)
    task.call_primitive("gemm", S, Q, L.T)
    task.call_primitive("gemm", S, R, P.T)


@task.define
def mla_block(O, Q, R, L, P, *, scale: task.static):
    """Some heads: walk the keys, each block of latents being keys and values at once."""
    keys = task.tunable("block_N")
    Lp = task.partition(L, shape=(keys, L.shape[1]))
    Pp = task.partition(P, shape=(keys, P.shape[1]))
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    for k in task.sequential_range(Lp.shape[0]):
        S = task.empty((Q.shape[0], Lp[k, 0].shape[0]), task.float32, name="S")
        E = task.empty(S.shape, Q.dtype, name="P")
        task.launch(mla_scores, S, Q, Lp[k, 0], R, Pp[k, 0])
        task.launch(softmax_step, E, acc, m, l, S, Q, Lp[k, 0], scale=scale, ahead=None)
        task.launch(values_tile, acc, E, Lp[k, 0])
    task.launch(normalise, O, acc, l)


@task.define
def mla_heads(O, Q, R, L, P, *, scale: task.static):
    """One batch element: heads in blocks, each on its own."""
    heads = task.tunable("block_H")
    Op = task.partition(O, shape=(heads, O.shape[1]))
    Qp = task.partition(Q, shape=(heads, Q.shape[1]))
    Rp = task.partition(R, shape=(heads, R.shape[1]))
    for i in task.parallel_range(Op.shape[0]):
        task.launch(mla_block, Op[i, 0], Qp[i, 0], Rp[i, 0], L, P, scale=scale)


@task.define
def mla_decode(
    O: task.Tensor["B", "H", "C"],
    Q: task.Tensor["B", "H", "C"],
    R: task.Tensor["B", "H", "E"],
    L: task.Tensor["B", "N", "C"],
    P: task.Tensor["B", "N", "E"],
    *,
    scale: task.static = None,
):
    """O = softmax(scale * (Q L^T + R P^T)) L for each batch element and head."""
    factor = 1.0 / math.sqrt(192) if scale is None else scale
    for b in task.parallel_range(Q.shape[0]):
        task.launch(mla_heads, O[b], Q[b], R[b], L[b], P[b], scale=factor)
