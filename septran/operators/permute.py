"""The axes in another order: axis n of Y is axis order[n] of X.

X has two to five axes, as many as `order` has entries, and any dtype. Source: numpy.transpose,
torch.permute (definition).
"""

from septran import task

EXAMPLE = {"A": 2, "B": 512, "C": 8, "D": 64}
CASES = (
    {"A": 2, "B": 40, "C": 3, "D": 70},
    {"A": 9, "B": 33, "C": 50, "order": (2, 0, 1)},
    {"A": 2, "B": 3, "C": 20, "D": 5, "E": 37, "order": (0, 4, 2, 3, 1), "dtype": "float16"},
)


@task.define(leaf=True)
def permute_tile(Y, X):
    """One tile, which X is a permuted view of."""
    Y[:, :] = X


def _moved(Y, X, order):
    """Tiles of the axes that are innermost in Y and in X, each on its own."""
    last = len(order) - 1
    in_turn = tuple(range(last + 1))
    task.require(last > 0 and tuple(sorted(order)) == in_turn, f"{order} orders no axes")
    tile, kept = [1] * last + [task.tunable("block_width")], [0] * last + [slice(None)]
    across = last - 1 if order[last] == last else order.index(last)
    tile[across], kept[across] = task.tunable("block_height"), slice(None)
    Yp, Xp = (task.partition(x, shape=tuple(tile)) for x in (Y, X.transpose(*order)))
    for place in task.parallel_range(Yp.shape):
        task.launch(permute_tile, Yp[place][tuple(kept)], Xp[place][tuple(kept)])


@task.define
def permute(
    Y: task.Tensor["(A, B, C, D, E)[order]"],
    X: task.Tensor["(A, B, C, D, E)[:len(order)]"],
    *,
    order: tuple = (0, 2, 1, 3),
):
    """Each element to its place."""
    _moved(Y, X, order)


@task.define
def permute_back(
    dX: task.Tensor["(A, B, C, D, E)[:len(order)]"],
    dY: task.Tensor["(A, B, C, D, E)[order]"],
    *,
    order: tuple = (0, 2, 1, 3),
):
    """The gradient: each element back to where it came from."""
    _moved(dX, dY, tuple(order.index(n) for n in range(len(order))))


BACKWARD = permute_back
