"""Gradient of linear_attention: dQ, dK and dV from Q, K, V and dO.

With O[i] = sum over j <= i of (Q[i] . K[j]) V[j] each gradient is a linear attention itself:
dQ[i] = sum over j <= i of (dO[i] . V[j]) K[j], and, from the last row to the first,
dK[j] = sum over i >= j of (V[j] . dO[i]) Q[i] and dV[j] = sum over i >= j of (K[j] . Q[i]) dO[i].
Shapes as in `linear_attention`, in whose chunks each is computed. Source: Katharopoulos et al.,
arXiv 2006.16236, equations 13 to 15.
"""

from septran import task
from septran.operators.linear_attention import linear_attention_head

EXAMPLE = {"B": 1, "H": 4, "N": 256, "D": 64, "E": 64}
CASES = (
    {"B": 1, "H": 2, "N": 100, "D": 24, "E": 40},
    {"B": 1, "H": 1, "N": 128, "D": 64, "E": 64},
    {"B": 2, "H": 1, "N": 70, "D": 32, "E": 16, "dtype": "float16"},
)


@task.define
def linear_attention_core(O, Q, K, V, *, reverse: bool):
    """Each batch, head and block of V's columns on its own, from either end."""
    tile = (1, 1, O.shape[2], task.tunable("block_E"))
    Op, Vp = task.partition(O, shape=tile), task.partition(V, shape=tile)
    for b, h, e in task.parallel_range(*O.shape[:2], Op.shape[3]):
        o, v = Op[b, h, 0, e][0, 0], Vp[b, h, 0, e][0, 0]
        task.launch(linear_attention_head, o, Q[b, h], K[b, h], v, reverse=reverse)


@task.define
def linear_attention_backward(
    dQ: task.Tensor["B", "H", "N", "D"],
    dK: task.Tensor["B", "H", "N", "D"],
    dV: task.Tensor["B", "H", "N", "E"],
    Q: task.Tensor["B", "H", "N", "D"],
    K: task.Tensor["B", "H", "N", "D"],
    V: task.Tensor["B", "H", "N", "E"],
    dO: task.Tensor["B", "H", "N", "E"],
):
    """Three linear attentions."""
    task.launch(linear_attention_core, dQ, dO, V, K, reverse=False)
    task.launch(linear_attention_core, dK, V, dO, Q, reverse=True)
    task.launch(linear_attention_core, dV, K, Q, dO, reverse=True)
