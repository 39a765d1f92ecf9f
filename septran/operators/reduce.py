"""Reduction along the last axis: Y[i] = f over j of X[i, j].

X [M, N], Y [M], any float dtype; sums in float32 (float64 for float64), rounded once;
`function` is ``sum``, ``mean``, ``max`` or ``min`` (NaN in a row gives NaN, as in torch) or
``sum_of_squares``. Source: the functions of the same names in torch.
"""

from septran import task

EXAMPLE = {"M": 512, "N": 4096}
CASES = (
    {"M": 70, "N": 150},
    {"M": 128, "N": 512, "function": "max"},
    {"M": 3, "N": 1001, "function": "mean", "dtype": "float16"},
)
FUNCTIONS = ("sum", "mean", "max", "min", "sum_of_squares")


@task.define(leaf=True)
def reduce_step(total, X, *, function: str):
    """Fold some columns into the result so far."""
    if function in ("max", "min"):
        join = {"max": task.maximum, "min": task.minimum}[function]
        fold = {"max": task.max, "min": task.min}[function]
        total[:] = join(total, fold(X, axis=1))
    else:
        total[:] = total + task.sum(X * X if function == "sum_of_squares" else X, axis=1)


@task.define(leaf=True)
def reduce_end(Y, total, *, divisor: task.static):
    """Round the result, after the division of a mean."""
    Y[:] = total / divisor if divisor != 1 else total


@task.define
def reduce_rows(Y, X, *, function: str):
    """Some rows: walk the columns."""
    # The neutral elements, so that the first columns need no case of their own.
    start = {"max": -task.inf, "min": task.inf}.get(function, 0)
    total = task.full(Y.shape, start, task.compute_dtype(X.dtype), name="total")
    Xp = task.partition(X, shape=(X.shape[0], task.tunable("block_N")))
    for j in task.sequential_range(Xp.shape[1]):
        task.launch(reduce_step, total, Xp[0, j], function=function)
    task.launch(reduce_end, Y, total, divisor=X.shape[1] if function == "mean" else 1)


@task.define
def reduce(Y: task.Tensor["M"], X: task.Tensor["M", "N"], *, function: str = "sum"):
    """One number a row, rows in blocks."""
    known = ", ".join(FUNCTIONS)
    task.require(function in FUNCTIONS, f"function is {function!r}, and none of {known}")
    rows = task.tunable("block_M")
    Yp = task.partition(Y, shape=(rows,))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(reduce_rows, Yp[i], Xp[i, 0], function=function)
