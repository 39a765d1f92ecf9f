"""A function of two tensors' elements: Y[i, j] = f(A[i, j], B[i, j]).

A, B and Y [M, N], any float dtype, computed in float32 (float64 for float64) and rounded
once; `function` is one of `FUNCTIONS`; ``silu_mul`` is silu(A) * B, the gate of Llama's
feed-forward layer. Source: the functions of the same names in torch; Shazeer, 2020, GLU
Variants Improve Transformer, arXiv 2002.05202 (the gate).
"""

from septran import task

EXAMPLE = {"M": 512, "N": 1024}
CASES = (
    {"M": 70, "N": 130},
    {"M": 128, "N": 256, "function": "add"},
    {"M": 3, "N": 1000, "function": "maximum", "dtype": "float16"},
)
FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": task.maximum,
    "minimum": task.minimum,
    "silu_mul": lambda a, b: task.silu(a) * b,
}


@task.define(leaf=True)
def elementwise_binary_tile(Y, A, B, *, function: str):
    """One tile."""
    Y[:, :] = FUNCTIONS[function](A, B)


@task.define
def elementwise_binary(
    Y: task.Tensor["M", "N"],
    A: task.Tensor["M", "N"],
    B: task.Tensor["M", "N"],
    *,
    function: str = "silu_mul",
):
    """Y = f(A, B) in tiles, each on its own."""
    tile = (task.tunable("block_height"), task.tunable("block_width"))
    Yp, Ap, Bp = (task.partition(x, shape=tile) for x in (Y, A, B))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(elementwise_binary_tile, Yp[i, j], Ap[i, j], Bp[i, j], function=function)
