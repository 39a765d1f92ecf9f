"""State-space duality in chunks, the scan of Mamba-2: Y[t] = C[t] h[t], of a state that decays.

h[t] = exp(decay[t]) h[t-1] + B[t] X[t]^T, from 0 on. X and Y [N, T, H, P] are T steps of H heads; B
and C [N, T, G, S] are shared by H/G heads each; all of one float dtype. decay [N, T, H], any float
dtype, is the logarithm of what a step keeps; a positive one counts as 0, since a state that grew
would overflow. Of a model with a step's length, X and decay come multiplied by it. A chunk is Y =
(L o (C B^T)) X, with L[i, j] = exp(decay[j + 1] + ... + decay[i]) for j <= i, and what the state of
the chunk's beginning gives; sums and state are float32 (float64 for float64). Source: Dao and Gu,
Transformers are SSMs, arXiv 2405.21060, section 6.
"""

from septran import task
from septran.operators.gated_delta_rule import (
    add_product,
    add_to_state,
    decay_state,
    from_state,
    left_at_end,
    read_state,
    rounded,
    scores,
    weights,
)

EXAMPLE = {"N": 1, "T": 256, "H": 4, "P": 64, "S": 64}
SAME = {"G": "H"}
CASES = (
    {"N": 1, "T": 75, "H": 2, "G": 1, "P": 40, "S": 24},
    {"N": 1, "T": 128, "H": 1, "G": 1, "P": 64, "S": 64},
    {"N": 2, "T": 70, "H": 2, "G": 2, "P": 16, "S": 32, "dtype": "float16"},
)


@task.define(leaf=True)
def decays(total, end, decay):
    """The logarithm of what is kept of the chunk's beginning, after each step and all of them."""
    kept = task.minimum(decay, 0.0)
    total[:] = task.cumsum(kept, axis=0)
    end[:] = task.sum(kept, axis=0, keepdims=True)


@task.define
def ssd_head(Y, X, B, C, decay):
    """One head, some columns: chunk after chunk, the state passed on."""
    size, wide = task.tunable("block_N"), task.compute_dtype(X.dtype)
    Yp, Xp, Bp, Cp = (task.partition(x, shape=(size, x.shape[1])) for x in (Y, X, B, C))
    Dp = task.partition(decay, shape=(size,))
    H = task.zeros((B.shape[1], X.shape[1]), wide, name="H")
    state = task.empty(H.shape, X.dtype, name="state")
    for n in task.sequential_range(Xp.shape[0]):
        x, b, c = Xp[n, 0], Bp[n, 0], Cp[n, 0]
        total = task.empty(Dp[n].shape, wide, name="total")
        end = task.empty((1,), wide, name="end")
        task.launch(decays, total, end, Dp[n])
        # What the steps see of the chunk's beginning, and of those before them in it.
        CB = task.empty((c.shape[0], b.shape[0]), wide, name="CB")
        L = task.empty(CB.shape, X.dtype, name="L")
        acc = task.empty(x.shape, wide, name="acc")
        task.launch(rounded, state, H)
        task.launch(scores, CB, c, b)
        task.launch(weights, L, CB, total)
        task.launch(read_state, acc, c, state)
        task.launch(from_state, acc, total)
        task.launch(add_product, acc, L, x)
        task.launch(rounded, Yp[n, 0], acc)
        # The state at the chunk's end.
        W = task.empty(x.shape, X.dtype, name="W")
        task.launch(left_at_end, W, x, total, end)
        task.launch(decay_state, H, end)
        task.launch(add_to_state, H, b, W)


@task.define
def ssd(
    Y: task.Tensor["N", "T", "H", "P"],
    X: task.Tensor["N", "T", "H", "P"],
    decay: task.Tensor["N", "T", "H"],
    B: task.Tensor["N", "T", "G", "S"],
    C: task.Tensor["N", "T", "G", "S"],
):
    """Each batch, head and block of X's columns on its own."""
    heads, groups = X.shape[2], B.shape[2]
    each = max(1, heads // max(1, groups))
    task.require(each * groups == heads, f"{heads} heads cannot share {groups} states evenly")
    tile = (1, X.shape[1], 1, task.tunable("block_E"))
    Yp, Xp = (task.partition(x, shape=tile) for x in (Y, X))
    for n, h, p in task.parallel_range(X.shape[0], heads, Xp.shape[3]):
        y, x = (part[n, 0, h, p][0, :, 0] for part in (Yp, Xp))
        shared = (z[n, :, h // each] for z in (B, C))
        task.launch(ssd_head, y, x, *shared, decay[n, :, h])
