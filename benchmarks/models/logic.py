"""What the encoder needs beside the library's operators, each fused from several of torch's.

Sentences of unequal lengths lie one after another, T tokens in all, without padding: all layers
but attention work on a matrix of T rows. ``rows[b, l]`` says which of them is token l of sentence
b, and ``length[b]`` how many it has; beyond, `rows` may name any row.
"""

import math

from septran import task
from septran.operators.attention import LOG2_E, normalise, scores_tile, values_tile
from septran.operators.gemm_bias_act import bias_act_tile


@task.define(leaf=True)
def product(acc, A, B):
    """Sum over all of a panel at once: the sums stay in registers."""
    task.fill(acc, 0)
    task.call_primitive("gemm", acc, A, B)


@task.define
def panel_rows(C, A, B, bias, *, act: str):
    """Some rows by one panel."""
    acc = task.empty(C.shape, task.float32, name="acc")
    task.launch(product, acc, A, B)
    task.launch(bias_act_tile, C, acc, bias, act=act)


@task.define
def panel(C, A, B, bias, *, act: str):
    """All rows by one panel, which stays in the core's cache."""
    rows = task.tunable("block_M")
    Cp, Ap = (task.partition(x, shape=(rows, x.shape[1])) for x in (C, A))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(panel_rows, Cp[i, 0], Ap[i, 0], B, bias, act=act)


@task.define
def linear(
    C: task.Tensor["M", "P * S"],
    A: task.Tensor["M", "K"],
    B: task.Tensor["P", "K", "S"],
    bias: task.Tensor["P * S"],
    *,
    act: str = "none",
):
    """C = act(A W + bias) with W in panels of S columns, each as it is read: ``W[:, S * p + s]``.

    Weights that few rows are multiplied by come from memory once, and nothing packs them.
    """
    Cp = task.partition(C, shape=(C.shape[0], B.shape[2]))
    each = task.partition(bias, shape=(B.shape[2],))
    for p in task.parallel_range(B.shape[0]):
        task.launch(panel, Cp[0, p], A, B[p], each[p], act=act)


@task.define(leaf=True)
def sum_norm_rows(Y, A, B, W, bias, *, eps: float):
    """Some rows of the sum, normalised as in `layer_norm`."""
    x = task.empty(A.shape, task.float32, name="x")
    d = task.empty(A.shape, task.float32, name="d")
    mean = task.empty(A.shape[:1], task.float32, name="mean")
    scale = task.empty(A.shape[:1], task.float32, name="scale")
    x[:, :] = A + B
    mean[:] = task.sum(x, axis=1) / A.shape[1]
    d[:, :] = x - mean[:, None]
    scale[:] = task.rsqrt(task.sum(d * d, axis=1) / A.shape[1] + eps)
    Y[:, :] = d * scale[:, None] * W[None, :] + bias[None, :]


@task.define
def add_norm(
    Y: task.Tensor["T", "E"],
    A: task.Tensor["T", "E"],
    B: task.Tensor["T", "E"],
    W: task.Tensor["E"],
    bias: task.Tensor["E"],
    *,
    eps: float = 1e-5,
):
    """Y = layer_norm(A + B)."""
    block = (task.tunable("block_rows"), Y.shape[1])
    Yp, Ap, Bp = (task.partition(x, shape=block) for x in (Y, A, B))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(sum_norm_rows, Yp[i, 0], Ap[i, 0], Bp[i, 0], W, bias, eps=eps)


@task.define
def embed(
    Y: task.Tensor["T", "E"],
    words: task.Tensor["V", "E"],
    places: task.Tensor["L", "E"],
    W: task.Tensor["E"],
    bias: task.Tensor["E"],
    ids: task.Tensor["T", task.int64],
    place: task.Tensor["T", task.int64],
    *,
    eps: float = 1e-5,
):
    """Y[t] = layer_norm(words[ids[t]] + places[place[t]])."""
    block = (task.tunable("block_rows"), Y.shape[1])
    chosen = (Y, task.gather(words, ids), task.gather(places, place))
    Yp, Ap, Bp = (task.partition(x, shape=block) for x in chosen)
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(sum_norm_rows, Yp[i, 0], Ap[i, 0], Bp[i, 0], W, bias, eps=eps)


@task.define(leaf=True)
def seen_step(P, acc, m, l, S, rows, length, *, scale: task.static):
    """Fold a block of scores into the running maximum, sum and output, as `attention` does.

    The first block of a sentence has a token, so that no maximum stays -inf.
    """
    new = task.empty(m.shape, task.float32, name="new")
    old = task.empty(m.shape, task.float32, name="old")
    T = task.empty(S.shape, task.float32, name="T")
    E = task.empty(S.shape, task.float32, name="E")
    seen = task.index(rows, 1)[None, :] < length[:, None]
    T[:, :] = task.where(seen, S * (scale * LOG2_E), -task.inf)
    new[:] = task.maximum(m, task.max(T, axis=1))
    old[:] = task.exp2(m - new)
    E[:, :] = task.exp2(T - new[:, None])
    P[:, :] = E
    l[:] = l * old + task.sum(E, axis=1)
    m[:] = new
    acc[:, :] = acc * old[:, None]


@task.define
def sentence_block(O, Q, K, V, rows, length, *, scale: task.static):
    """Some queries of a sentence: walk its keys, as many blocks as it has."""
    keys = task.tunable("block_N")
    Kp, Vp = (task.partition(x, shape=(keys, x.shape[1])) for x in (K, V))
    Rp = task.partition(rows, shape=(1, keys))
    acc = task.zeros(O.shape, task.float32, name="acc")
    m = task.full(Q.shape[:1], -task.inf, name="m")
    l = task.zeros(Q.shape[:1], name="l")
    blocks = task.cdiv(task.count(length[0], most=K.shape[0]), keys)
    for k in task.sequential_range(blocks):
        S = task.empty((Q.shape[0], Kp[k, 0].shape[0]), task.float32, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        task.launch(scores_tile, S, Q, Kp[k, 0])
        task.launch(seen_step, P, acc, m, l, S, Rp[0, k], length, scale=scale)
        task.launch(values_tile, acc, P, Vp[k, 0])
    task.launch(normalise, O, acc, l)


@task.define
def sentence_head(O, Q, K, V, rows, length, *, scale: task.static):
    """One head of a sentence: blocks of queries, each on its own."""
    block = (task.tunable("block_M"), Q.shape[1])
    Op, Qp = (task.partition(x, shape=block) for x in (O, Q))
    for i in task.parallel_range(Op.shape[0]):
        task.launch(sentence_block, Op[i, 0], Qp[i, 0], K, V, rows, length, scale=scale)


@task.define
def packed_attention(
    O: task.Tensor["B", "L", "F // 3"],
    QKV: task.Tensor["T", "F"],
    rows: task.Tensor["B", "L", task.int64],
    length: task.Tensor["B", task.int64],
    *,
    heads: task.static = 1,
):
    """O = softmax(Q K^T / sqrt(D)) V of each sentence and head; QKV has them side by side.

    Each row of QKV has the queries of all heads, then the keys, then the values. A sentence has at
    least one token; what is in O beyond its length is finite, and of no use.
    """
    D = O.shape[2] // heads
    X = task.partition(QKV, shape=(QKV.shape[0], D))
    Op = task.partition(O, shape=(1, O.shape[1], D))
    for b, h in task.parallel_range(O.shape[0], heads):
        q, k, v = (task.gather(X[0, n * heads + h], rows[b]) for n in range(3))
        own = (rows[b : b + 1], length[b : b + 1])
        task.launch(sentence_head, Op[b, 0, h][0], q, k, v, *own, scale=1 / math.sqrt(D))


@task.define(leaf=True)
def mean_of_rows(Y, X, rows, length):
    """The mean of the first rows, scaled to length 1."""
    mean = task.empty(Y.shape, task.float32, name="mean")
    norm = task.empty(Y.shape[:1], task.float32, name="norm")
    there = (task.index(rows, 1) < length)[:, None]
    mean[:, :] = task.sum(task.where(there, X, 0.0), axis=0)[None, :] / length[:, None]
    norm[:] = task.sqrt(task.sum(mean * mean, axis=1))
    Y[:, :] = mean / norm[:, None]


@task.define
def mean_pool(
    Y: task.Tensor["B", "E"],
    X: task.Tensor["T", "E"],
    rows: task.Tensor["B", "L", task.int64],
    length: task.Tensor["B", task.int64],
):
    """The mean of each sentence's rows, scaled to length 1."""
    Yp = task.partition(Y, shape=(1, Y.shape[1]))
    for b in task.parallel_range(Y.shape[0]):
        X_b = task.gather(X, rows[b])
        task.launch(mean_of_rows, Yp[b, 0], X_b, rows[b : b + 1], length[b : b + 1])
