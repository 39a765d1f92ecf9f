"""Two-dimensional convolution as an implicit matrix product.

Y[n, o, p, q] = sum over c, r, s of X[n, c, p*stride + r*dilation - padding, ...] *
F[o, c, r, s], out-of-range elements of X being zero. X [B, C, H, W], F [O, C/groups, R, S],
Y [B, O, P, Q] with P = (H + 2*padding - dilation*(R - 1) - 1) // stride + 1; with `groups`
each group of outputs sees its own channels. The windows of X are a view with merged axes,
[C*R*S, P*Q]; nothing is unfolded in memory by the logic. `conv2d_nhwc` has channels last.
Source: Chellapilla et al., 2006 (unfolding); torch.nn.functional.conv2d (definition).
"""

from septran import task
from septran.operators.gemm import gemm_core

EXAMPLE = {"B": 1, "C": 64, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3}
CASES = (
    {"B": 2, "C": 3, "H": 10, "W": 9, "O": 5, "R": 3, "S": 2},
    {"B": 1, "C": 16, "H": 14, "W": 14, "O": 32, "R": 3, "S": 3, "padding": 1},
    {"B": 1, "C": 4, "H": 13, "W": 11, "O": 6, "R": 3, "S": 3,
     "stride": 2, "padding": 2, "dilation": 2, "groups": 2},
)  # fmt: skip


@task.define
def conv2d(
    Y: task.Tensor[
        "B",
        "O",
        "(H + 2*padding - dilation*(R - 1) - 1) // stride + 1",
        "(W + 2*padding - dilation*(S - 1) - 1) // stride + 1",
    ],
    X: task.Tensor["B", "C", "H", "W"],
    F: task.Tensor["O", "C // groups", "R", "S"],
    *,
    stride: task.static = 1,
    padding: task.static = 0,
    dilation: task.static = 1,
    groups: task.static = 1,
):
    """Y = X convolved with F, channels first."""
    out, c, r, s = F.shape
    even = X.shape[1] % groups == 0 == out % groups
    task.require(even, f"{X.shape[1]} channels to {out} are not in {groups} equal groups")
    p, q = Y.shape[2:]
    each = out // groups
    weights = task.partition(F.reshape(out, c * r * s), shape=(each, c * r * s))
    for b, g in task.parallel_range(X.shape[0], groups):
        channels = task.partition(X[b], shape=(c, *X.shape[2:]))[g, 0, 0]
        windows = task.window(channels, (r, s), stride, padding, dilation)  # [C, P, Q, R, S]
        # In the order of the axes of F, which is then a matrix as it lies.
        columns = windows.transpose(0, 3, 4, 1, 2).reshape(c * r * s, p * q)
        result = task.partition(Y[b].reshape(out, p * q), shape=(each, p * q))[g, 0]
        task.launch(gemm_core, result, weights[g, 0], columns)


BACKWARD = "conv2d_backward"
"""The operator that computes the gradient (`septran.torch`)."""
