"""The mean of the rows of each bag, 0 of a bag of none.

X [Rows, Wide]; the rows of bag b are those from bounds[b] to bounds[b + 1]; Y [Bags, Wide].
"""

from septran import task

EXAMPLE = {"Rows": 500, "Bags": 20, "Wide": 128}
CASES = ({"Rows": 70, "Bags": 6, "Wide": 40}, {"Rows": 33, "Bags": 4, "Wide": 130})


@task.define(leaf=True)
def add(acc, x):
    acc[:] = acc + task.sum(x, axis=0)


@task.define(leaf=True)
def divide(y, acc, ends, begins):
    n = (ends - begins).astype(task.float32)
    y[:] = acc / task.maximum(n, 1.0)


@task.define
def bag(y, X, begin, end, *, rows: task.static):
    acc = task.zeros(y.shape, task.float32, name="acc")
    low, high = task.count(begin[0], most=rows), task.count(end[0], most=rows)
    step = task.tunable("step")
    Xp = task.partition(X[low:high], shape=(step, X.shape[1]))
    for r in task.sequential_range(Xp.shape[0]):
        task.launch(add, acc, Xp[r, 0])
    task.launch(divide, y, acc, end, begin)


@task.define
def bag_mean(
    Y: task.Tensor["Bags", "Wide"],
    X: task.Tensor["Rows", "Wide"],
    bounds: task.Tensor["Bags + 1", task.int32],
):
    width = task.tunable("wide")
    Yp, Xp = task.partition(Y, shape=(1, width)), task.partition(X, shape=(X.shape[0], width))
    for b, j in task.parallel_range(Yp.shape):
        task.launch(
            bag, Yp[b, j][0], Xp[0, j], bounds[b : b + 1], bounds[b + 1 : b + 2], rows=X.shape[0]
        )
