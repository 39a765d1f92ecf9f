"""Attention of one new query a head over keys that lie in pages, as a table says.

Q and O [B, H, D], K and V [P, S, G, D]: P pages of S keys each, G heads of keys for H heads of
queries. Sequence b has its keys s of page p at ``K[pages[b, p], s]`` and as many as `length[b]`
says; pages [B, L] and length [B] are int64. The number of each page that a sequence has keys in is
at least 0 and less than P, and what lies behind the last key in its page is finite; pages behind
that one are not read.
`scale` is 1/sqrt(D) unless given. Source: Kwon et al., PagedAttention, arXiv 2309.06180.
"""

import math

from septran import task
from septran.operators.attention import LOG2_E, in_units, normalise, scores_tile, times, values_tile

EXAMPLE = {"B": 4, "H": 8, "G": 2, "D": 64, "P": 64, "S": 16, "L": 12}
CASES = (
    {"B": 2, "H": 4, "G": 2, "D": 16, "P": 5, "S": 8, "L": 3},
    {"B": 1, "H": 2, "G": 2, "D": 64, "P": 9, "S": 32, "L": 4},
    {"B": 3, "H": 8, "G": 1, "D": 32, "P": 7, "S": 5, "L": 2, "dtype": "float16"},
)


@task.define(leaf=True)
def paged_step(P, acc, m, l, S, page, length, *, scale: task.static):
    """Fold the scores of one page into the running maximum, sum and output.

    The number of a page in its sequence is where it stands in the table.
    """
    new = task.empty(m.shape, task.float32, name="new")
    old = task.empty(m.shape, task.float32, name="old")
    T = task.empty(S.shape, task.float32, name="T")
    E = task.empty(S.shape, task.float32, name="E")
    at = task.index(page, 0)[:, None] * S.shape[1] + task.index(S, 1)[None, :]
    scores, unit = in_units(S, scale * LOG2_E)
    # A sequence's last page may be full in part only.
    T[:, :] = task.where(at < length[:, None], scores, -task.inf)
    new[:] = task.maximum(m, task.max(T, axis=1))
    shift = task.where(task.equal(new, -task.inf), 0.0, new)  # no key so far
    old[:] = task.exp2(times(m - shift, unit))
    E[:, :] = task.exp2(times(T - shift[:, None], unit))
    P[:, :] = E
    l[:] = l * old + task.sum(E, axis=1)
    m[:] = new
    acc[:, :] = acc * old[:, None]


@task.define
def paged_group(O, Q, K, V, pages, length, *, scale: task.static):
    """The queries of one group of heads: walk the pages of their sequence."""
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    size = max(1, K.shape[1])
    # Only the pages that have keys are walked, a number that is known when the kernel runs.
    keys_there = task.count(length[0], most=pages.shape[0] * size)
    for p in task.sequential_range(task.cdiv(keys_there, size)):
        keys, values = K[pages[p]], V[pages[p]]
        S = task.empty((Q.shape[0], keys.shape[0]), task.float32, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        task.launch(scores_tile, S, Q, keys)
        task.launch(paged_step, P, acc, m, l, S, pages[p : p + 1], length, scale=scale)
        task.launch(values_tile, acc, P, values)
    task.launch(normalise, O, acc, l)


@task.define
def paged_attention(
    O: task.Tensor["B", "H", "D"],
    Q: task.Tensor["B", "H", "D"],
    K: task.Tensor["P", "S", "G", "D"],
    V: task.Tensor["P", "S", "G", "D"],
    pages: task.Tensor["B", "L", task.int64],
    length: task.Tensor["B", task.int64],
    *,
    scale: task.static = None,
):
    """O = softmax(scale * Q K^T) V over the pages of each sequence."""
    factor = 1.0 / math.sqrt(max(1, Q.shape[2])) if scale is None else scale
    group = max(1, Q.shape[1] // max(1, K.shape[2]))
    even = group * K.shape[2] == Q.shape[1]
    task.require(even, f"{Q.shape[1]} heads of queries cannot share {K.shape[2]} of keys evenly")
    Op, Qp = (task.partition(x, shape=(1, group, x.shape[2])) for x in (O, Q))
    for b, g in task.parallel_range(*Op.shape[:2]):
        o, q = Op[b, g, 0][0], Qp[b, g, 0][0]
        keys, values = K[:, :, g], V[:, :, g]
        count = length[b : b + 1]
        task.launch(paged_group, o, q, keys, values, pages[b], count, scale=factor)
