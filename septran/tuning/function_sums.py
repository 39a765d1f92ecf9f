"""Logic whose times show what functions of an element cost: a sum of several, or of none.

Both do the same to memory. The functions of a sum do not wait for one another, as neighbouring
elements of a kernel do not.
"""

from __future__ import annotations

from septran import task

SCALES = (0.25, 0.5, 0.75, 1.0)
"""What each element is multiplied by before a function is applied, in one place of the sum each."""
SHIFT = 1.0
"""What is added, so that values are where every function is defined."""
FUNCTIONS = {
    "cos": task.cos,
    "divide": lambda x: 1.5 / x,
    "erf": task.erf,
    "exp": task.exp,
    "exp2": task.exp2,
    "log": task.log,
    "log2": task.log2,
    "power": lambda x: task.power(x, 1.25),
    "rsqrt": task.rsqrt,
    "sigmoid": task.sigmoid,
    "sin": task.sin,
    "sqrt": task.sqrt,
    "tanh": task.tanh,
}
"""Those that cost more than a sum, by what expressions call them."""


@task.define(leaf=True)
def sums_tile(Y, X, *, function: str):
    """One tile."""
    value = X
    for scale in SCALES:
        place = X * scale + SHIFT
        value = value + (FUNCTIONS[function](place) if function else place)
    Y[:, :] = value


@task.define
def sums(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, function: str):
    """Y = X + f(X / 4 + 1) + ... + f(X + 1); `function` '' is none."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Xp = task.partition(Y, shape=tile), task.partition(X, shape=tile)
    for i, j in task.parallel_range(Yp.shape):
        task.launch(sums_tile, Yp[i, j], Xp[i, j], function=function)
