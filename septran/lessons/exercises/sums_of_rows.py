"""Two iterations of a parallel loop add to one element: make the logic's order explicit."""

from __future__ import annotations

import numpy as np

from septran import task
from septran.lessons.goals import agrees, right
from septran.lessons.lesson import Lesson


@task.define(leaf=True)
def add_tile(S, X):
    """Add the sums of a tile's rows."""
    S[:] = S + task.sum(X, axis=1)


@task.define
def row_sums(S: task.Tensor["M"], X: task.Tensor["M", "N"]):
    """The sum of each row; wrong, as tiles of one row may be added at one time."""
    rows, columns = task.tunable("block_M"), task.tunable("block_N")
    Sp = task.partition(S, shape=(rows,))
    Xp = task.partition(X, shape=(rows, columns))
    for i, j in task.parallel_range(Xp.shape):
        task.launch(add_tile, Sp[i], Xp[i, j])


@task.define
def sums_of_some(S, X):
    """The sums of some rows: tile after tile."""
    Xp = task.partition(X, shape=(X.shape[0], task.tunable("block_N")))
    task.fill(S, 0)
    for j in task.sequential_range(Xp.shape[1]):
        task.launch(add_tile, S, Xp[0, j])


@task.define
def solved(S: task.Tensor["M"], X: task.Tensor["M", "N"]):
    """The sum of each row."""
    rows = task.tunable("block_M")
    Sp = task.partition(S, shape=(rows,))
    Xp = task.partition(X, shape=(rows, X.shape[1]))
    for i in task.parallel_range(Sp.shape[0]):
        task.launch(sums_of_some, Sp[i], Xp[i, 0])


LESSON = Lesson(
    title="Sum the rows",
    story="A sum of each row in tiles: rows in blocks, columns in blocks. As it stands, two "
    "iterations of a parallel loop add to the same element. Say what may run at one time, and "
    "what comes after what; a sum starts at zero.",
    logic=row_sums,
    mapping="machine: dsa-sim\nextends: dsa-sim.mapping.yaml\n",
    mends="logic",
    goals=(
        agrees(
            "the sums are NumPy's",
            lambda x: x.sum(axis=1),
            lambda: (np.random.default_rng(0).standard_normal((100, 70)),),
            hint="parallel over blocks of rows, sequential over blocks of columns",
        ),
        right(),
    ),
    solution=solved,
    shapes={"M": 100, "N": 70},
)
