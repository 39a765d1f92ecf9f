"""Rotary position embedding, halves rotated.

With x = [x1, x2] along D, y = [x1 * cos - x2 * sin, x2 * cos + x1 * sin]. X and Y [S, H, D]
(positions, heads, head size), cos and sin [S, D/2], any float dtype. Source: Su et al.,
RoFormer, arXiv 2104.09864; the arrangement in halves of Llama.
"""

from septran import task

EXAMPLE = {"S": 128, "H": 8, "D": 64}
CASES = (
    {"S": 70, "H": 3, "D": 22},
    {"S": 64, "H": 4, "D": 64},
    {"S": 5, "H": 2, "D": 128, "dtype": "float16"},
)


@task.define(leaf=True)
def rope_tile(low, high, x1, x2, cos, sin):
    """Some positions of one head."""
    low[:, :] = x1 * cos - x2 * sin
    high[:, :] = x2 * cos + x1 * sin


@task.define
def rope(
    Y: task.Tensor["S", "H", "D"],
    X: task.Tensor["S", "H", "D"],
    cos: task.Tensor["S", "D // 2"],
    sin: task.Tensor["S", "D // 2"],
):
    """Rotate each pair of elements by its position's angle."""
    task.require(X.shape[2] % 2 == 0, f"a head of {X.shape[2]} elements has no halves")
    rows, half = task.tunable("block_S"), X.shape[2] // 2
    tile = (rows, X.shape[1], half)
    Yp, Xp = task.partition(Y, shape=tile), task.partition(X, shape=tile)
    Cp, Sp = task.partition(cos, shape=(rows, half)), task.partition(sin, shape=(rows, half))
    for i, h in task.parallel_range(Yp.shape[0], X.shape[1]):
        # Element d is paired with element d + D/2 of its head, not with its neighbour.
        y = [Yp[i, 0, n][:, h] for n in (0, 1)]
        x = [Xp[i, 0, n][:, h] for n in (0, 1)]
        task.launch(rope_tile, *y, *x, Cp[i, 0], Sp[i, 0])


BACKWARD = "rope_backward"
"""The operator that computes the gradient (`septran.torch`)."""
