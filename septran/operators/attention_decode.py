"""Attention of one new query a head over long keys, the keys in parts: flash decoding.

Q and O [B, H, D], K and V [B, G, N, D] (G heads of keys serve H heads of queries, H/G each);
`scale` is 1/sqrt(D) unless given. Each part of the keys gives its own maximum, sum and
output; these are then combined. Source: Dao et al., Flash-Decoding (2023), after Milakov and
Gimelshein, arXiv 1805.02867.
"""

import math

from septran import task
from septran.operators.attention import (
    LOG2_E,
    heads_a_group,
    scores_tile,
    softmax_step,
    times,
    unit_of,
    values_tile,
)

EXAMPLE = {"B": 1, "H": 8, "G": 2, "N": 2048, "D": 64}
CASES = (
    {"B": 1, "H": 2, "G": 1, "N": 600, "D": 16},
    {"B": 2, "H": 2, "G": 2, "N": 70, "D": 64},
    {"B": 1, "H": 8, "G": 2, "N": 100, "D": 32, "dtype": "float16"},
)


@task.define(leaf=True)
def keep_part(parts, maxima, sums, acc, m, l):
    """What one part found, not yet divided."""
    parts[:, :] = acc
    maxima[:] = m
    sums[:] = l


@task.define
def decode_part(parts, maxima, sums, Q, K, V, *, scale: task.static):
    """One part of the keys, for all queries of a group."""
    keys = task.tunable("block_N")
    Kp = task.partition(K, shape=(keys, K.shape[1]))
    Vp = task.partition(V, shape=(keys, V.shape[1]))
    acc = task.zeros(parts.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    for k in task.sequential_range(Kp.shape[0]):
        S = task.empty((Q.shape[0], Kp[k, 0].shape[0]), task.float32, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        task.launch(scores_tile, S, Q, Kp[k, 0])
        task.launch(softmax_step, P, acc, m, l, S, Q, Kp[k, 0], scale=scale, ahead=None)
        task.launch(values_tile, acc, P, Vp[k, 0])
    task.launch(keep_part, parts, maxima, sums, acc, m, l)


@task.define
def decode_group(parts, maxima, sums, Q, K, V, *, scale: task.static):
    """The keys of one group in parts, each on its own."""
    Kp = task.partition(K, shape=(task.tunable("split_N", 512), K.shape[1]))
    Vp = task.partition(V, shape=(task.tunable("split_N", 512), V.shape[1]))
    for p in task.parallel_range(Kp.shape[0]):
        part = (parts[p], maxima[p], sums[p])
        task.launch(decode_part, *part, Q, Kp[p, 0], Vp[p, 0], scale=scale)


@task.define(leaf=True)
def join_maximum(top, maximum):
    """The greatest score of all parts so far."""
    top[:] = task.maximum(top, maximum)


@task.define(leaf=True)
def join_part(acc, l, part, maximum, total, top, *, scale: task.static):
    """Add one part, scaled to the common maximum; both are as `softmax_step` leaves them."""
    # Without any key both are -inf, whose difference would be NaN.
    below = maximum - task.where(task.equal(top, -task.inf), 0.0, top)
    factor = task.exp2(times(below, unit_of(scale * LOG2_E)))
    l[:] = l + total * factor
    acc[:, :] = acc + part * factor[:, None]


@task.define(leaf=True)
def join_end(O, acc, l):
    """O = acc / l, and 0 where there are no keys."""
    O[:, :] = acc * (1.0 / task.where(task.equal(l, 0.0), 1.0, l))[:, None]


@task.define
def combine(O, parts, maxima, sums, *, scale: task.static):
    """O from its parts."""
    acc = task.zeros(O.shape, task.float32, name="acc")
    l = task.zeros(O.shape[:1], name="l")
    top = task.full(O.shape[:1], -task.inf, name="top")
    # Two loops, as a part can be scaled only when the greatest of all maxima is known.
    for p in task.sequential_range(parts.shape[0]):
        task.launch(join_maximum, top, maxima[p])
    for p in task.sequential_range(parts.shape[0]):
        found = parts[p], maxima[p], sums[p], top
        task.launch(join_part, acc, l, *found, scale=scale)
    task.launch(join_end, O, acc, l)


@task.define
def attention_decode(
    O: task.Tensor["B", "H", "D"],
    Q: task.Tensor["B", "H", "D"],
    K: task.Tensor["B", "G", "N", "D"],
    V: task.Tensor["B", "G", "N", "D"],
    *,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V with one query a head, parts of the keys side by side."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[2])) if scale is None else scale
    group, count = heads_a_group(Q, K), task.cdiv(K.shape[2], task.tunable("split_N", 512))
    kept = (*K.shape[:2], count, group)
    parts = task.empty((*kept, Q.shape[2]), task.float32, name="parts")
    maxima = task.empty(kept, task.float32, name="maxima")
    sums = task.empty(kept, task.float32, name="sums")
    Qg = Q.reshape(Q.shape[0], K.shape[1], group, Q.shape[2])
    Og = O.reshape(*Qg.shape)
    for b, g in task.parallel_range(*K.shape[:2]):
        found = (parts[b, g], maxima[b, g], sums[b, g])
        task.launch(decode_group, *found, Qg[b, g], K[b, g], V[b, g], scale=factor)
    for b, g in task.parallel_range(*K.shape[:2]):
        found = (parts[b, g], maxima[b, g], sums[b, g])
        task.launch(combine, Og[b, g], *found, scale=factor)
