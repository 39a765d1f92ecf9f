"""Gradient of max_pool2d_indices: dX from I and dY, at the places that I says.

An element has the sum of the slopes of the windows that took it, in float32 (float64 for float64),
rounded once; of X the shape alone matters. As in `pool2d_backward`, each element looks at the
windows that hold it, so that nothing is scattered and sums have one order. Shapes and flags as in
`max_pool2d_indices`; each index is of a place in its own window, as that gives them. Source:
torch.nn.functional.max_pool2d(.., return_indices=True) (definition).
"""

from septran import task
from septran.operators.pool2d_backward import spread_slopes

EXAMPLE = {"B": 1, "C": 64, "H": 56, "W": 56}
CASES = (
    {"B": 2, "C": 3, "H": 11, "W": 13, "size": 2},
    {"B": 1, "C": 16, "H": 28, "W": 28, "padding": 1},
    {"B": 1, "C": 5, "H": 15, "W": 9, "stride": 1, "padding": 1, "dtype": "float16"},
)


@task.define
def max_pool2d_indices_backward(
    dX: task.Tensor["B", "C", "H", "W"],
    X: task.Tensor["B", "C", "H", "W"],
    I: task.Tensor[
        "B", "C", "(H + 2*padding - size) // stride + 1", "(W + 2*padding - size) // stride + 1",
        task.int64,
    ],
    dY: task.Tensor[
        "B", "C", "(H + 2*padding - size) // stride + 1", "(W + 2*padding - size) // stride + 1"
    ],
    *,
    size: task.static = 3,
    stride: task.static = 2,
    padding: task.static = 0,
):  # fmt: skip
    """The places of dX that are `stride` apart together."""
    spread_slopes(dX, X, dY, I, size, stride, padding)
