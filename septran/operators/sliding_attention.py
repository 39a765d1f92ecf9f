"""Attention to the nearest keys: O = softmax(cap(scale * Q K^T)) V, `window` keys a query.

Q and O [B, H, M, D], K and V [B, G, N, D]; G heads of keys serve H heads of queries, H/G each.
Query i sees key i + N - M and the `window` - 1 keys before it; blocks of keys that no query of a
block sees are not read. With `cap` scores s become cap * tanh(s / cap). `scale` is 1/sqrt(D)
unless given. A query that sees no key gives 0, and so does one whose scores are all -inf.
Source: Beltagy et al., Longformer, arXiv 2004.05150 (the window); Gemma 2, arXiv 2408.00118 (the
cap); the walk is that of `attention`.
"""

import math

from septran import task
from septran.operators.attention import (
    LOG2_E,
    heads_a_group,
    in_units,
    normalise,
    scores_tile,
    times,
    values_tile,
)

EXAMPLE = {"B": 1, "H": 4, "M": 256, "N": 256, "D": 64}
SAME = {"G": "H"}
CASES = (
    {"B": 1, "H": 2, "G": 1, "M": 70, "N": 90, "D": 16, "window": 20},
    {"B": 1, "H": 1, "G": 1, "M": 200, "N": 200, "D": 64, "window": 33, "cap": 2.0},
    {"B": 2, "H": 4, "G": 2, "M": 5, "N": 130, "D": 32, "window": 64, "dtype": "float16"},
)


@task.define(leaf=True)
def sliding_step(
    P, acc, m, l, S, Q, K, *, scale: task.static, ahead: int, window: int, cap: task.static
):
    """Fold one block of scores into the running maximum, sum and output (`softmax_step`)."""
    new = task.empty(m.shape, task.float32, name="new")
    old = task.empty(m.shape, task.float32, name="old")
    T = task.empty(S.shape, task.float32, name="T")
    E = task.empty(S.shape, task.float32, name="E")
    key, last = task.index(K, 0)[None, :], task.index(Q, 0)[:, None] + ahead
    capped = S if cap is None else task.tanh(S * (scale / cap))
    scores, unit = in_units(capped, (scale if cap is None else cap) * LOG2_E)
    T[:, :] = task.where((key <= last) & (key > last - window), scores, -task.inf)
    new[:] = task.maximum(m, task.max(T, axis=1))
    shift = task.where(task.equal(new, -task.inf), 0.0, new)  # a row without keys so far
    old[:] = task.exp2(times(m - shift, unit))
    E[:, :] = task.exp2(times(T - shift[:, None], unit))
    P[:, :] = E
    l[:] = l * old + task.sum(E, axis=1)
    m[:] = new
    acc[:, :] = acc * old[:, None]


@task.define
def sliding_block(O, Q, K, V, *, scale: task.static, ahead: int, window: int, cap: task.static):
    """One block of queries: walk the blocks of keys that it sees."""
    keys = task.tunable("block_N")
    start = task.start(Q, 0) + ahead
    seen = task.greatest(0, task.least(K.shape[0], start + Q.shape[0]))
    first = task.greatest(0, start - window + 1) // keys
    Kp, Vp = (task.partition(x, shape=(keys, x.shape[1])) for x in (K, V))
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    for n in task.sequential_range(task.cdiv(seen, keys) - first):
        k, v = Kp[first + n, 0], Vp[first + n, 0]
        S = task.empty((Q.shape[0], k.shape[0]), task.float32, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        flags = {"scale": scale, "ahead": ahead, "window": window, "cap": cap}
        task.launch(scores_tile, S, Q, k)
        task.launch(sliding_step, P, acc, m, l, S, Q, k, **flags)
        task.launch(values_tile, acc, P, v)
    task.launch(normalise, O, acc, l)


@task.define
def sliding_head(O, Q, K, V, *, scale: task.static, ahead: int, window: int, cap: task.static):
    """A head of keys and the heads of queries that share it: blocks, each on its own."""
    block = (task.tunable("block_M"), Q.shape[2])
    flags = {"scale": scale, "ahead": ahead, "window": window, "cap": cap}
    for h in task.parallel_range(Q.shape[0]):
        Op, Qp = task.partition(O[h], shape=block), task.partition(Q[h], shape=block)
        for i in task.parallel_range(Op.shape[0]):
            task.launch(sliding_block, Op[i, 0], Qp[i, 0], K, V, **flags)


@task.define
def sliding_attention(
    O: task.Tensor["B", "H", "M", "D"],
    Q: task.Tensor["B", "H", "M", "D"],
    K: task.Tensor["B", "G", "N", "D"],
    V: task.Tensor["B", "G", "N", "D"],
    *,
    window: int = 128,
    cap: task.static = None,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V over the keys that each query sees."""
    task.require(window > 0, f"a window has at least one key, not {window}")
    factor = 1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else scale
    heads = (heads_a_group(Q, K), *Q.shape[2:])
    flags = {"scale": factor, "ahead": K.shape[2] - Q.shape[2], "window": window, "cap": cap}
    for b, g in task.parallel_range(*K.shape[:2]):
        o, q = (task.partition(x[b], shape=heads)[g, 0, 0] for x in (O, Q))
        task.launch(sliding_head, o, q, K[b, g], V[b, g], **flags)
