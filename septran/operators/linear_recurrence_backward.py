"""Gradient of linear_recurrence: dA and dX from A, Y and dY.

With G[t] = dY[t] + A[t + 1] * G[t + 1], from the last step on, dX = G and dA[t] = G[t] * Y[t - 1]
(with `reverse` the other way). What a step hands on, A[t] * G[t], is a recurrence by the same
function, of A and A * dY. Shapes, types and flag as in `linear_recurrence`, whose output is taken
as it was rounded. Source: Martin and Cundy, Parallelizing Linear Recurrent Neural Nets over
Sequence Length, arXiv 1709.04057.
"""

from septran import task
from septran.operators.linear_recurrence import follow

EXAMPLE = {"B": 2, "T": 512, "D": 512}
CASES = (
    {"B": 2, "T": 37, "D": 70},
    {"B": 1, "T": 64, "D": 256, "reverse": True},
    {"B": 3, "T": 5, "D": 101, "dtype": "float16"},
)


@task.define(leaf=True)
def slopes_tile(dA, dX, A, before, dY, handed, *, back: bool):
    """Some steps of some channels, to which later ones have `handed` their slopes."""
    factor, found = task.scan(
        follow, (A, A * dY), axis=0, reverse=back, exclusive=True, identity=(1, 0)
    )
    found[:, :] = factor * handed[None, :] + found + dY
    dX[:, :] = found
    dA[:, :] = found * before
    last = 0 if back else A.shape[0] - 1
    handed[:] = A[last] * found[last]


@task.define
def slopes_steps(dA, dX, A, before, dY, *, back: bool):
    """Some channels of a batch, tile by tile from the end where the recurrence ends."""
    tile = (task.tunable("block_T"), A.shape[1])
    parts = [task.partition(x, shape=tile) for x in (dA, dX, A, before, dY)]
    handed = task.zeros(A.shape[1:], task.compute_dtype(A.dtype), name="handed")
    last = parts[0].shape[0] - 1
    for t in task.sequential_range(parts[0].shape[0]):
        at = last - t if back else t
        task.launch(slopes_tile, *(p[at, 0] for p in parts), handed, back=back)


@task.define
def linear_recurrence_backward(
    dA: task.Tensor["B", "T", "D"],
    dX: task.Tensor["B", "T", "D"],
    A: task.Tensor["B", "T", "D"],
    Y: task.Tensor["B", "T", "D"],
    dY: task.Tensor["B", "T", "D"],
    *,
    reverse: bool = False,
):
    """Channels of each batch in blocks, each on its own."""
    # The step before each one, zeros before the first.
    around = ((0, 1) if reverse else (1, 0), (0, 0))
    before = task.window(Y, (2, 1), 1, around)[:, :, :, int(reverse), 0]
    tile = (1, A.shape[1], task.tunable("block_D"))
    parts = [task.partition(x, shape=tile) for x in (dA, dX, A, before, dY)]
    for b, d in task.parallel_range(A.shape[0], parts[0].shape[2]):
        task.launch(slopes_steps, *(p[b, 0, d][0] for p in parts), back=not reverse)
