"""Causal linear attention in chunks: O[i] = sum over j <= i of (Q[i] . K[j]) V[j].

Q and K [B, H, N, D], V and O [B, H, N, E]. Each chunk adds its own part, masked, and what
the state S = sum of K[j] V[j]^T of all chunks before it gives; the state is float32 (float64
for float64).
Source: Katharopoulos et al., arXiv 2006.16236; the chunked form of Yang et al., Gated Linear
Attention, arXiv 2312.06635.
"""

from septran import task

EXAMPLE = {"B": 1, "H": 4, "N": 256, "D": 64, "E": 64}
CASES = (
    {"B": 1, "H": 2, "N": 100, "D": 24, "E": 40},
    {"B": 1, "H": 1, "N": 128, "D": 64, "E": 64},
    {"B": 2, "H": 1, "N": 70, "D": 32, "E": 16, "dtype": "float16"},
)


@task.define(leaf=True)
def chunk_scores(S, Q, K):
    """S = Q K^T."""
    task.fill(S, 0)
    task.call_primitive("gemm", S, Q, K.T)


@task.define(leaf=True)
def mask_scores(P, S, *, reverse: bool):
    """Keys after the query count nothing; with `reverse` those before it."""
    key, query = task.index(S, 1)[None, :], task.index(S, 0)[:, None]
    seen = key >= query if reverse else key <= query
    P[:, :] = task.where(seen, S, 0.0)


@task.define(leaf=True)
def chunk_output(acc, P, V, Q, state):
    """The chunk's own part and that of all before it: P V + Q state."""
    task.fill(acc, 0)
    task.call_primitive("gemm", acc, P, V)
    task.call_primitive("gemm", acc, Q, state)


@task.define(leaf=True)
def add_to_state(total, K, V):
    """Add K^T V."""
    task.call_primitive("gemm", total, K.T, V)


@task.define(leaf=True)
def rounded(Y, X):
    """Y = X in Y's dtype."""
    Y[:, :] = X.astype(Y.dtype)


@task.define
def linear_attention_head(O, Q, K, V, *, reverse: bool):
    """One head, some columns: chunk after chunk from one end, the state passed on."""
    size, wide = task.tunable("block_N"), task.compute_dtype(Q.dtype)
    Op, Vp = (task.partition(x, shape=(size, x.shape[1])) for x in (O, V))
    Qp, Kp = (task.partition(x, shape=(size, x.shape[1])) for x in (Q, K))
    total = task.zeros((K.shape[1], V.shape[1]), wide, name="total")
    state = task.empty(total.shape, Q.dtype, name="state")
    last = Qp.shape[0] - 1
    for step in task.sequential_range(Qp.shape[0]):
        n = last - step if reverse else step
        q, k, v = Qp[n, 0], Kp[n, 0], Vp[n, 0]
        S = task.empty((q.shape[0], k.shape[0]), wide, name="S")
        P = task.empty(S.shape, Q.dtype, name="P")
        acc = task.empty((q.shape[0], v.shape[1]), wide, name="acc")
        # The product takes operands of one type; only this copy of the sums is rounded.
        task.launch(rounded, state, total)
        task.launch(chunk_scores, S, q, k)
        task.launch(mask_scores, P, S, reverse=reverse)
        task.launch(chunk_output, acc, P, v, q, state)
        task.launch(rounded, Op[n, 0], acc)
        # Last: the chunk's own keys reach its queries through the masked scores.
        task.launch(add_to_state, total, k, v)


@task.define
def linear_attention(
    O: task.Tensor["B", "H", "N", "E"],
    Q: task.Tensor["B", "H", "N", "D"],
    K: task.Tensor["B", "H", "N", "D"],
    V: task.Tensor["B", "H", "N", "E"],
):
    """Each batch, head and block of V's columns on its own."""
    tile = (1, 1, O.shape[2], task.tunable("block_E"))
    Op, Vp = task.partition(O, shape=tile), task.partition(V, shape=tile)
    for b, h, e in task.parallel_range(*O.shape[:2], Op.shape[3]):
        o, v = Op[b, h, 0, e][0, 0], Vp[b, h, 0, e][0, 0]
        task.launch(linear_attention_head, o, Q[b, h], K[b, h], v, reverse=False)


BACKWARD = "linear_attention_backward"
"""The operator that computes the gradient (`septran.torch`)."""
