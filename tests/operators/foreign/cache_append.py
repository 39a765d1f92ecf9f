"""A cache of keys with a new row for each sequence, at the place that its length says.

cache and Y [B, L, D], row [B, D], length [B], at most L - 1.
"""

from septran import task

EXAMPLE = {"B": 4, "L": 128, "D": 64}
CASES = ({"B": 3, "L": 21, "D": 10}, {"B": 2, "L": 70, "D": 33})


@task.define(leaf=True)
def some(Y, cache, row, length):
    here = task.index(cache, 0)[:, None] == length[:, None]
    Y[:, :] = task.where(here, row, cache)


@task.define
def cache_append(
    Y: task.Out["B", "L", "D"],
    cache: task.In["B", "L", "D"],
    row: task.In["B", "D"],
    length: task.In["B", task.int32],
):
    tile = (1, task.tunable("block_M", 32), cache.shape[2])
    Yp, Cp = task.partition(Y, shape=tile), task.partition(cache, shape=tile)
    for b, i in task.parallel_range(*Yp.shape[:2]):
        task.launch(some, Yp[b, i, 0][0], Cp[b, i, 0][0], row[b : b + 1], length[b : b + 1])
