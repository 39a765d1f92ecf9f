"""Rows of a table, chosen by integers: Y[t, j] = W[index[t], j].

Y [T, D], W [V, D] of any dtype, index [T] int64 with 0 <= index[t] < V. Source:
torch.nn.functional.embedding (definition).
"""

from septran import task

EXAMPLE = {"T": 2048, "V": 8192, "D": 512}
CASES = (
    {"T": 70, "V": 50, "D": 130},
    {"T": 64, "V": 1, "D": 64},
    {"T": 3, "V": 1000, "D": 501, "dtype": "float16"},
)


@task.define(leaf=True)
def embedding_tile(Y, X):
    """Some columns of some rows."""
    Y[:, :] = X


@task.define
def embedding(
    Y: task.Tensor["T", "D"], W: task.Tensor["V", "D"], index: task.Tensor["T", task.int64]
):
    """The rows in tiles, each on its own."""
    tile = (task.tunable("block_height"), task.tunable("block_width"))
    Yp, Xp = (task.partition(x, shape=tile) for x in (Y, task.gather(W, index)))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(embedding_tile, Yp[i, j], Xp[i, j])


BACKWARD = "embedding_backward"
"""The operator that computes the gradient (`septran.torch`)."""
