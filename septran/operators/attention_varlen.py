"""Attention of sequences of different lengths that lie one behind the other, without padding.

Q and O [T, H, D], K and V [S, G, D]: T queries and S keys of all sequences, G heads of keys for H
heads of queries, H/G each. Of L - 1 sequences, number b has queries starts[b] to starts[b + 1] and
keys key_starts[b] to key_starts[b + 1], both [L] and int64; it sees no others. With `causal` the
last query of a sequence sees all of its keys, the one before it one key less. A query of no
sequence gives 0, and so does one that sees no key; of sequences that lie over each other the last
one counts. `scale` is 1/sqrt(D) unless given. Source: Dao, FlashAttention-2, arXiv 2307.08691,
whose `flash_attn_varlen_func` has these operands.
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

EXAMPLE = {"T": 512, "S": 512, "L": 5, "H": 4, "D": 64}
SAME = {"G": "H"}
CASES = (
    {"T": 23, "S": 37, "L": 8, "H": 2, "G": 1, "D": 16},
    {"T": 130, "S": 130, "L": 6, "H": 2, "G": 2, "D": 64, "causal": True},
    {"T": 33, "S": 150, "L": 9, "H": 4, "G": 2, "D": 32, "causal": True, "dtype": "float16"},
)


@task.define(leaf=True)
def varlen_step(P, acc, m, l, S, Q, K, end, key_end, *, scale: task.static, causal: bool):
    """Fold one block of scores into the running maximum, sum and output (`softmax_step`).

    Queries and keys are counted from the ends of their sequence.
    """
    new = task.empty(m.shape, task.float32, name="new")
    old = task.empty(m.shape, task.float32, name="old")
    T = task.empty(S.shape, task.float32, name="T")
    E = task.empty(S.shape, task.float32, name="E")
    scores, unit = in_units(S, scale * LOG2_E)
    if causal:
        query, key = task.index(Q, 0)[:, None] - end, task.index(K, 0)[None, :] - key_end
        scores = task.where(key <= query, scores, -task.inf)
    T[:, :] = scores
    new[:] = task.maximum(m, task.max(T, axis=1))
    shift = task.where(task.equal(new, -task.inf), 0.0, new)  # a row without keys so far
    old[:] = task.exp2(times(m - shift, unit))
    E[:, :] = task.exp2(times(T - shift[:, None], unit))
    P[:, :] = E
    l[:] = l * old + task.sum(E, axis=1)
    m[:] = new
    acc[:, :] = acc * old[:, None]


@task.define(leaf=True)
def clear_rows(O):
    """O is 0, which it stays where no sequence has queries."""
    task.fill(O, 0)


@task.define
def varlen_section(O, Q, K, V, end, key_end, *, scale: task.static, causal: bool):
    """A sequence's queries within a block: walk the blocks of keys that they see."""
    keys = task.tunable("block_N")
    Kp, Vp = (task.partition(x, shape=(keys, x.shape[1])) for x in (K, V))
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    for n in task.sequential_range(Kp.shape[0]):
        k, v = Kp[n, 0], Vp[n, 0]
        S = task.empty((Q.shape[0], k.shape[0]), task.float32, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        flags = {"scale": scale, "causal": causal}
        task.launch(scores_tile, S, Q, k)
        task.launch(varlen_step, P, acc, m, l, S, Q, k, end, key_end, **flags)
        task.launch(values_tile, acc, P, v)
    task.launch(normalise, O, acc, l)


@task.define
def varlen_block(O, Q, K, V, starts, key_starts, *, scale: task.static, causal: bool, T: int):
    """One block of queries: the sequences that have some of them, each with its section."""
    task.launch(clear_rows, O)
    first = task.start(Q, 0)
    for b in task.sequential_range(starts.shape[0] - 1):
        ends = tuple(task.count(starts[b + n], most=T) for n in (0, 1))
        low, high = (task.least(task.greatest(x - first, 0), Q.shape[0]) for x in ends)
        key_low, key_high = (task.count(key_starts[b + n], most=K.shape[0]) for n in (0, 1))
        seen = key_high
        if causal:  # those of the section's last query, as many before the end as it is
            seen = task.greatest(0, task.least(key_high, first + high + key_high - ends[1]))
        section = K[key_low:seen], V[key_low:seen]
        last = starts[b + 1 : b + 2], key_starts[b + 1 : b + 2]
        with task.when(high - low):
            flags = {"scale": scale, "causal": causal}
            task.launch(varlen_section, O[low:high], Q[low:high], *section, *last, **flags)


@task.define
def varlen_head(O, Q, K, V, starts, key_starts, *, scale: task.static, causal: bool):
    """A head of keys and the heads of queries that share it: blocks, each on its own."""
    block = (task.tunable("block_M"), Q.shape[2])
    flags = {"scale": scale, "causal": causal, "T": Q.shape[0]}
    for h in task.parallel_range(Q.shape[1]):
        Op, Qp = task.partition(O[:, h], shape=block), task.partition(Q[:, h], shape=block)
        for i in task.parallel_range(Op.shape[0]):
            task.launch(varlen_block, Op[i, 0], Qp[i, 0], K, V, starts, key_starts, **flags)


@task.define
def attention_varlen(
    O: task.Tensor["T", "H", "D"],
    Q: task.Tensor["T", "H", "D"],
    K: task.Tensor["S", "G", "D"],
    V: task.Tensor["S", "G", "D"],
    starts: task.Tensor["L", task.int64],
    key_starts: task.Tensor["L", task.int64],
    *,
    causal: bool = False,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V for each sequence and head."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[2])) if scale is None else scale
    heads = (Q.shape[0], heads_a_group(Q, K), Q.shape[2])
    for g in task.parallel_range(K.shape[1]):
        o, q = (task.partition(x, shape=heads)[0, g, 0] for x in (O, Q))
        rest = K[:, g], V[:, g], starts, key_starts
        task.launch(varlen_head, o, q, *rest, scale=factor, causal=causal)
