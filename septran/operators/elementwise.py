"""A function of every element: Y[i, j] = f(X[i, j]).

X and Y [M, N], any float dtype, computed in float32 (float64 for float64) and rounded once;
`function` is one of `FUNCTIONS`. Reshape other ranks to two axes. Source: the functions of
the same names in torch.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 1024}
CASES = (
    {"M": 70, "N": 130},
    {"M": 128, "N": 256, "function": "exp"},
    {"M": 3, "N": 1000, "function": "tanh", "dtype": "float16"},
)
FUNCTIONS = {
    "abs": task.abs,
    "exp": task.exp,
    "gelu": task.gelu,
    "log": task.log,
    "neg": lambda x: -x,
    "relu": task.relu,
    "rsqrt": task.rsqrt,
    "sigmoid": task.sigmoid,
    "silu": task.silu,
    "sqrt": task.sqrt,
    "square": lambda x: x * x,
    "tanh": task.tanh,
}


@task.define(leaf=True)
def elementwise_tile(Y, X, *, function: str):
    """One tile."""
    Y[:, :] = FUNCTIONS[function](X)


@task.define
def elementwise(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, function: str = "silu"):
    """Y = f(X) in tiles, each on its own."""
    rows, columns = task.tunable("block_height"), task.tunable("block_width")
    Yp = task.partition(Y, shape=(rows, columns))
    Xp = task.partition(X, shape=(rows, columns))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(elementwise_tile, Yp[i, j], Xp[i, j], function=function)


BACKWARD = "elementwise_backward"
"""The operator that computes the gradient (`septran.torch`)."""
