"""Group normalisation: of each image, each group of channels is shifted and scaled as one.

X and Y [B, G, C, S], C channels of each of G groups, S places; W and bias [G, C].
"""

from septran import task

EXAMPLE = {"B": 2, "G": 4, "C": 8, "S": 64}
CASES = ({"B": 2, "G": 3, "C": 5, "S": 21}, {"B": 1, "G": 2, "C": 7, "S": 130})


@task.define(leaf=True)
def group(Y, X, W, bias):
    centred = task.empty(X.shape, task.float32, name="centred")
    count = X.shape[1] * X.shape[2]
    mean = task.sum(X, axis=(1, 2), keepdims=True) / count
    centred[:, :, :] = X - mean
    scale = task.rsqrt(task.sum(centred * centred, axis=(1, 2), keepdims=True) / count + 1e-5)
    Y[:, :, :] = centred * scale * W[:, :, None] + bias[:, :, None]


@task.define
def group_norm(
    Y: task.Tensor["B", "G", "C", "S"],
    X: task.Tensor["B", "G", "C", "S"],
    W: task.Tensor["G", "C"],
    bias: task.Tensor["G", "C"],
):
    for b, g in task.parallel_range(*X.shape[:2]):
        task.launch(group, Y[b, g : g + 1], X[b, g : g + 1], W[g : g + 1], bias[g : g + 1])
