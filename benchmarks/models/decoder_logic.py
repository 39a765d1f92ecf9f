"""A decoder's layer for one new token: operators of the library and two more, one after another.

Of D model elements, H heads of queries and G of keys, E elements each, a cache of N places. The
place of the token is a number that the call tells: one kernel serves every length.
"""

import math

import septran
from septran import task
from septran.operators.attention import attention_block
from septran.task import Task

EXAMPLE = {"H": 8, "G": 2, "E": 32, "N": 96, "position": 40}
PLACES = 1 << 20
"""More than any cache has."""


@task.define(leaf=True)
def rotate(low, high, x1, x2, cos, sin):
    """Rotate all heads of one token by the angles of its place."""
    low[:, :] = x1 * cos - x2 * sin
    high[:, :] = x2 * cos + x1 * sin


@task.define(leaf=True)
def put(place, x):
    """Put a value in its place."""
    place[:, :] = x


@task.define
def append_group(Q, K, V, q, k, v, cos, sin, position: task.Integer[0, PLACES]):
    """A head of keys and values, and the queries that share it."""
    half = Q.shape[1] // 2
    at = task.least(task.count(position), K.shape[0] - 1)
    task.launch(rotate, *halves(Q, half), *halves(q, half), cos, sin)
    task.launch(rotate, *halves(K[at : at + 1], half), *halves(k, half), cos, sin)
    task.launch(put, V[at : at + 1], v)


def halves(x, half):
    """The two halves of each row."""
    return x[:, :half], x[:, half:]


@task.define
def append(
    Q: task.Out["F // E - 2 * G", "E"],
    K: task.InOut["G", "N", "E"],
    V: task.InOut["G", "N", "E"],
    A: task.In[1, "F"],
    cos: task.In["N", "E // 2"],
    sin: task.In["N", "E // 2"],
    position: task.Integer[0, PLACES],
):
    """Take a token's queries, keys and values apart, rotate them, and put keys and values away."""
    heads, groups, size = Q.shape[0], K.shape[0], Q.shape[1]
    X = A.reshape(heads + 2 * groups, size)
    Xp, Qp = (task.partition(x, shape=(heads // groups, size)) for x in (X[:heads], Q))
    Kp, Vp = (
        task.partition(x, shape=(1, size)) for x in (X[heads : heads + groups], X[heads + groups :])
    )
    angles = [task.gather(x, position) for x in (cos, sin)]
    for g in task.parallel_range(groups):
        given = Xp[g, 0], Kp[g, 0], Vp[g, 0]
        task.launch(append_group, Qp[g, 0], K[g], V[g], *given, *angles, position)


@task.define
def attend(
    O: task.Tensor["H", "E"],
    Q: task.Tensor["H", "E"],
    K: task.Tensor["G", "N", "E"],
    V: task.Tensor["G", "N", "E"],
    position: task.Integer[0, PLACES],
):
    """Attention of one token to those up to its place, each group of heads on its own."""
    heads = (Q.shape[0] // K.shape[0], Q.shape[1])
    Op, Qp = (task.partition(x, shape=heads) for x in (O, Q))
    seen = task.least(task.count(position) + 1, K.shape[1])
    scale = 1 / math.sqrt(Q.shape[1])
    for g in task.parallel_range(K.shape[0]):
        k, v = K[g, :seen], V[g, :seen]
        task.launch(attention_block, Op[g, 0], Qp[g, 0], k, v, scale=scale, ahead=None)


OWN = {"append": append, "attend": attend, "combine": "elementwise_binary"}


def layer(size: int) -> Task:
    """A layer of a model of `size` elements; weights [K, N] have the type of the activations."""
    steps = [
        "N1 = rms_norm(X, norm1, eps=eps)",
        "A = gemm(N1, qkv)",
        "Q, K, V = append(A, cos, sin, position)",
        "O = attend(Q, K, V, position)",
        f"P = gemm(O.reshape(1, {size}), out)",
        "X1 = combine(P, X, function='add')",
        "N2 = rms_norm(X1, norm2, eps=eps)",
        "Z = swiglu(N2, gate, up)",
        "R = gemm(Z, down)",
        "Y = combine(R, X1, function='add')",
    ]
    return septran.sequence(steps, "decoder_layer", operators=OWN, keep=["K", "V"])


def head() -> Task:
    """The logits of one token."""
    steps = ["N1 = rms_norm(X, norm, eps=eps)", "Y = gemm(N1, words, trans_b=True)"]
    return septran.sequence(steps, "decoder_head")
