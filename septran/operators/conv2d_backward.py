"""Gradient of conv2d: dX and dF from X, F and dY.

dF[o, c, r, s] = sum over b, p, q of dY[b, o, p, q] * X[b, c, p*stride + r*dilation - padding, ...],
a matrix product with the windows of X, summed over images in their order. dX[b, c, h, w] = sum over
o, r, s of F[o, c, r, s] * dY[b, o, p, q] where p*stride + r*dilation - padding = h: rows h that are
`stride` apart have the same r, one a step, so that they are a convolution of dY with stride 1, and
likewise columns. Shapes and flags as in `conv2d`; sums in float32 for 16-bit floats (float64 for
float64), rounded once. Source: Dumoulin and Visin, A guide to convolution arithmetic for deep
learning, 2016, arXiv 1603.07285, chapter 4.
"""

import math
from dataclasses import dataclass

from septran import task
from septran.operators.gemm import accumulator, gemm_tile

EXAMPLE = {"B": 1, "C": 64, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3}
CASES = (
    {"B": 2, "C": 3, "H": 10, "W": 9, "O": 5, "R": 3, "S": 2},
    {"B": 1, "C": 16, "H": 14, "W": 14, "O": 32, "R": 3, "S": 3, "padding": 1},
    {"B": 1, "C": 4, "H": 13, "W": 11, "O": 6, "R": 3, "S": 3,
     "stride": 2, "padding": 2, "dilation": 2, "groups": 2},
)  # fmt: skip


@dataclass(frozen=True)
class StridedPlaces:
    """One axis of the places first, first + stride, ... of dX, as windows of dY reach them."""

    places: int
    """How many there are."""
    taps: int
    """How many elements of the filter reach them; each is in steps of `tap` from the last one."""
    last: int
    tap: int
    window: int
    """The extent of dY's windows, which begin at `start` and have a tap each `step`."""
    start: int
    step: int
    padding: tuple[int, int]
    """The zeros before and behind dY."""

    @staticmethod
    def of(
        first: int, extent: int, results: int, size: int, stride: int, padding: int, dilation: int
    ) -> "StridedPlaces":
        """The geometry, from that of the convolution along this axis."""
        places = -(-(extent - first) // stride)
        reach = [r for r in range(size) if (first + padding - r * dilation) % stride == 0]
        common = math.gcd(stride, dilation)
        step, tap = dilation // common, stride // common
        if not reach:
            return StridedPlaces(places, 0, 0, tap, 1, 0, step, (0, max(0, places - results)))
        # Place u gets from dY's element u + low + step * t by the tap t, counted from the last.
        low = (first + padding - reach[-1] * dilation) // stride
        start, before = max(low, 0), max(-low, 0)
        window = start + step * (len(reach) - 1) + 1
        behind = max(0, places + window - 1 - results - before)
        return StridedPlaces(
            places, len(reach), reach[-1], tap, window, start, step, (before, behind)
        )


@task.define
def input_block(dX, F, D, *, rows: task.static, columns: task.static):
    """One block of places of some channels: walk the taps, then the outputs."""
    acc = accumulator(dX)
    task.fill(acc, 0)
    step = task.tunable("block_K")
    for i, j in task.sequential_range(rows.taps, columns.taps):
        weights = F[:, :, rows.last - rows.tap * i, columns.last - columns.tap * j].T
        taps = D[:, :, rows.start + rows.step * i, columns.start + columns.step * j]
        Wp = task.partition(weights, shape=(weights.shape[0], step))
        Tp = task.partition(taps, shape=(step, taps.shape[1]))
        for k in task.sequential_range(Wp.shape[1]):
            task.launch(gemm_tile, acc, Wp[0, k], Tp[k, 0])
    if acc is not dX:
        task.copy(dX, acc)


@task.define
def input_places(dX, F, D, *, rows: task.static, columns: task.static):
    """Blocks of channels and places, each on its own."""
    m, n = task.tunable("block_M"), task.tunable("block_N")
    Xp, Fp = (
        task.partition(dX, shape=(m, n)),
        task.partition(F, shape=(F.shape[0], m, *F.shape[2:])),
    )
    Dp = task.partition(D, shape=(D.shape[0], n, *D.shape[2:]))
    for i, j in task.parallel_range(Xp.shape):
        task.launch(
            input_block, Xp[i, j], Fp[0, i, 0, 0], Dp[0, j, 0, 0], rows=rows, columns=columns
        )


@task.define
def filter_block(dF, dY, X):
    """One block of the filter: walk the images, then the places."""
    acc = accumulator(dF)
    task.fill(acc, 0)
    step = task.tunable("block_K")
    for b in task.sequential_range(dY.shape[0]):
        Yp = task.partition(dY[b], shape=(dY.shape[1], step))
        Xp = task.partition(X[b].T, shape=(step, X.shape[1]))
        for k in task.sequential_range(Yp.shape[1]):
            task.launch(gemm_tile, acc, Yp[0, k], Xp[k, 0])
    if acc is not dF:
        task.copy(dF, acc)


@task.define
def filter_core(dF, dY, X):
    """Blocks of the filter as a matrix, each on its own."""
    m, n = task.tunable("block_M"), task.tunable("block_N")
    Fp = task.partition(dF, shape=(m, n))
    Yp = task.partition(dY, shape=(dY.shape[0], m, dY.shape[2]))
    Xp = task.partition(X, shape=(X.shape[0], n, X.shape[2]))
    for i, j in task.parallel_range(Fp.shape):
        task.launch(filter_block, Fp[i, j], Yp[0, i, 0], Xp[0, j, 0])


@task.define
def conv2d_backward(
    dX: task.Tensor["B", "C", "H", "W"],
    dF: task.Tensor["O", "C // groups", "R", "S"],
    X: task.Tensor["B", "C", "H", "W"],
    F: task.Tensor["O", "C // groups", "R", "S"],
    dY: task.Tensor[
        "B",
        "O",
        "(H + 2*padding - dilation*(R - 1) - 1) // stride + 1",
        "(W + 2*padding - dilation*(S - 1) - 1) // stride + 1",
    ],
    *,
    stride: task.static = 1,
    padding: task.static = 0,
    dilation: task.static = 1,
    groups: task.static = 1,
):
    """Group by group: the places of dX that are `stride` apart together, then the filter."""
    (out, c, r, s), (p, q) = F.shape, dY.shape[2:]
    even = X.shape[1] % groups == 0 == out % groups
    task.require(even, f"{X.shape[1]} channels to {out} are not in {groups} equal groups")
    each, (h, w) = out // groups, X.shape[2:]
    filters = task.partition(F, shape=(each, c, r, s))
    for y in range(min(stride, h)):
        for x in range(min(stride, w)):
            rows = StridedPlaces.of(y, h, p, r, stride, padding, dilation)
            columns = StridedPlaces.of(x, w, q, s, stride, padding, dilation)
            for b, g in task.parallel_range(X.shape[0], groups):
                slopes = task.partition(dY[b], shape=(each, p, q))[g, 0, 0]
                part = task.partition(dX[b], shape=(c, h, w))[g, 0, 0][:, y:, x:]
                part = task.window(part, (1, 1), stride)[:, : rows.places, : columns.places, 0, 0]
                taken = task.window(
                    slopes, (rows.window, columns.window), 1, (rows.padding, columns.padding)
                )[:, : rows.places, : columns.places]
                task.launch(
                    input_places,
                    part.reshape(c, rows.places * columns.places),
                    filters[g, 0, 0, 0],
                    taken.reshape(each, rows.places * columns.places, *taken.shape[3:]),
                    rows=rows, columns=columns,
                )  # fmt: skip
    for g in task.parallel_range(groups):
        channels = task.partition(X, shape=(X.shape[0], c, h, w))[0, g, 0, 0]
        windows = task.window(channels, (r, s), stride, padding, dilation)  # [B, C, P, Q, R, S]
        seen = windows.transpose(0, 1, 4, 5, 2, 3).reshape(X.shape[0], c * r * s, p * q)
        slopes = dY.reshape(X.shape[0], out, p * q)
        slopes = task.partition(slopes, shape=(X.shape[0], each, p * q))[0, g, 0]
        result = task.partition(dF.reshape(out, c * r * s), shape=(each, c * r * s))[g, 0]
        task.launch(filter_core, result, slopes, seen)
