"""Attention of several new queries a sequence over keys that lie in pages, as a table says.

Q and O [T, H, D], K and V [P, S, G, D]: T queries of all sequences one behind the other, P pages of
S keys each, G heads of keys for H heads of queries, H/G each. Sequence b has queries starts[b] to
starts[b + 1] and length[b] keys, of which the last ones are those of its queries: its keys s of
page p are ``K[pages[b, p], s]``. starts [B + 1], pages [B, L] and length [B] are int64, and the
number of each page that a sequence has keys in is at least 0 and less than P. With `causal` the
last query of a sequence sees all of its keys, the one before it one key less. A query of no
sequence gives 0, and so does one that sees no key; of sequences that lie over each other the last
one counts. What lies behind the last key is not read. `scale` is 1/sqrt(D) unless given.
Where each sequence has one query, `paged_attention` multiplies all heads that share keys at once.
Source: Kwon et al., PagedAttention, arXiv 2309.06180.
"""

import math

from septran import task
from septran.operators.attention import LOG2_E, in_units, normalise, scores_tile, times, values_tile
from septran.operators.attention_varlen import clear_rows

EXAMPLE = {"T": 256, "B": 4, "H": 8, "G": 2, "D": 64, "P": 64, "S": 16, "L": 12}
CASES = (
    {"T": 23, "B": 3, "H": 4, "G": 2, "D": 16, "P": 5, "S": 8, "L": 3},
    {"T": 96, "B": 2, "H": 2, "G": 2, "D": 64, "P": 9, "S": 32, "L": 4},
    {"T": 33, "B": 4, "H": 4, "G": 1, "D": 32, "P": 7, "S": 5, "L": 9, "dtype": "float16"},
)


@task.define(leaf=True)
def prefill_step(
    P, acc, m, l, S, Q, page, end, length,
    *, scale: task.static, size: int, causal: bool,
):  # fmt: skip
    """Fold the scores of some pages into the running maximum, sum and output (`softmax_step`).

    Keys are counted from the first of these pages, whose place in the table says which it is.
    """
    new = task.empty(m.shape, task.float32, name="new")
    old = task.empty(m.shape, task.float32, name="old")
    T = task.empty(S.shape, task.float32, name="T")
    E = task.empty(S.shape, task.float32, name="E")
    scores, unit = in_units(S, scale * LOG2_E)
    if causal:  # a query stands as far before the end of its sequence as the last key it sees
        key = task.index(page, 0)[:, None] * size + task.index(S, 1)[None, :] - length[:, None]
        scores = task.where(key <= task.index(Q, 0)[:, None] - end[:, None], scores, -task.inf)
    T[:, :] = scores
    new[:] = task.maximum(m, task.max(T, axis=1))
    shift = task.where(task.equal(new, -task.inf), 0.0, new)  # a row without keys so far
    old[:] = task.exp2(times(m - shift, unit))
    E[:, :] = task.exp2(times(T - shift[:, None], unit))
    P[:, :] = E
    l[:] = l * old + task.sum(E, axis=1)
    m[:] = new
    acc[:, :] = acc * old[:, None]


@task.define
def prefill_section(
    O, Q, K, V, pages, end, length, *, size: int, scale: task.static, causal: bool
):  # fmt: skip
    """A sequence's queries within a block: walk the pages that they see, several at a time."""
    count = task.cdiv(task.tunable("block_N"), size)
    tables = task.partition(pages, shape=(count,))
    Kp, Vp = (task.partition(x, shape=(count * size, x.shape[1])) for x in (K, V))
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    for n in task.sequential_range(Kp.shape[0]):
        k, v = Kp[n, 0], Vp[n, 0]
        S = task.empty((Q.shape[0], k.shape[0]), task.float32, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        given = tables[n][:1], end, length
        flags = {"scale": scale, "size": size, "causal": causal}
        task.launch(scores_tile, S, Q, k)
        task.launch(prefill_step, P, acc, m, l, S, Q, *given, **flags)
        task.launch(values_tile, acc, P, v)
    task.launch(normalise, O, acc, l)


@task.define
def prefill_block(
    O, Q, K, V, starts, pages, length, *, scale: task.static, causal: bool, T: int
):  # fmt: skip
    """One block of queries: the sequences that have some of them, each with its section."""
    task.launch(clear_rows, O)
    first, size = task.start(Q, 0), max(1, K.shape[1])
    for b in task.sequential_range(pages.shape[0]):
        ends = tuple(task.count(starts[b + n], most=T) for n in (0, 1))
        low, high = (task.least(task.greatest(x - first, 0), Q.shape[0]) for x in ends)
        rows = pages.shape[1] * K.shape[1]
        seen = there = task.count(length[b], most=rows)
        if causal:  # those of the section's last query, as many before the end as it is
            seen = task.greatest(0, task.least(there, first + high + there - ends[1]))
        keys, values = (x[pages[b]].reshape(rows, x.shape[2])[:seen] for x in (K, V))
        last = starts[b + 1 : b + 2], length[b : b + 1]
        with task.when(high - low):
            flags = {"size": size, "scale": scale, "causal": causal}
            section = O[low:high], Q[low:high], keys, values
            task.launch(prefill_section, *section, pages[b], *last, **flags)


@task.define
def prefill_head(O, Q, K, V, starts, pages, length, *, scale: task.static, causal: bool):
    """A head of keys and the heads of queries that share it: blocks, each on its own."""
    block = (task.tunable("block_M"), Q.shape[2])
    flags = {"scale": scale, "causal": causal, "T": Q.shape[0]}
    for h in task.parallel_range(Q.shape[1]):
        Op, Qp = task.partition(O[:, h], shape=block), task.partition(Q[:, h], shape=block)
        for i in task.parallel_range(Op.shape[0]):
            task.launch(prefill_block, Op[i, 0], Qp[i, 0], K, V, starts, pages, length, **flags)


@task.define
def paged_prefill(
    O: task.Tensor["T", "H", "D"],
    Q: task.Tensor["T", "H", "D"],
    K: task.Tensor["P", "S", "G", "D"],
    V: task.Tensor["P", "S", "G", "D"],
    starts: task.Tensor["B + 1", task.int64],
    pages: task.Tensor["B", "L", task.int64],
    length: task.Tensor["B", task.int64],
    *,
    causal: bool = True,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V over the pages of each sequence."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[2])) if scale is None else scale
    group = max(1, Q.shape[1] // max(1, K.shape[2]))
    even = group * K.shape[2] == Q.shape[1]
    task.require(even, f"{Q.shape[1]} heads of queries cannot share {K.shape[2]} of keys evenly")
    heads = (Q.shape[0], group, Q.shape[2])
    for g in task.parallel_range(K.shape[2]):
        o, q = (task.partition(x, shape=heads)[0, g, 0] for x in (O, Q))
        rest = K[:, :, g], V[:, :, g], starts, pages, length
        task.launch(prefill_head, o, q, *rest, scale=factor, causal=causal)
