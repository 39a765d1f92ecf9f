"""Gradient of attention: dQ, dK and dV from Q, K, V, the output O, its log-sum-exp L, and dO.

With P = exp(scale * Q K^T - L), the weights again, and delta[i] = sum over d of O[i, d] * dO[i, d]:
dV = P^T dO, dS = P * (dO V^T - delta), dQ = scale * dS K and dK = scale * dS^T Q. Shapes and flags
as in `attention_lse`, which gives O and L; a head of keys has the sum over the heads of queries
that share it. Blocks of queries and blocks of keys are walked apart, so that each element of a
result is one block's, and neither weights nor slopes are in memory as a whole.
Source: Dao, FlashAttention-2, arXiv 2307.08691, algorithm 2.
"""

import math

from septran import task
from septran.operators.attention import LOG2_E, heads_a_group, keys_seen, scores_tile, values_tile

EXAMPLE = {"B": 1, "H": 4, "M": 256, "N": 256, "D": 64}
SAME = {"G": "H"}
CASES = (
    {"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 16},
    {"B": 1, "H": 1, "G": 1, "M": 100, "N": 70, "D": 64, "causal": True},
    {"B": 2, "H": 4, "G": 2, "M": 1, "N": 130, "D": 32, "dtype": "float16"},
)


def _weights(S, L, Q, K, scale, ahead):
    """P for one block of scores: powers of two cost less, and the factor is there anyway."""
    shift = task.where(task.equal(L, -task.inf), 0.0, L * LOG2_E)  # of a query that sees no key
    scaled = S * (scale * LOG2_E) - shift[:, None]
    if ahead is not None:
        seen = task.index(K, 0)[None, :] <= task.index(Q, 0)[:, None] + ahead
        scaled = task.where(seen, scaled, -task.inf)
    return task.exp2(scaled)


@task.define(leaf=True)
def dot_rows(delta, O, dO):
    """delta[i] = sum over d of O[i, d] * dO[i, d] for some queries."""
    delta[:] = task.sum(O * dO, axis=1)


@task.define(leaf=True)
def weights_and_slopes(P, dS, S, dP, L, delta, Q, K, *, scale: task.static, ahead: task.static):
    """P and dS of one block of scores."""
    E = task.empty(S.shape, S.dtype, name="E")
    E[:, :] = _weights(S, L, Q, K, scale, ahead)
    P[:, :] = E
    dS[:, :] = E * (dP - delta[:, None])


@task.define(leaf=True)
def slopes(dS, S, dP, L, delta, Q, K, *, scale: task.static, ahead: task.static):
    """The same without P."""
    dS[:, :] = _weights(S, L, Q, K, scale, ahead) * (dP - delta[:, None])


@task.define(leaf=True)
def scaled(Y, X, *, factor: task.static):
    """Y = factor * X, rounded."""
    Y[:, :] = X * factor


def add_to_keys(sum_K, sum_V, Q, K, V, L, delta, dO, scale, ahead):
    """Add what some queries say of a block of keys and values; return the slopes."""
    S = task.empty((Q.shape[0], K.shape[0]), sum_K.dtype, name="S")
    dP = task.empty(S.shape, S.dtype, name="dP")
    P = task.empty(S.shape, Q.dtype, name="P")
    dS = task.empty(S.shape, Q.dtype, name="dS")
    task.launch(scores_tile, S, Q, K)
    task.launch(scores_tile, dP, dO, V)
    task.launch(weights_and_slopes, P, dS, S, dP, L, delta, Q, K, scale=scale, ahead=ahead)
    task.launch(values_tile, sum_V, P.T, dO)
    task.launch(values_tile, sum_K, dS.T, Q)
    return dS


@task.define
def keys_block(dK, dV, Q, K, V, L, delta, dO, *, scale: task.static, ahead: task.static):
    """One block of keys: walk the queries that see it, of one head after another."""
    rows = task.tunable("block_M")
    sum_K = task.zeros(K.shape, task.accumulator_dtype(K.dtype), name="sum_K")
    sum_V = task.zeros(V.shape, task.accumulator_dtype(V.dtype), name="sum_V")
    for h in task.sequential_range(Q.shape[0]):
        Qp, dOp = (task.partition(x[h], shape=(rows, x.shape[2])) for x in (Q, dO))
        Lp, Dp = (task.partition(x[h], shape=(rows,)) for x in (L, delta))
        blocks = Qp.shape[0]
        for n in task.sequential_range(blocks - _first(Q, K, ahead) // rows):
            i = blocks - 1 - n  # the last query sees most
            add_to_keys(sum_K, sum_V, Qp[i, 0], K, V, Lp[i], Dp[i], dOp[i, 0], scale, ahead)
    task.launch(scaled, dK, sum_K, factor=scale)
    task.launch(scaled, dV, sum_V, factor=1.0)


def _first(Q, K, ahead):
    """The first query that sees a block of keys."""
    if ahead is None:
        return 0
    return task.greatest(0, task.least(Q.shape[1], task.start(K, 0) - ahead))


@task.define
def queries_block(dQ, Q, K, V, L, delta, dO, *, scale: task.static, ahead: task.static):
    """One block of queries: walk the keys that it sees."""
    keys = task.tunable("block_N")
    seen = keys_seen(K, Q, ahead)
    Kp, Vp = (task.partition(x[:seen], shape=(keys, x.shape[1])) for x in (K, V))
    total = task.zeros(Q.shape, task.accumulator_dtype(Q.dtype), name="total")
    for j in task.sequential_range(Kp.shape[0]):
        k = Kp[j, 0]
        S = task.empty((Q.shape[0], k.shape[0]), total.dtype, name="S")
        dP = task.empty(S.shape, S.dtype, name="dP")
        dS = task.empty(S.shape, Q.dtype, name="dS")
        task.launch(scores_tile, S, Q, k)
        task.launch(scores_tile, dP, dO, Vp[j, 0])
        task.launch(slopes, dS, S, dP, L, delta, Q, k, scale=scale, ahead=ahead)
        task.launch(values_tile, total, dS, k)
    task.launch(scaled, dQ, total, factor=scale)


@task.define
def keys_head(dK, dV, Q, K, V, L, delta, dO, *, scale: task.static, ahead: task.static):
    """A head of keys: blocks of it, each on its own."""
    block = (task.tunable("block_N"), K.shape[1])
    Kp, Vp, dKp, dVp = (task.partition(x, shape=block) for x in (K, V, dK, dV))
    for j in task.parallel_range(Kp.shape[0]):
        given = dKp[j, 0], dVp[j, 0], Q, Kp[j, 0], Vp[j, 0], L, delta, dO
        task.launch(keys_block, *given, scale=scale, ahead=ahead)


@task.define
def queries_head(dQ, Q, K, V, L, delta, dO, *, scale: task.static, ahead: task.static):
    """The heads of queries that share a head of keys: blocks of them, each on its own."""
    rows = task.tunable("block_M")
    for h in task.parallel_range(Q.shape[0]):
        dQp, Qp, dOp = (task.partition(x[h], shape=(rows, x.shape[2])) for x in (dQ, Q, dO))
        Lp, Dp = (task.partition(x[h], shape=(rows,)) for x in (L, delta))
        for i in task.parallel_range(Qp.shape[0]):
            given = dQp[i, 0], Qp[i, 0], K, V, Lp[i], Dp[i], dOp[i, 0]
            task.launch(queries_block, *given, scale=scale, ahead=ahead)


@task.define
def dot_head(delta, O, dO):
    """Rows of one head."""
    rows = task.tunable("block_rows")
    Op, dOp = (task.partition(x, shape=(rows, x.shape[1])) for x in (O, dO))
    Dp = task.partition(delta, shape=(rows,))
    for i in task.parallel_range(Op.shape[0]):
        task.launch(dot_rows, Dp[i], Op[i, 0], dOp[i, 0])


@task.define
def gradients(dQ, dK, dV, Q, K, V, L, delta, dO, *, scale: task.static, ahead: task.static):
    """Queries, then keys: blocks of either on their own, the slopes computed for both."""
    flags = {"scale": scale, "ahead": ahead}
    for b, g in task.parallel_range(*K.shape[:2]):
        dq, q, l, d, do = _sharing((dQ, Q, L, delta, dO), K, b, g)
        task.launch(queries_head, dq, q, K[b, g], V[b, g], l, d, do, **flags)
    for b, g in task.parallel_range(*K.shape[:2]):
        q, l, d, do = _sharing((Q, L, delta, dO), K, b, g)
        task.launch(keys_head, dK[b, g], dV[b, g], q, K[b, g], V[b, g], l, d, do, **flags)


@task.define(variant_of="gradients")
def gradients_by_heads(
    dQ, dK, dV, Q, K, V, L, delta, dO, *, scale: task.static, ahead: task.static
):
    """Heads of keys, each on its own, the slopes computed once."""
    for b, g in task.parallel_range(*K.shape[:2]):
        dq, q, l, d, do = _sharing((dQ, Q, L, delta, dO), K, b, g)
        given = dq, dK[b, g], dV[b, g], q, K[b, g], V[b, g], l, d, do
        task.launch(whole_head, *given, scale=scale, ahead=ahead)


def _sharing(tensors, K, b, g):
    """The heads of queries that share one head of keys."""
    group = heads_a_group(tensors[0], K)
    parts = (task.partition(x[b], shape=(group, *x.shape[2:])) for x in tensors)
    return [part[(g, *[0] * (len(part.shape) - 1))] for part in parts]


@task.define
def whole_head(dQ, dK, dV, Q, K, V, L, delta, dO, *, scale: task.static, ahead: task.static):
    """A head of keys, block by block; the sums of dQ are kept between them."""
    block = (task.tunable("block_N"), K.shape[1])
    total = task.zeros(Q.shape, task.accumulator_dtype(Q.dtype), name="total")
    Kp, Vp, dKp, dVp = (task.partition(x, shape=block) for x in (K, V, dK, dV))
    for j in task.sequential_range(Kp.shape[0]):
        given = total, dKp[j, 0], dVp[j, 0], Q, Kp[j, 0], Vp[j, 0], Kp[j, 0], L, delta, dO
        task.launch(keys_and_queries, *given, scale=scale, ahead=ahead)
    for h in task.sequential_range(Q.shape[0]):
        task.launch(scaled, dQ[h], total[h], factor=scale)


@task.define
def keys_and_queries(
    total, dK, dV, Q, K, V, factors, L, delta, dO, *, scale: task.static, ahead: task.static
):
    """As `keys_block`, and what the block of keys adds to dQ; `factors` are the keys again."""
    rows = task.tunable("block_M")
    sum_K = task.zeros(K.shape, task.accumulator_dtype(K.dtype), name="sum_K")
    sum_V = task.zeros(V.shape, task.accumulator_dtype(V.dtype), name="sum_V")
    for h in task.sequential_range(Q.shape[0]):
        Qp, dOp, Tp = (task.partition(x[h], shape=(rows, x.shape[2])) for x in (Q, dO, total))
        Lp, Dp = (task.partition(x[h], shape=(rows,)) for x in (L, delta))
        blocks = Qp.shape[0]
        for n in task.sequential_range(blocks - _first(Q, K, ahead) // rows):
            i = blocks - 1 - n  # the last query sees most
            given = sum_K, sum_V, Qp[i, 0], K, V, Lp[i], Dp[i], dOp[i, 0]
            dS = add_to_keys(*given, scale, ahead)
            task.launch(values_tile, Tp[i, 0], dS, factors)
    task.launch(scaled, dK, sum_K, factor=scale)
    task.launch(scaled, dV, sum_V, factor=1.0)


@task.define
def attention_backward(
    dQ: task.Tensor["B", "H", "M", "D"],
    dK: task.Tensor["B", "G", "N", "D"],
    dV: task.Tensor["B", "G", "N", "D"],
    Q: task.Tensor["B", "H", "M", "D"],
    K: task.Tensor["B", "G", "N", "D"],
    V: task.Tensor["B", "G", "N", "D"],
    O: task.Tensor["B", "H", "M", "D"],
    L: task.Tensor["B", "H", "M", task.float32],
    dO: task.Tensor["B", "H", "M", "D"],
    *,
    causal: bool = False,
    scale: task.static = None,
):
    """The rows of delta, then queries and keys of each batch and head."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[3])) if scale is None else scale
    ahead = K.shape[2] - Q.shape[2] if causal else None
    delta = task.empty(L.shape, task.accumulator_dtype(Q.dtype), name="delta")
    for b, h in task.parallel_range(*Q.shape[:2]):
        task.launch(dot_head, delta[b, h], O[b, h], dO[b, h])
    task.launch(gradients, dQ, dK, dV, Q, K, V, L, delta, dO, scale=factor, ahead=ahead)
