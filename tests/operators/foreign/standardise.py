"""Layer normalisation in other words: each row is shifted and scaled, then by G and H."""

from septran import task

EXAMPLE = {"R": 256, "L": 1000}
CASES = ({"R": 40, "L": 70}, {"R": 9, "L": 5000})


@task.define(leaf=True)
def some(out, given, G, H):
    centred = task.empty(given.shape, task.float32, name="centred")
    middle = task.empty(given.shape[:1], task.float32, name="middle")
    factor = task.empty(given.shape[:1], task.float32, name="factor")
    middle[:] = task.sum(given, axis=1) / given.shape[1]
    centred[:, :] = given - middle[:, None]
    factor[:] = task.rsqrt(task.sum(centred * centred, axis=1) / given.shape[1] + 1e-5)
    out[:, :] = centred * factor[:, None] * G[None, :] + H[None, :]


@task.define
def standardise(
    out: task.Tensor["R", "L"],
    given: task.Tensor["R", "L"],
    G: task.Tensor["L"],
    H: task.Tensor["L"],
):
    shape = (task.tunable("block_rows"), given.shape[1])
    Op, Gp = task.partition(out, shape=shape), task.partition(given, shape=shape)
    for i in task.parallel_range(Op.shape[0]):
        task.launch(some, Op[i, 0], Gp[i, 0], G, H)
