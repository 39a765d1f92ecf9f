"""Gradient of rope by X: each pair of dY rotated back.

With dy = [dy1, dy2] along D, dx = [dy1 * cos + dy2 * sin, dy2 * cos - dy1 * sin]. dX and dY
[S, H, D], cos and sin [S, D/2], any float dtype; by cos and sin there is no gradient. Source: the
transpose of the rotation of Su et al., RoFormer, arXiv 2104.09864.
"""

from septran import task

EXAMPLE = {"S": 128, "H": 8, "D": 64}
CASES = (
    {"S": 70, "H": 3, "D": 22},
    {"S": 64, "H": 4, "D": 64},
    {"S": 5, "H": 2, "D": 128, "dtype": "float16"},
)


@task.define(leaf=True)
def rope_back_tile(low, high, y1, y2, cos, sin):
    """Some positions of one head."""
    low[:, :] = y1 * cos + y2 * sin
    high[:, :] = y2 * cos - y1 * sin


@task.define
def rope_backward(
    dX: task.Tensor["S", "H", "D"],
    cos: task.Tensor["S", "D // 2"],
    sin: task.Tensor["S", "D // 2"],
    dY: task.Tensor["S", "H", "D"],
):
    """Rotate each pair of elements back by its position's angle."""
    task.require(dY.shape[2] % 2 == 0, f"a head of {dY.shape[2]} elements has no halves")
    rows, half = task.tunable("block_S"), dY.shape[2] // 2
    tile = (rows, dY.shape[1], half)
    Xp, Yp = task.partition(dX, shape=tile), task.partition(dY, shape=tile)
    Cp, Sp = task.partition(cos, shape=(rows, half)), task.partition(sin, shape=(rows, half))
    for i, h in task.parallel_range(Xp.shape[0], dY.shape[1]):
        x = [Xp[i, 0, n][:, h] for n in (0, 1)]
        y = [Yp[i, 0, n][:, h] for n in (0, 1)]
        task.launch(rope_back_tile, *x, *y, Cp[i, 0], Sp[i, 0])
