"""Two-dimensional convolution, channels last, as an implicit matrix product.

As `conv2d` without groups, with X [B, H, W, C], F [R, S, C, O] and Y [B, P, Q, O]: windows
[P*Q, R*S*C] times weights [R*S*C, O]. Source: Chellapilla et al., 2006 (unfolding);
torch.nn.functional.conv2d in the channels_last memory format.
"""

from septran import task
from septran.operators.gemm import gemm_core

EXAMPLE = {"B": 1, "H": 28, "W": 28, "C": 64, "R": 3, "S": 3, "O": 64}
CASES = (
    {"B": 2, "H": 10, "W": 9, "C": 3, "R": 3, "S": 2, "O": 5},
    {"B": 1, "H": 14, "W": 14, "C": 16, "R": 3, "S": 3, "O": 32, "padding": 1},
    {"B": 1, "H": 13, "W": 11, "C": 4, "R": 3, "S": 3, "O": 6,
     "stride": 2, "padding": 2, "dilation": 2},
)  # fmt: skip


@task.define
def conv2d_nhwc(
    Y: task.Tensor[
        "B",
        "(H + 2*padding - dilation*(R - 1) - 1) // stride + 1",
        "(W + 2*padding - dilation*(S - 1) - 1) // stride + 1",
        "O",
    ],
    X: task.Tensor["B", "H", "W", "C"],
    F: task.Tensor["R", "S", "C", "O"],
    *,
    stride: task.static = 1,
    padding: task.static = 0,
    dilation: task.static = 1,
):
    """Y = X convolved with F, channels last."""
    r, s, c, out = F.shape
    p, q = Y.shape[1:3]
    weights = F.reshape(r * s * c, out)
    for b in task.parallel_range(X.shape[0]):
        planes = X[b].transpose(2, 0, 1)
        windows = task.window(planes, (r, s), stride, padding, dilation)  # [C, P, Q, R, S]
        # In the order of the axes of F; channels, which are contiguous in X, go innermost.
        rows = windows.transpose(1, 2, 3, 4, 0).reshape(p * q, r * s * c)
        task.launch(gemm_core, Y[b].reshape(p * q, out), rows, weights)
