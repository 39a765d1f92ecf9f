"""Logic that is one function of the language each, on tensors of every element type."""

from __future__ import annotations

from septran import task

UNARY = {
    "neg": lambda x: -x,
    "abs": task.abs,
    "exp": task.exp,
    "exp2": task.exp2,
    "log": task.log,
    "log2": task.log2,
    "sqrt": task.sqrt,
    "rsqrt": task.rsqrt,
    "sin": task.sin,
    "cos": task.cos,
    "tanh": task.tanh,
    "erf": task.erf,
    "sigmoid": task.sigmoid,
    "relu": task.relu,
    "gelu": task.gelu,
    "silu": task.silu,
    "floor": task.floor,
    "ceil": task.ceil,
    "round": task.round,
    "invert": lambda x: ~x,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "isnan": lambda x: x != x,
    "isinf": lambda x: task.equal(task.abs(x), task.inf),
    "logical_not": lambda x: task.equal(x, 0),
}
BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "power": lambda a, b: a**b,
    "maximum": task.maximum,
    "minimum": task.minimum,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << b,
    "right_shift": lambda a, b: a >> b,
    "swish_gate": lambda a, b: task.silu(a) * b,
}
REDUCTIONS = {
    "sum": task.sum,
    "max": task.max,
    "min": task.min,
    "mean": lambda x, axis: task.sum(x, axis=axis) / x.shape[axis],
    "sum_of_squares": lambda x, axis: task.sum(x * x, axis=axis),
    "sum_of_sizes": lambda x, axis: task.sum(task.abs(x), axis=axis),
}


@task.define(leaf=True)
def unary_tile(Y, X, *, function: str):
    Y[:] = UNARY[function](X)


@task.define
def unary(Y: task.Tensor["N"], X: task.Tensor["N"], *, function: str):
    for i in task.parallel_range(tiles(X).shape[0]):
        task.launch(unary_tile, tiles(Y)[i], tiles(X)[i], function=function)


@task.define(leaf=True)
def binary_tile(Y, A, B, *, function: str):
    Y[:] = BINARY[function](A, B)


@task.define
def binary(Y: task.Tensor["N"], A: task.Tensor["N"], B: task.Tensor["N"], *, function: str):
    for i in task.parallel_range(tiles(A).shape[0]):
        task.launch(binary_tile, tiles(Y)[i], tiles(A)[i], tiles(B)[i], function=function)


@task.define(leaf=True)
def where_tile(Y, C, A, B):
    Y[:] = task.where(C != 0, A, B)


@task.define
def where(Y: task.Tensor["N"], C: task.Tensor["N"], A: task.Tensor["N"], B: task.Tensor["N"]):
    for i in task.parallel_range(tiles(A).shape[0]):
        task.launch(where_tile, tiles(Y)[i], tiles(C)[i], tiles(A)[i], tiles(B)[i])


@task.define(leaf=True)
def clamp_tile(Y, X, low, high):
    Y[:] = task.minimum(task.maximum(X, low), high)


@task.define
def clamp(Y: task.Tensor["N"], X: task.Tensor["N"], low: task.Tensor["N"], high: task.Tensor["N"]):
    for i in task.parallel_range(tiles(X).shape[0]):
        task.launch(clamp_tile, tiles(Y)[i], tiles(X)[i], tiles(low)[i], tiles(high)[i])


@task.define(leaf=True)
def convert_tile(Y, X, *, dtype: str):
    Y[:] = X.astype(getattr(task, dtype)) if dtype != "bool" else X != 0


@task.define
def convert(Y: task.Tensor["N"], X: task.Tensor["N"], *, dtype: str):
    for i in task.parallel_range(tiles(X).shape[0]):
        task.launch(convert_tile, tiles(Y)[i], tiles(X)[i], dtype=dtype)


@task.define(leaf=True)
def reduction_tile(Y, X, *, function: str):
    Y[:] = REDUCTIONS[function](X, axis=1)


@task.define
def reduction(Y: task.Tensor["M"], X: task.Tensor["M", "N"], *, function: str):
    rows = task.tunable("block_rows", 16)
    Yp = task.partition(Y, shape=(rows,))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(reduction_tile, Yp[i], Xp[i, 0], function=function)


def tiles(x):
    """Its tiles, the last one ragged."""
    return task.partition(x, shape=(task.tunable("block_width", 64),))
