"""A user's logic file, for tests of what reads one: twice each element."""

from __future__ import annotations

LOGIC = """
from septran import task

@task.define(leaf=True)
def twice_tile(Y, X):
    Y[:, :] = X + X

@task.define
def twice(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    rows = task.tunable("block_M")
    Yp = task.partition(Y, shape=(rows, Y.shape[1]))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(twice_tile, Yp[i, 0], Xp[i, 0])
"""


def with_example(rows: int, columns: int) -> str:
    """The logic with sizes of its own and a summary."""
    example = f'EXAMPLE = {{"M": {rows}, "N": {columns}}}'
    return f'"""Twice each element."""{LOGIC}\n{example}\n'
