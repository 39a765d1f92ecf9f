"""Scaled dot-product attention, flash style: O = softmax(scale * Q K^T) V.

Q and O [B, H, M, D], K and V [B, G, N, D]; `scale` is 1/sqrt(D) unless given. G heads of keys
serve H heads of queries, H/G each (GQA; MQA where G is 1). With `causal` query i sees keys up
to i + N - M (the last query sees all). The softmax is computed online, a block of keys at a
time, so that the scores are never all in memory. A query that sees no key gives 0, as in
torch. Source: Dao et al., FlashAttention, arXiv 2205.14135.
"""

import math

from septran import task

LOG2_E = math.log2(math.e)
EXAMPLE = {"B": 1, "H": 4, "M": 256, "N": 256, "D": 64}
SAME = {"G": "H"}
CASES = (
    {"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 16},
    {"B": 1, "H": 1, "G": 1, "M": 100, "N": 70, "D": 64, "causal": True},
    {"B": 2, "H": 4, "G": 2, "M": 1, "N": 130, "D": 32, "dtype": "float16"},
)


@task.define(leaf=True)
def scores_tile(S, Q, K):
    """S = Q K^T for one block of keys."""
    task.fill(S, 0)
    task.call_primitive("gemm", S, Q, K.T)


@task.define(leaf=True)
def softmax_step(P, acc, m, l, S, Q, K, *, scale: task.static, ahead: task.static):
    """Fold one block of scores into the running maximum, sum and output.

    With `scale`, powers are of two, which cost less, and the factor is there anyway. It comes
    after the difference from the maximum, which is 0 exactly where a score is the maximum,
    however large. Scores that are scaled already stay as they are.
    """
    new = task.empty(m.shape, m.dtype, name="new")
    old = task.empty(m.shape, m.dtype, name="old")
    T = task.empty(S.shape, S.dtype, name="T")
    E = task.empty(S.shape, S.dtype, name="E")
    power = task.exp if scale is None else task.exp2
    scores, unit = (S, None) if scale is None else in_units(S, scale * LOG2_E)
    if ahead is not None:
        seen = task.index(K, 0)[None, :] <= task.index(Q, 0)[:, None] + ahead
        scores = task.where(seen, scores, -task.inf)
    T[:, :] = scores
    new[:] = task.maximum(m, task.max(T, axis=1))
    shift = task.where(task.equal(new, -task.inf), 0.0, new)  # a row without keys so far
    old[:] = power(times(m - shift, unit))
    E[:, :] = power(times(T - shift[:, None], unit))
    P[:, :] = E
    l[:] = l * old + task.sum(E, axis=1)
    m[:] = new
    acc[:, :] = acc * old[:, None]


@task.define(leaf=True)
def values_tile(acc, P, V):
    """Add P V to acc."""
    task.call_primitive("gemm", acc, P, V)


@task.define(leaf=True)
def normalise(O, acc, l):
    """O = acc / l, and 0 for a query that sees no key."""
    O[:, :] = acc * (1.0 / task.where(task.equal(l, 0.0), 1.0, l))[:, None]


@task.define
def attention_block(O, Q, K, V, *, scale: task.static, ahead: task.static):
    """One block of queries."""
    acc, _, l = walk_keys(Q, K, V, scale, ahead)
    task.launch(normalise, O, acc, l)


def walk_keys(Q, K, V, scale, ahead):
    """Walk the keys that a block of queries sees; return its output, maxima and sums."""
    keys = task.tunable("block_N")
    seen = keys_seen(K, Q, ahead)
    Kp = task.partition(K[:seen], shape=(keys, K.shape[1]))
    Vp = task.partition(V[:seen], shape=(keys, V.shape[1]))
    wide = task.accumulator_dtype(Q.dtype)
    acc = task.zeros((Q.shape[0], V.shape[1]), wide, name="acc")
    m = task.full(Q.shape[:1], -task.inf, wide, name="m")
    l = task.zeros(Q.shape[:1], wide, name="l")
    for k in task.sequential_range(Kp.shape[0]):
        S = task.empty((Q.shape[0], Kp[k, 0].shape[0]), wide, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        task.launch(scores_tile, S, Q, Kp[k, 0])
        task.launch(softmax_step, P, acc, m, l, S, Q, Kp[k, 0], scale=scale, ahead=ahead)
        task.launch(values_tile, acc, P, Vp[k, 0])
    return acc, m, l


def keys_seen(K, Q, ahead):
    """How many keys a block of queries sees, from the first on."""
    if ahead is None:
        return K.shape[0]
    last = task.start(Q, 0) + Q.shape[0] + ahead
    return task.greatest(0, task.least(K.shape[0], last))


@task.define
def attention_head(O, Q, K, V, *, scale: task.static, ahead: task.static):
    """A head of keys and the heads of queries that share it: blocks, each on its own."""
    block = (task.tunable("block_M"), Q.shape[2])
    for h in task.parallel_range(Q.shape[0]):
        Op, Qp = task.partition(O[h], shape=block), task.partition(Q[h], shape=block)
        for i in task.parallel_range(Op.shape[0]):
            o, q = Op[i, 0], Qp[i, 0]
            task.launch(attention_block, o, q, K, V, scale=scale, ahead=ahead)


@task.define
def attention(
    O: task.Tensor["B", "H", "M", "D"],
    Q: task.Tensor["B", "H", "M", "D"],
    K: task.Tensor["B", "G", "N", "D"],
    V: task.Tensor["B", "G", "N", "D"],
    *,
    causal: bool = False,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V for each batch and head."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else scale
    ahead = K.shape[2] - Q.shape[2] if causal else None
    heads = (heads_a_group(Q, K), *Q.shape[2:])
    for b, g in task.parallel_range(*K.shape[:2]):
        o, q = (task.partition(x[b], shape=heads)[g, 0, 0] for x in (O, Q))
        task.launch(attention_head, o, q, K[b, g], V[b, g], scale=factor, ahead=ahead)


def heads_a_group(Q, K):
    """Heads of queries that share one head of keys and values."""
    queries, keys = Q.shape[1], K.shape[1]
    shared = queries % max(1, keys) == 0
    task.require(shared, f"{queries} heads of queries cannot share {keys} of keys evenly")
    return max(1, queries // max(1, keys))


LEAST = 2.0**-126
"""The least normal float32: a smaller factor may be 0, and times -inf, of no key, NaN."""


def unit_of(factor):
    """By what differences from a row's maximum are multiplied; None where the scores were.

    The maximum of a row times a positive factor is that of the products.
    """
    return factor if factor >= LEAST else None


def in_units(S, factor):
    """Scores, and by what their differences are still to be multiplied: see `unit_of`."""
    unit = unit_of(factor)
    return (S * factor if unit is None else S), unit


def times(x, unit):
    """Multiply x by what `in_units` has left to do."""
    return x if unit is None else x * unit


FORWARD = "attention_lse"
"""What runs in its place where a gradient is to follow, as that has one (`septran.torch`)."""
