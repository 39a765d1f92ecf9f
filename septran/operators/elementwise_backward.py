"""Gradient of elementwise: dX[i, j] = dY[i, j] * f'(X[i, j]).

dX, X and dY [M, N], any float dtype, computed in float32 (float64 for float64) and rounded once;
`function` is one of `DERIVATIVES`. relu has the slope 0 at 0, and abs, too, as in torch. Source:
the rules of differentiation; torch's tools/autograd/derivatives.yaml.
"""

import math

from septran import task

EXAMPLE = {"M": 512, "N": 1024}
CASES = (
    {"M": 70, "N": 130},
    {"M": 128, "N": 256, "function": "gelu"},
    {"M": 3, "N": 1000, "function": "tanh", "dtype": "float16"},
)


def _gelu(x):
    """Phi(x) + x * phi(x), by the normal distribution's function and density."""
    density = task.exp(-0.5 * x * x) * (1.0 / math.sqrt(2.0 * math.pi))
    return 0.5 * (1.0 + task.erf(x * math.sqrt(0.5))) + x * density


def _silu(x):
    s = task.sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


DERIVATIVES = {
    "abs": lambda x: task.where(task.equal(x, 0.0), 0.0, task.where(x > 0.0, 1.0, -1.0)),
    "exp": task.exp,
    "gelu": _gelu,
    "log": lambda x: 1.0 / x,
    "neg": lambda x: -1.0,
    "relu": lambda x: task.where(x <= 0.0, 0.0, 1.0),
    "rsqrt": lambda x: -0.5 * task.rsqrt(x) / x,
    "sigmoid": lambda x: task.sigmoid(x) * (1.0 - task.sigmoid(x)),
    "silu": _silu,
    "sqrt": lambda x: 0.5 * task.rsqrt(x),
    "square": lambda x: 2.0 * x,
    "tanh": lambda x: 1.0 - task.tanh(x) * task.tanh(x),
}


@task.define(leaf=True)
def elementwise_backward_tile(dX, X, dY, *, function: str):
    """One tile."""
    dX[:, :] = dY * DERIVATIVES[function](X)


@task.define
def elementwise_backward(
    dX: task.Tensor["M", "N"],
    X: task.Tensor["M", "N"],
    dY: task.Tensor["M", "N"],
    *,
    function: str = "silu",
):
    """Compute dX = dY * f'(X) in tiles, each on its own."""
    tile = (task.tunable("block_height"), task.tunable("block_width"))
    dXp, Xp, dYp = (task.partition(T, shape=tile) for T in (dX, X, dY))
    for i, j in task.parallel_range(dXp.shape):
        task.launch(elementwise_backward_tile, dXp[i, j], Xp[i, j], dYp[i, j], function=function)
