"""A layer of experts: Y[t] = sum over routes r with token[r] = t of weight[r] * F(X[t]).

F(x) = (act(x @ W[e]) * (x @ V[e])) @ U[e] for the route's expert e, `act` silu or gelu. X and Y [T,
D], W and V [E, D, F], U [E, F, D], any float dtype. The R routes lie in the order of their experts,
those of expert e from offsets[e] on, up to offsets[e + 1]: token [R], 0 <= token[r] < T, and
offsets [E + 1] are int64, weight [R] is of any float dtype. A route of no expert adds 0; of
sections that lie over each other the last one counts. What is between the products is rounded to
X's dtype, and a token's sum after each of its routes. Source: Shazeer et al., The Sparsely-Gated
Mixture-of-Experts Layer, arXiv 1701.06538.
"""

from septran import task
from septran.operators.gemm import gemm_tile
from septran.operators.grouped_gemm import clear_rows

EXAMPLE = {"T": 128, "R": 256, "E": 8, "D": 128, "F": 256}
CASES = (
    {"T": 23, "R": 40, "E": 5, "D": 40, "F": 50},
    {"T": 64, "R": 128, "E": 8, "D": 64, "F": 96, "act": "gelu"},
    {"T": 9, "R": 33, "E": 12, "D": 50, "F": 33, "dtype": "float16"},
)


@task.define(leaf=True)
def open_gate(H, gate, up, *, act: str):
    """H = act(gate) * up."""
    H[:, :] = (task.silu(gate) if act == "silu" else task.gelu(gate)) * up


@task.define(leaf=True)
def weigh_rows(Z, acc, weight):
    """Z is what was summed, times the weight of its route."""
    Z[:, :] = acc * weight[:, None]


@task.define
def hidden_rows(H, X, W, V, *, act: str):
    """The gated products of an expert's rows within one tile: walk the axis that both sum."""
    step, wide = task.tunable("block_K"), task.accumulator_dtype(H.dtype)
    gate, up = (task.zeros(H.shape, wide, name=name) for name in ("gate", "up"))
    Xp = task.partition(X, shape=(X.shape[0], step))
    Wp, Vp = (task.partition(x, shape=(step, x.shape[1])) for x in (W, V))
    for k in task.sequential_range(Xp.shape[1]):
        task.launch(gemm_tile, gate, Xp[0, k], Wp[k, 0])
        task.launch(gemm_tile, up, Xp[0, k], Vp[k, 0])
    task.launch(open_gate, H, gate, up, act=act)


@task.define
def result_rows(Z, H, U, weight):
    """The results of an expert's rows within one tile."""
    step = task.tunable("block_K")
    acc = task.zeros(Z.shape, task.accumulator_dtype(H.dtype), name="acc")
    Hp = task.partition(H, shape=(H.shape[0], step))
    Up = task.partition(U, shape=(step, U.shape[1]))
    for k in task.sequential_range(Hp.shape[1]):
        task.launch(gemm_tile, acc, Hp[0, k], Up[k, 0])
    task.launch(weigh_rows, Z, acc, weight)


@task.define
def hidden_block(H, X, W, V, offsets, *, routes: task.static, act: str):
    """One tile between the products: the experts that have routes in it."""
    task.launch(clear_rows, H)
    first = task.start(H, 0)
    for e in task.sequential_range(W.shape[0]):
        ends = (task.count(offsets[e + n], most=routes) - first for n in (0, 1))
        low, high = (task.least(task.greatest(end, 0), H.shape[0]) for end in ends)
        with task.when(high - low):
            task.launch(hidden_rows, H[low:high], X[low:high], W[e], V[e], act=act)


@task.define
def result_block(Z, H, U, weight, offsets, *, routes: task.static):
    """One tile of the routes' results."""
    task.launch(clear_rows, Z)
    first = task.start(Z, 0)
    for e in task.sequential_range(U.shape[0]):
        ends = (task.count(offsets[e + n], most=routes) - first for n in (0, 1))
        low, high = (task.least(task.greatest(end, 0), Z.shape[0]) for end in ends)
        with task.when(high - low):
            task.launch(result_rows, Z[low:high], H[low:high], U[e], weight[low:high])


@task.define
def combine(Y, Z, token):
    """Some columns of all routes' results, added to their tokens in order."""
    for r in task.sequential_range(Z.shape[0]):
        task.reduce_into(Y[token[r]], Z[r])


@task.define
def moe(
    Y: task.Tensor["T", "D"],
    X: task.Tensor["T", "D"],
    W: task.Tensor["E", "D", "F"],
    V: task.Tensor["E", "D", "F"],
    U: task.Tensor["E", "F", "D"],
    token: task.Tensor["R", task.int64],
    weight: task.Tensor["R"],
    offsets: task.Tensor["E + 1", task.int64],
    *,
    act: str = "silu",
):
    """Routes' hidden rows in tiles, then their results, then each token's sum."""
    task.require(act in ("silu", "gelu"), f"{act!r} is neither silu nor gelu")
    rows, columns, routes = task.tunable("block_M"), task.tunable("block_N"), token.shape[0]
    H = task.empty((routes, W.shape[2]), X.dtype, name="H")
    Z = task.empty((routes, X.shape[1]), task.accumulator_dtype(X.dtype), name="Z")
    Hp, Zp = (task.partition(x, shape=(rows, columns)) for x in (H, Z))
    Xp, Hq = (task.partition(x, shape=(rows, x.shape[1])) for x in (task.gather(X, token), H))
    Wp, Vp, Up = (task.partition(x, shape=(*x.shape[:2], columns)) for x in (W, V, U))
    for i, j in task.parallel_range(Hp.shape):
        given = Xp[i, 0], Wp[0, 0, j], Vp[0, 0, j], offsets
        task.launch(hidden_block, Hp[i, j], *given, routes=routes, act=act)
    weights = task.partition(weight, shape=(rows,))
    for i, j in task.parallel_range(Zp.shape):
        given = Hq[i, 0], Up[0, 0, j], weights[i], offsets
        task.launch(result_block, Zp[i, j], *given, routes=routes)
    task.fill(Y, 0)
    width = task.tunable("block_width")
    Yq, Zq = (task.partition(x, shape=(x.shape[0], width)) for x in (Y, Z))
    for j in task.parallel_range(Yq.shape[1]):
        task.launch(combine, Yq[0, j], Zq[0, j], token)
