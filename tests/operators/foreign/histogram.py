"""A weighted histogram: H[bins[t]] += w[t], in chunks that each have a place for theirs.

bins [N] of 0 to Bins - 1, w [N, 1], H [Bins, 1].
"""

from septran import task

EXAMPLE = {"N": 600, "Bins": 40}
CASES = ({"N": 300, "Bins": 12}, {"N": 70, "Bins": 100})


@task.define
def chunk(part, bins, w):
    task.fill(part, 0)
    for t in task.sequential_range(w.shape[0]):
        task.reduce_into(part[bins[t]], w[t])


@task.define
def histogram(
    H: task.Tensor["Bins", 1], bins: task.Tensor["N", task.int32], w: task.Tensor["N", 1]
):
    task.fill(H, 0)
    n = task.tunable("many", 64)
    Bp, Wp = task.partition(bins, shape=(n,)), task.partition(w, shape=(n, 1))
    parts = task.empty((Bp.shape[0], *H.shape), task.float32, name="parts")
    for i in task.parallel_range(Bp.shape[0]):
        task.launch(chunk, parts[i], Bp[i], Wp[i, 0])
        task.reduce_into(H, parts[i])
