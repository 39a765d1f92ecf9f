"""Gradient of cumsum: the cumulative sum of dY from the other end.

dX[i, k] = sum over j >= k of dY[i, j], over j <= k with `reverse`, without j = k with `exclusive`.
dX and dY [M, N], any float dtype; sums in float32 (float64 for float64), rounded once. Source: the
transpose of a triangle of ones; torch's tools/autograd/derivatives.yaml, cumsum.
"""

from septran import task
from septran.operators.cumsum import cumsum_rows

EXAMPLE = {"M": 256, "N": 4096}
CASES = (
    {"M": 40, "N": 70},
    {"M": 64, "N": 512, "reverse": True},
    {"M": 3, "N": 1001, "exclusive": True, "dtype": "float16"},
)


@task.define
def cumsum_backward(
    dX: task.Tensor["M", "N"],
    dY: task.Tensor["M", "N"],
    *,
    reverse: bool = False,
    exclusive: bool = False,
):
    """Rows in blocks, each on its own, scanned the other way."""
    rows = task.tunable("block_height")
    dXp, dYp = (task.partition(T, shape=(rows, T.shape[1])) for T in (dX, dY))
    for i in task.parallel_range(dXp.shape[0]):
        task.launch(cumsum_rows, dXp[i, 0], dYp[i, 0], reverse=not reverse, exclusive=exclusive)
