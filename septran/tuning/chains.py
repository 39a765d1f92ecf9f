"""Logic whose times tell what functions of an element cost: each applied several times in turn.

Both tasks do the same to memory, and the second has a function more at each of `LINKS` places.
"""

from __future__ import annotations

from septran import task

LINKS = 4
"""Times that a function is applied to each element."""
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
SCALE, SHIFT = 0.25, 1.0
"""Between two of them, so that values stay where every function is defined."""


@task.define(leaf=True)
def chain_tile(Y, X, *, function: str):
    """One tile."""
    value = X
    for _ in range(LINKS):
        value = (FUNCTIONS[function](value) if function else value) * SCALE + SHIFT
    Y[:, :] = value


@task.define
def chain(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, function: str):
    """Y = f(... f(X)); `function` '' is none."""
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Xp = task.partition(Y, shape=tile), task.partition(X, shape=tile)
    for i, j in task.parallel_range(Yp.shape):
        task.launch(chain_tile, Yp[i, j], Xp[i, j], function=function)
