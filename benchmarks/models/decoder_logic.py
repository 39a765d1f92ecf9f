"""A decoder's layer for one new token: operators of the library and two more, one after another.

Of D model elements, H heads of queries and G of keys, E elements each, a cache of N places. The
place of the token is a number that the call tells: one kernel serves every length.
"""

import math
from collections.abc import Callable

import septran
from septran import task
from septran.operators.attention import attention_block
from septran.operators.moe import open_gate
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


@task.define
def gated(Z: task.Out["M", "N // 2"], H: task.In["M", "N"]):
    """The left half of each row gates the right one, as `swiglu` after its two products."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    parts = (task.partition(x, shape=tile) for x in (Z, *halves(H, Z.shape[1])))
    Zp, gates, ups = parts
    for i, j in task.parallel_range(Zp.shape):
        task.launch(open_gate, Zp[i, j], gates[i, j], ups[i, j], act="silu")


OWN = {"append": append, "attend": attend, "combine": "elementwise_binary", "gated": gated}
Product = Callable[[str, str, str], str]
"""The step that multiplies: from the names of its result, of its rows and of the weights."""


def plain(result: str, rows: str, weights: str) -> str:
    """By weights [K, N] in the type of the activations."""
    return f"{result} = gemm({rows}, {weights})"


def of_int4(group: int) -> Product:
    """By weights of 4 bits in such groups; the rows stay as they are."""

    def step(result: str, rows: str, weights: str) -> str:
        parts = ", ".join((weights, scale_of(weights), zero_of(weights)))
        return f"{result} = dequant_gemm({rows}, {parts}, group={group})"

    return step


def of_int4_and_int8(group: int, row_group: int = 0) -> Product:
    """By weights of 4 bits in such groups; each row, or each group of it, is rounded to 8 bits."""
    flags = f"group={group}, row_group={row_group}"

    def step(result: str, rows: str, weights: str) -> str:
        return f"{result} = w4a8_gemm({rows}, {weights}, {scale_of(weights)}, {flags})"

    return step


def scale_of(weights: str) -> str:
    """The name of their groups' scales."""
    return f"{weights}_scale"


def zero_of(weights: str) -> str:
    """The name of what means zero in each group."""
    return f"{weights}_zero"


def layer(size: int, product: Product = plain) -> Task:
    """A layer of a model of `size` elements."""
    hidden = ["Z = swiglu(N2, gate, up)"]
    if product is not plain:
        hidden = [product("H", "N2", "gate_up"), "Z = gated(H)"]
    steps = [
        "N1 = rms_norm(X, norm1, eps=eps)",
        product("A", "N1", "qkv"),
        "Q, K, V = append(A, cos, sin, position)",
        "O = attend(Q, K, V, position)",
        product("P", f"O.reshape(1, {size})", "out"),
        "X1 = combine(P, X, function='add')",
        "N2 = rms_norm(X1, norm2, eps=eps)",
        *hidden,
        product("R", "Z", "down"),
        "Y = combine(R, X1, function='add')",
    ]
    return septran.sequence(steps, "decoder_layer", operators=OWN, keep=["K", "V"])


def head(product: Product | None = None) -> Task:
    """The logits of one token; by a product of weights [K, words] or, without one, [words, K]."""
    step = product("Y", "N1", "words") if product else "Y = gemm(N1, words, trans_b=True)"
    return septran.sequence(["N1 = rms_norm(X, norm, eps=eps)", step], "decoder_head")
