"""One function of every element, by its name: what `benchmarks.cpu_rows` compares with torch's."""

from septran import task


@task.define(leaf=True)
def apply(Y, X, *, function: str):
    """Some rows."""
    Y[:, :] = X**1.25 if function == "power" else getattr(task, function)(X)


@task.define
def each(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], *, function: str):
    """Each element by itself, some rows at a time."""
    Yp, Xp = (task.partition(t, shape=(task.tunable("block_rows"), Y.shape[1])) for t in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(apply, Yp[i, 0], Xp[i, 0], function=function)
