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
def rotate_key(low, high, place, x1, x2, x, cos, sin):
    """Put a head's rotated key and its value in their place."""
    low[:, :] = x1 * cos - x2 * sin
    high[:, :] = x2 * cos + x1 * sin
    place[:, :] = x


@task.define
def append(
    Q: task.Tensor["F // E - 2 * G", "E"],
    K: task.InOut["G", "N", "E"],
    V: task.InOut["G", "N", "E"],
    A: task.Tensor[1, "F"],
    cos: task.Tensor["N", "E // 2"],
    sin: task.Tensor["N", "E // 2"],
    position: task.Integer[0, PLACES],
):
    """Take a token's queries, keys and values apart, rotate them, and put keys and values away."""
    heads, groups, size = Q.shape[0], K.shape[0], Q.shape[1]
    half = size // 2
    X = A.reshape(heads + 2 * groups, size)
    # The angles of one place, for all heads.
    c, s = (task.gather(x, position) for x in (cos, sin))
    Xp, Qp = (task.partition(x, shape=(heads // groups, half)) for x in (X[:heads], Q))
    for g in task.parallel_range(groups):
        task.launch(rotate, Qp[g, 0], Qp[g, 1], Xp[g, 0], Xp[g, 1], c, s)
    at = task.least(task.count(position), K.shape[1] - 1)
    for g in task.sequential_range(groups):
        k, v = X[heads + g : heads + g + 1], X[heads + groups + g : heads + groups + g + 1]
        low, high = K[g, at : at + 1, :half], K[g, at : at + 1, half:]
        task.launch(rotate_key, low, high, V[g, at : at + 1], k[:, :half], k[:, half:], v, c, s)


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
ATTENTION = [
    "Q, K, V = append(A, cos, sin, position)",
    "O = attend(Q, K, V, position)",
]


def layer(size: int) -> Task:
    """A layer of a model of `size` elements; weights [K, N] have the type of the activations."""
    steps = [
        "N1 = rms_norm(X, norm1, eps=eps)",
        "A = gemm(N1, qkv)",
        *ATTENTION,
        f"P = gemm(O.reshape(1, {size}), out)",
        "X1 = combine(P, X, function='add')",
        "N2 = rms_norm(X1, norm2, eps=eps)",
        "Z = swiglu(N2, gate, up)",
        "R = gemm(Z, down)",
        "Y = combine(R, X1, function='add')",
    ]
    return septran.sequence(steps, "decoder_layer", operators=OWN, keep=["K", "V"])


def layer_of_int4(size: int, hidden: int, group: int = 32) -> Task:
    """The same with weights of 4 bits in groups, which are multiplied by rows rounded to int8."""
    steps = [
        "N1 = rms_norm(X, norm1, eps=eps)",
        f"A = w4a8_gemm(N1, qkv, qkv_scale, group={group})",
        *ATTENTION,
        f"P = w4a8_gemm(O.reshape(1, {size}), out, out_scale, group={group})",
        "X1 = combine(P, X, function='add')",
        "N2 = rms_norm(X1, norm2, eps=eps)",
        f"B = w4a8_gemm(N2, gate_up, gate_up_scale, group={group})",
        f"Z = combine(B[:, :{hidden}], B[:, {hidden}:], function='silu_mul')",
        f"R = w4a8_gemm(Z, down, down_scale, group={group})",
        "Y = combine(R, X1, function='add')",
    ]
    return septran.sequence(steps, "decoder_layer_int4", operators=OWN, keep=["K", "V"])


def head() -> Task:
    """The logits of one token."""
    steps = ["N1 = rms_norm(X, norm, eps=eps)", "Y = gemm(N1, words, trans_b=True)"]
    return septran.sequence(steps, "decoder_head")


def head_of_int4(group: int = 32) -> Task:
    """The same with weights of 4 bits."""
    steps = [
        "N1 = rms_norm(X, norm, eps=eps)",
        f"Y = w4a8_gemm(N1, words, words_scale, group={group})",
    ]
    return septran.sequence(steps, "decoder_head_int4")
