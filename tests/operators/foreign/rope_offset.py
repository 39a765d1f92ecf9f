"""Rotary positions of interleaved pairs, of tokens that begin at an offset that the call tells.

X and Y [T, H, D]; cos and sin [P, D / 2]; token t is at position offset + t.
"""

from septran import task

EXAMPLE = {"T": 48, "H": 4, "E": 32, "P": 256}
CASES = ({"T": 7, "H": 3, "E": 8, "P": 64}, {"T": 33, "H": 2, "E": 20, "P": 100})


@task.define(leaf=True)
def turn(Y, X, cos, sin):
    c, s = cos[:, None, :], sin[:, None, :]
    even, odd = X[:, :, :, 0], X[:, :, :, 1]
    Y[:, :, :, 0] = even * c - odd * s
    Y[:, :, :, 1] = even * s + odd * c


@task.define
def rope_offset(
    Y: task.Tensor["T", "H", "2 * E"],
    X: task.Tensor["T", "H", "2 * E"],
    cos: task.Tensor["P", "E"],
    sin: task.Tensor["P", "E"],
    offset: task.Integer[0, 16],
):
    T, H, E = X.shape[0], X.shape[1], cos.shape[1]
    low = task.count(offset)
    size = task.tunable("block_rows", 16)
    Yp, Xp = (task.partition(t.reshape(T, H, E, 2), shape=(size, H, E, 2)) for t in (Y, X))
    cp, sp = (task.partition(t[low : low + T], shape=(size, E)) for t in (cos, sin))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(turn, Yp[i, 0, 0, 0], Xp[i, 0, 0, 0], cp[i, 0], sp[i, 0])
