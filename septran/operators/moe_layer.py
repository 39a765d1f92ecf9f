"""A whole layer of experts: a gate chooses k of E experts for each token, and joins their results.

Y[t] = sum over the k greatest logits X[t] @ G[:, e] of p[t, e] * F_e(X[t]), p their softmax, and
F_e(x) = (act(x @ W[e]) * (x @ V[e])) @ U[e], `act` silu or gelu. X and Y [T, D], G [D, E], W and V
[E, D, F], U [E, F, D], any float dtype; logits are float32 (float64 for float64). The gate is
`gemm`, the choice `route`, the experts `moe`, of which each says what it rounds. Source: Jiang et
al., Mixtral of Experts, arXiv 2401.04088, section 2.1.
"""

from septran import task
from septran.operators.gemm import gemm
from septran.operators.moe import moe
from septran.operators.route import route

EXAMPLE = {"T": 128, "E": 8, "D": 128, "F": 256}
CASES = (
    {"T": 23, "E": 5, "D": 40, "F": 50},
    {"T": 64, "E": 8, "D": 64, "F": 96, "k": 1, "act": "gelu"},
    {"T": 9, "E": 12, "D": 50, "F": 33, "k": 3, "dtype": "float16"},
)


@task.define
def moe_layer(
    Y: task.Tensor["T", "D"],
    X: task.Tensor["T", "D"],
    G: task.Tensor["D", "E"],
    W: task.Tensor["E", "D", "F"],
    V: task.Tensor["E", "D", "F"],
    U: task.Tensor["E", "F", "D"],
    *,
    k: task.static = 2,
    act: str = "silu",
):
    """The gate, the routes, and the experts of the tokens that the routes lead to them."""
    experts, routes = G.shape[1], X.shape[0] * k
    logits = task.empty((X.shape[0], experts), task.accumulator_dtype(X.dtype), name="logits")
    token = task.empty((routes,), task.int64, name="token")
    weight = task.empty((routes,), logits.dtype, name="weight")
    offsets = task.empty((experts + 1,), task.int64, name="offsets")
    task.launch(gemm, logits, X, G)
    task.launch(route, token, weight, offsets, logits, k=k)
    task.launch(moe, Y, X, W, V, U, token, weight, offsets, act=act)
