"""Gradient of embedding's table: dW[v, j] = sum over t with index[t] = v of dY[t, j].

W and dW [V, D], dY [T, D], any float dtype, index [T] int64 with 0 <= index[t] < V; of W, which is
embedding's table, the extents alone count. Rows are added one after another, and each sum is
rounded. Each block of columns is on its own, so that no two add to one element at a time.
Source: torch.nn.functional.embedding (whose gradient it is).
"""

from septran import task

EXAMPLE = {"T": 1024, "V": 512, "D": 512}
CASES = (
    {"T": 70, "V": 50, "D": 130},
    {"T": 64, "V": 8, "D": 64},
    {"T": 30, "V": 100, "D": 51, "dtype": "float16"},
)


@task.define
def add_rows(dW, dY, index):
    """Some columns of all rows, from the first row to the last."""
    # In order: two rows of dY may have the same index.
    for t in task.sequential_range(dY.shape[0]):
        task.reduce_into(dW[index[t]], dY[t])


@task.define
def embedding_backward(
    dW: task.Tensor["V", "D"],
    W: task.Tensor["V", "D"],
    index: task.Tensor["T", task.int64],
    dY: task.Tensor["T", "D"],
):
    """Columns in blocks, each on its own."""
    task.fill(dW, 0)
    width = task.tunable("block_width")
    Wp, Yp = (task.partition(x, shape=(x.shape[0], width)) for x in (dW, dY))
    for j in task.parallel_range(Wp.shape[1]):
        task.launch(add_rows, Wp[0, j], Yp[0, j], index)
