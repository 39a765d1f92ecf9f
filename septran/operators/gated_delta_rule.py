"""Gated delta rule in chunks: O[t] = q[t] S[t], of a state that forgets and corrects itself.

S[t] = a[t] (I - b[t] k[t] k[t]^T) S[t-1] + b[t] k[t] V[t]^T, from 0 on, of keys and queries of
length 1, k[t] = K[t] / sqrt(|K[t]|^2 + eps) and q alike, and of gates a = sigmoid(forget) and
b = sigmoid(write). Q and K [B, H, N, D], V and O [B, H, N, E], forget and write [B, H, N], any
float dtype. Written S[t] = a[t] S[t-1] + k[t] U[t]^T, the corrections U of a chunk are the solution
of a triangular system; state and system are float32 (float64 for float64).
Source: Yang, Kautz and Hatamizadeh, Gated Delta Networks, arXiv 2412.06464, section 3.3.
"""

from septran import task

EXAMPLE = {"B": 1, "H": 4, "N": 256, "D": 64, "E": 64}
CASES = (
    {"B": 1, "H": 1, "N": 75, "D": 24, "E": 40},
    {"B": 1, "H": 1, "N": 128, "D": 64, "E": 64},
    {"B": 2, "H": 1, "N": 70, "D": 32, "E": 16, "dtype": "float16"},
)


@task.define(leaf=True)
def scores(S, X, K):
    """S = X K^T."""
    task.fill(S, 0)
    task.call_primitive("gemm", S, X, K.T)


@task.define(leaf=True)
def read_state(Y, X, state):
    """Y = X state."""
    task.fill(Y, 0)
    task.call_primitive("gemm", Y, X, state)


@task.define(leaf=True)
def unit_rows(Y, X, *, eps: float):
    """Rows of length 1."""
    Y[:, :] = X * task.rsqrt(task.sum(X * X, axis=1) + eps)[:, None]


@task.define(leaf=True)
def gates(g, beta, forget, write):
    """The logarithm of what a step keeps, and how much it writes."""
    # The logarithm of a sigmoid, without an exponential that could overflow.
    g[:] = task.minimum(forget, 0.0) - task.log(1 + task.exp(-task.abs(forget)))
    beta[:] = task.sigmoid(write)


@task.define(leaf=True)
def decays(total, end, g):
    """The logarithm of what is kept of the chunk's beginning, after each step and all of them."""
    total[:] = task.cumsum(g, axis=0)
    end[:] = task.sum(g, axis=0, keepdims=True)


@task.define(leaf=True)
def corrections(A, S, total, beta):
    """What each step corrects of those before it in the chunk."""
    kept = task.exp(total[:, None] - total[None, :])
    before = task.index(S, 1)[None, :] < task.index(S, 0)[:, None]
    A[:, :] = task.where(before, beta[:, None] * kept * S, 0.0)


@task.define(leaf=True)
def weights(P, S, total):
    """How much each query sees of the steps up to its own."""
    kept = task.exp(total[:, None] - total[None, :])
    seen = task.index(S, 1)[None, :] <= task.index(S, 0)[:, None]
    P[:, :] = task.where(seen, kept * S, 0.0)


@task.define(leaf=True)
def errors(R, V, held, total, beta):
    """Values less what the state of the chunk's beginning has for the keys."""
    R[:, :] = beta[:, None] * (V - task.exp(total)[:, None] * held)


@task.define(leaf=True)
def solve(U, A, R):
    """(I + A) U = R."""
    task.solve_triangular(U, A, R, unit=True)


@task.define(leaf=True)
def from_state(acc, total):
    """What is left of the chunk's beginning."""
    acc[:, :] = task.exp(total)[:, None] * acc


@task.define(leaf=True)
def add_product(acc, P, U):
    """Add P U."""
    task.call_primitive("gemm", acc, P, U)


@task.define(leaf=True)
def rounded(Y, X):
    """Y = X in Y's dtype."""
    Y[:, :] = X.astype(Y.dtype)


@task.define(leaf=True)
def left_at_end(W, U, total, end):
    """What the chunk's end keeps of each correction."""
    W[:, :] = task.exp(end[:, None] - total[:, None]) * U


@task.define(leaf=True)
def decay_state(S, end):
    """What the chunk's end keeps of its beginning."""
    S[:, :] = task.exp(end)[:, None] * S


@task.define(leaf=True)
def add_to_state(S, K, W):
    """Add K^T W."""
    task.call_primitive("gemm", S, K.T, W)


@task.define
def gated_delta_rule_head(O, Q, K, V, forget, write, *, eps: float):
    """One head, some columns: chunk after chunk, the state passed on."""
    size, wide = task.tunable("block_N"), task.compute_dtype(Q.dtype)
    Op, Vp, Qp, Kp = (task.partition(x, shape=(size, x.shape[1])) for x in (O, V, Q, K))
    Fp, Wp = (task.partition(x, shape=(size,)) for x in (forget, write))
    S = task.zeros((K.shape[1], V.shape[1]), wide, name="S")
    state = task.empty(S.shape, Q.dtype, name="state")
    for n in task.sequential_range(Qp.shape[0]):
        v = Vp[n, 0]
        q = task.empty(Qp[n, 0].shape, Q.dtype, name="q")
        k = task.empty(Kp[n, 0].shape, K.dtype, name="k")
        g = task.empty(Fp[n].shape, wide, name="g")
        beta = task.empty(Wp[n].shape, wide, name="beta")
        total = task.empty(Fp[n].shape, wide, name="total")
        square, tall = (q.shape[0], k.shape[0]), (q.shape[0], v.shape[1])
        task.launch(unit_rows, q, Qp[n, 0], eps=eps)
        task.launch(unit_rows, k, Kp[n, 0], eps=eps)
        task.launch(gates, g, beta, Fp[n], Wp[n])
        end = task.empty((1,), wide, name="end")
        task.launch(decays, total, end, g)
        task.launch(rounded, state, S)
        # The corrections of the chunk, a triangular system.
        KK = task.empty(square, wide, name="KK")
        A = task.empty(square, wide, name="A")
        R = task.empty(tall, wide, name="R")
        U = task.empty(tall, wide, name="U")
        task.launch(scores, KK, k, k)
        task.launch(corrections, A, KK, total, beta)
        held = task.empty(tall, wide, name="held")
        task.launch(read_state, held, k, state)
        task.launch(errors, R, v, held, total, beta)
        task.launch(solve, U, A, R)
        # What the queries see: the state before the chunk, and the corrections up to their own.
        QK = task.empty(square, wide, name="QK")
        P = task.empty(square, Q.dtype, name="P")
        short = task.empty(tall, Q.dtype, name="short")
        acc = task.empty(tall, wide, name="acc")
        task.launch(scores, QK, q, k)
        task.launch(weights, P, QK, total)
        task.launch(rounded, short, U)
        task.launch(read_state, acc, q, state)
        task.launch(from_state, acc, total)
        task.launch(add_product, acc, P, short)
        task.launch(rounded, Op[n, 0], acc)
        # The state at the chunk's end.
        W = task.empty(tall, Q.dtype, name="W")
        task.launch(left_at_end, W, U, total, end)
        task.launch(decay_state, S, end)
        task.launch(add_to_state, S, k, W)


@task.define
def gated_delta_rule(
    O: task.Tensor["B", "H", "N", "E"],
    Q: task.Tensor["B", "H", "N", "D"],
    K: task.Tensor["B", "H", "N", "D"],
    V: task.Tensor["B", "H", "N", "E"],
    forget: task.Tensor["B", "H", "N"],
    write: task.Tensor["B", "H", "N"],
    *,
    eps: float = 1e-6,
):
    """Each batch, head and block of V's columns on its own."""
    tile = (1, 1, O.shape[2], task.tunable("block_E"))
    Op, Vp = task.partition(O, shape=tile), task.partition(V, shape=tile)
    for b, h, e in task.parallel_range(*O.shape[:2], Op.shape[3]):
        o, v = Op[b, h, 0, e][0, 0], Vp[b, h, 0, e][0, 0]
        forgets, writes = forget[b, h], write[b, h]
        task.launch(gated_delta_rule_head, o, Q[b, h], K[b, h], v, forgets, writes, eps=eps)
