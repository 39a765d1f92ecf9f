"""The caches of a beam search in the order of its new beams: Y[b, k] = cache[b, parent[b, k]].

cache and Y [B, K, T, D], parent [B, K].
"""

from septran import task

EXAMPLE = {"B": 2, "K": 4, "T": 32, "D": 64}
CASES = ({"B": 3, "K": 2, "T": 9, "D": 10}, {"B": 1, "K": 5, "T": 40, "D": 33})


@task.define(leaf=True)
def moved(Y, cache):
    Y[:, :] = cache


@task.define
def beam_gather(
    Y: task.Out["B", "K", "T", "D"],
    cache: task.In["B", "K", "T", "D"],
    parent: task.In["B", "K", task.int32],
):
    tile = (1, task.tunable("block_M", 16), cache.shape[3])
    for b, k in task.parallel_range(*parent.shape):
        Yp = task.partition(Y[b, k], shape=tile[1:])
        Cp = task.partition(cache[b], shape=tile)
        for i in task.parallel_range(Yp.shape[0]):
            task.launch(moved, Yp[i, 0], Cp[parent[b, k], i, 0][0])
