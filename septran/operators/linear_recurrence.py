"""Linear recurrence, each channel by itself: Y[b, t, d] = A[b, t, d] * Y[b, t - 1, d] + X[b, t, d].

A, X and Y [B, T, D] (batches, steps, channels), any float dtype, from Y[b, -1, d] = 0; computed in
float32 (float64 for float64), rounded once. With `reverse` from the last step on. It is what a
gated linear unit (RG-LRU) and a diagonal state space model (S4, Mamba) have between their gates.
Steps come in tiles; within one, two steps (a, x) and (c, z) are the step (a * c, c * x + z), which
is associative. Source: Blelloch, Prefix Sums and Their Applications, 1990, section 1.4; De et al.,
Griffin, arXiv 2402.19427.
"""

from septran import task

EXAMPLE = {"B": 2, "T": 512, "D": 512}
CASES = (
    {"B": 2, "T": 37, "D": 70},
    {"B": 1, "T": 64, "D": 256, "reverse": True},
    {"B": 3, "T": 5, "D": 101, "dtype": "float16"},
)


def follow(earlier, later):
    """Return the step that two steps are, one after the other."""
    (a, x), (c, z) = earlier, later
    return a * c, c * x + z


@task.define(leaf=True)
def recurrence_tile(Y, A, X, state, *, reverse: bool):
    """Some steps of some channels, after those that left `state`."""
    factor, found = task.scan(follow, (A, X), axis=0, reverse=reverse)
    found[:, :] = factor * state[None, :] + found
    Y[:, :] = found
    # Not the last of Y, which is rounded.
    state[:] = found[0 if reverse else X.shape[0] - 1]


@task.define
def recurrence_steps(Y, A, X, *, reverse: bool):
    """Some channels of a batch, tile by tile from the end where the recurrence begins."""
    tile = (task.tunable("block_T"), X.shape[1])
    Yp, Ap, Xp = (task.partition(x, shape=tile) for x in (Y, A, X))
    state = task.zeros(X.shape[1:], task.compute_dtype(X.dtype), name="state")
    last = Xp.shape[0] - 1
    for t in task.sequential_range(Xp.shape[0]):
        at = last - t if reverse else t
        task.launch(recurrence_tile, Yp[at, 0], Ap[at, 0], Xp[at, 0], state, reverse=reverse)


@task.define
def linear_recurrence(
    Y: task.Tensor["B", "T", "D"],
    A: task.Tensor["B", "T", "D"],
    X: task.Tensor["B", "T", "D"],
    *,
    reverse: bool = False,
):
    """Channels of each batch in blocks, each on its own."""
    tile = (1, X.shape[1], task.tunable("block_D"))
    Yp, Ap, Xp = (task.partition(x, shape=tile) for x in (Y, A, X))
    for b, d in task.parallel_range(X.shape[0], Xp.shape[2]):
        tensors = (p[b, 0, d][0] for p in (Yp, Ap, Xp))
        task.launch(recurrence_steps, *tensors, reverse=reverse)


BACKWARD = "linear_recurrence_backward"
"""The operator that computes the gradient (`septran.torch`)."""
