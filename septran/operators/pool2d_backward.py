"""Gradient of pool2d: dX from X and dY.

``max``: each window's slope goes to its greatest element, the first one of equals in order of rows,
the last NaN if there is one. ``mean``: to all its places, divided by their number. An element has
the sum over the windows that hold it, in float32 (float64 for float64), rounded once. Rows that are
`stride` apart lie at the same rows of their windows, one window a step, so that they have sums over
windows of dY, and likewise columns; nothing is scattered. Shapes and flags as in `pool2d`.
Source: torch.nn.functional.max_pool2d, avg_pool2d (definition).
"""

import itertools

from septran import task
from septran.operators.conv2d_backward import StridedPlaces
from septran.operators.pool2d import require_known

EXAMPLE = {"B": 1, "C": 64, "H": 56, "W": 56}
CASES = (
    {"B": 2, "C": 3, "H": 11, "W": 13, "size": 2},
    {"B": 1, "C": 16, "H": 28, "W": 28, "padding": 1, "function": "mean"},
    {"B": 1, "C": 5, "H": 15, "W": 9, "stride": 1, "padding": 1, "dtype": "float16"},
)


def _places(X, width):
    """The place of each element in its channel, counted row by row."""
    rows, columns = task.index(X, 0) * width, task.index(X, 1)
    return rows.astype("int32")[:, None] + columns.astype("int32")[None, :]


@task.define(leaf=True)
def nothing_chosen(chosen, best):
    """Before the first tap."""
    chosen[:, :] = -1
    best[:, :] = -task.inf


@task.define(leaf=True)
def choose_tap(chosen, best, X, *, width: task.static):
    """Take one tap of some windows where it is greater than those before it, or NaN."""
    there = task.inside(X)
    better = there & ((best < X) | (X != X) | (chosen < 0))
    chosen[:, :] = task.where(better, _places(X, width), chosen)
    best[:, :] = task.maximum(best, task.where(there, X, -task.inf))


@task.define
def choose_and_forget(chosen, X, *, width: task.static):
    """Some windows of one channel, whose greatest elements nobody asks for."""
    best = task.empty(chosen.shape, X.dtype, name="best")
    task.launch(choose_block, chosen, best, X, width=width)


@task.define
def choose_block(chosen, best, X, *, width: task.static):
    """Some windows of one channel: walk their taps row by row."""
    task.launch(nothing_chosen, chosen, best)
    for r, s in task.sequential_range(X.shape[2:]):
        task.launch(choose_tap, chosen, best, X[:, :, r, s], width=width)


@task.define
def choose_channel(chosen, X, *, width: task.static):
    """Blocks of windows of one channel, each on its own."""
    Cp, Xp = _blocks(chosen, X)
    for i, j in task.parallel_range(Cp.shape):
        task.launch(choose_and_forget, Cp[i, j], Xp[i, j, 0, 0], width=width)


@task.define(leaf=True)
def add_slopes(total, X, chosen, dY, *, width: task.static):
    """Add the slopes of those windows that took the places of X, whose values do not matter."""
    total[:, :] += task.where(task.equal(chosen, _places(X, width)), dY, 0.0)


@task.define
def chosen_slopes(dX, X, chosen, dY, *, width: task.static):
    """Some places of one channel: walk the windows that hold them."""
    total = task.zeros(dX.shape, task.accumulator_dtype(dX.dtype), name="total")
    for i, j in task.sequential_range(dY.shape[2:]):
        task.launch(add_slopes, total, X, chosen[:, :, i, j], dY[:, :, i, j], width=width)
    task.copy(dX, total)


@task.define(leaf=True)
def shared_slopes(dX, dY, *, size: task.static):
    """Some places of one channel: their shares of the slopes of all windows."""
    dX[:, :] = task.sum(dY, axis=(2, 3)) / (size * size)


@task.define
def places_by_choice(dX, X, chosen, dY, *, width: task.static):
    """Blocks of places of one channel, each on its own."""
    Gp, Xp, Cp, Dp = _blocks(dX, X, chosen, dY)
    for i, j in task.parallel_range(Gp.shape):
        parts = Gp[i, j], Xp[i, j], Cp[i, j, 0, 0], Dp[i, j, 0, 0]
        task.launch(chosen_slopes, *parts, width=width)


@task.define
def places_by_shares(dX, dY, *, size: task.static):
    """Blocks of places of one channel, each on its own."""
    Xp, Dp = _blocks(dX, dY)
    for i, j in task.parallel_range(Xp.shape[:2]):
        task.launch(shared_slopes, Xp[i, j], Dp[i, j, 0, 0], size=size)


def _blocks(*tensors):
    """Blocks along the first two axes."""
    tile = (task.tunable("block_height"), task.tunable("block_width"))
    return [task.partition(x, shape=(*tile, *x.shape[2:])) for x in tensors]


@task.define
def pool2d_backward(
    dX: task.Tensor["B", "C", "H", "W"],
    X: task.Tensor["B", "C", "H", "W"],
    dY: task.Tensor[
        "B", "C", "(H + 2*padding - size) // stride + 1", "(W + 2*padding - size) // stride + 1"
    ],
    *,
    function: str = "max",
    size: task.static = 3,
    stride: task.static = 2,
    padding: task.static = 0,
):
    """What each window took, then the places of dX that are `stride` apart together."""
    require_known(function)
    chosen = None
    if function == "max":
        chosen = task.empty(dY.shape, task.int32, name="chosen")
        windows = task.window(X, (size, size), stride, padding)
        for b, c in task.parallel_range(*X.shape[:2]):
            task.launch(choose_channel, chosen[b, c], windows[b, c], width=X.shape[3])
    spread_slopes(dX, X, dY, chosen, size, stride, padding)


def spread_slopes(dX, X, dY, chosen, size, stride, padding):
    """Give the slopes of windows to their elements: to those that are chosen, or to all."""
    along = [
        [StridedPlaces.of(n, extent, results, size, stride, padding, 1)
         for n in range(min(stride, extent))]
        for extent, results in zip(X.shape[2:], dY.shape[2:], strict=True)
    ]  # fmt: skip
    for (y, rows), (x, columns) in itertools.product(*map(enumerate, along)):
        for b, c in task.parallel_range(*X.shape[:2]):
            part, own = (_every(stride, t[b, c, y:, x:]) for t in (dX, X))
            if not rows.taps * columns.taps:  # between windows
                task.fill(part, 0)
                continue
            slopes = _windows(dY[b, c], rows, columns)
            if chosen is None:
                task.launch(places_by_shares, part, slopes, size=size)
            else:
                taken = _windows(chosen[b, c], rows, columns)
                task.launch(places_by_choice, part, own, taken, slopes, width=X.shape[3])


def _every(stride, x):
    """The places of one channel that are so far apart, from the first on."""
    return task.window(x, (1, 1), stride)[:, :, 0, 0]


def _windows(x, rows, columns):
    """The windows of one channel's results that hold the places, [U, V, taps, taps]."""
    taken = task.window(
        x, (rows.window, columns.window), 1, (rows.padding, columns.padding)
    )[: rows.places, : columns.places, rows.start :, columns.start :]  # fmt: skip
    return taken[:, :, : rows.taps, : columns.taps]
