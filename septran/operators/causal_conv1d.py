"""Depthwise causal convolution: Y[b, c, n] = act(bias[c] + sum over r of F[c, r] X[b, c, n-R+1+r]).

X and Y [B, C, N], F [C, R], bias [C], any float dtype; what lies before the first element is zero,
`act` is ``silu`` or ``none``. Sums in float32 (float64 for float64), rounded once, after the
activation. Source: Gu and Dao, Mamba, 2023, arXiv 2312.00752 (its short convolution).
"""

from septran import task

EXAMPLE = {"B": 2, "C": 128, "N": 1024, "R": 4}
CASES = (
    {"B": 2, "C": 21, "N": 75, "R": 4},
    {"B": 1, "C": 64, "N": 256, "R": 4, "act": "none"},
    {"B": 1, "C": 5, "N": 300, "R": 3, "dtype": "float16"},
)
ACTIVATIONS = {"none": lambda x: x, "silu": task.silu}


@task.define(leaf=True)
def conv1d_tile(Y, X, F, bias, *, act: str):
    """Some places of some channels."""
    Y[:, :] = ACTIVATIONS[act](task.sum(X * F[:, None, :], axis=2) + bias[:, None])


@task.define
def causal_conv1d(
    Y: task.Tensor["B", "C", "N"],
    X: task.Tensor["B", "C", "N"],
    F: task.Tensor["C", "R"],
    bias: task.Tensor["C"],
    *,
    act: str = "silu",
):
    """Each sequence and block of channels and places on its own."""
    task.require(act in ACTIVATIONS, f"act is {act!r}, and none of {', '.join(ACTIVATIONS)}")
    taps = F.shape[1]
    height, width = task.tunable("block_height"), task.tunable("block_width")
    # Zeros before the first element alone: no output sees what comes after its place.
    windows = task.window(X, (taps,), padding=((max(0, taps - 1), 0),))
    Yp = task.partition(Y, shape=(1, height, width))
    Xp = task.partition(windows, shape=(1, height, width, taps))
    Fp, Bp = task.partition(F, shape=(height, taps)), task.partition(bias, shape=(height,))
    for b, i, j in task.parallel_range(Yp.shape):
        task.launch(conv1d_tile, Yp[b, i, j][0], Xp[b, i, j, 0][0], Fp[i, 0], Bp[i], act=act)
