"""Histogram equalisation: Y[n] = how many pixels are at most as bright as X[n], of N.

X [N] of 0 to Bins - 1; levels [Bins] has the share of pixels at most as bright.
"""

from septran import task

EXAMPLE = {"N": 500, "Bins": 32}
CASES = ({"N": 150, "Bins": 10}, {"N": 70, "Bins": 70})


@task.define
def chunk(part, X, ones):
    task.fill(part, 0)
    for t in task.sequential_range(X.shape[0]):
        task.reduce_into(part[X[t]], ones)


@task.define(leaf=True)
def summed(levels, counts, N):
    levels[:] = task.cumsum(counts[:, 0].astype(task.float32), axis=0) / N.shape[0]


@task.define(leaf=True)
def looked_up(Y, levels):
    Y[:] = levels


@task.define
def equalise(Y: task.Out["N"], levels: task.Out["Bins"], X: task.In["N", task.int32]):
    counts = task.zeros((levels.shape[0], 1), task.int32, name="counts")
    ones = task.full((1,), 1, task.int32, name="ones")
    size = task.tunable("many", 64)
    Xp = task.partition(X, shape=(size,))
    parts = task.empty((Xp.shape[0], *counts.shape), task.int32, name="parts")
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(chunk, parts[i], Xp[i], ones)
        task.reduce_into(counts, parts[i])
    for _ in task.parallel_range(1):  # one block, for machines whose host does not compute
        task.launch(summed, levels, counts, X)
    Yp, found = (task.partition(t, shape=(size,)) for t in (Y, task.gather(levels, X)))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(looked_up, Yp[i], found[i])
