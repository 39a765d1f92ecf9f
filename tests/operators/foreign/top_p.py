"""The most likely tokens that have a probability of 0.6 together, rescaled to 1; others 0.

P [B, V], not yet divided by its sum; values and places [B, V], the most likely first.
"""

from septran import task

EXAMPLE = {"B": 8, "V": 60}
CASES = ({"B": 3, "V": 17}, {"B": 5, "V": 101})


@task.define(leaf=True)
def ordered(values, places, P):
    task.sort(values, places, P, descending=True)


@task.define(leaf=True)
def kept(Y, values):
    positive = task.abs(values)
    before = task.cumsum(positive, axis=1, exclusive=True)
    left = task.where(before < 0.6 * task.sum(positive, axis=1)[:, None], positive, 0.0)
    Y[:, :] = left / task.sum(left, axis=1)[:, None]


@task.define
def rows(Y, places, P):
    values = task.empty(P.shape, P.dtype, name="values")
    task.launch(ordered, values, places, P)
    task.launch(kept, Y, values)


@task.define
def top_p(Y: task.Out["B", "V"], places: task.Out["B", "V", task.int32], P: task.In["B", "V"]):
    tile = (task.tunable("block_rows", 2), P.shape[1])
    Yp, Ip, Pp = (task.partition(t, shape=tile) for t in (Y, places, P))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(rows, Yp[i, 0], Ip[i, 0], Pp[i, 0])
