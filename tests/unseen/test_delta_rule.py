"""Chunks of the delta rule: many small products one after another, each with tiles of its own."""

import pytest

from septran import produce_stages, task
from septran.tile.passes.layout.plan_memory import OverCapacityError


@task.define(leaf=True)
def scores(R, Q, K):
    """Queries against keys."""
    task.fill(R, 0)
    task.call_primitive("gemm", R, Q, K.T)


@task.define(leaf=True)
def strictly_below(Y, T, R):
    """What the chunk's rows take from those before them, and one plus that."""
    i, j = task.index(Y, 0)[:, None], task.index(Y, 1)[None, :]
    Y[:, :] = task.where(i > j, -R, 0.0)
    T[:, :] = task.where(i > j, -R, 0.0) + task.where(i == j, 1.0, 0.0)


@task.define(leaf=True)
def times(Z, X, Y):
    """Add a product."""
    task.call_primitive("gemm", Z, X, Y)


@task.define(leaf=True)
def become(Y, Z):
    """Y = Z."""
    Y[:, :] = Z


@task.define(leaf=True)
def more(T, Z):
    """T += Z."""
    T[:, :] = T + Z


@task.define(leaf=True)
def less(U, V, W):
    """U = V - W."""
    U[:, :] = V - W


@task.define(leaf=True)
def seen(P, R):
    """Scores of keys that are not after the query."""
    P[:, :] = task.where(task.index(P, 0)[:, None] >= task.index(P, 1)[None, :], R, 0.0)


@task.define(leaf=True)
def output(O, P, U, Q, S):  # noqa: E741
    """The chunk's own part and that of all before it."""
    task.fill(O, 0)
    task.call_primitive("gemm", O, P, U)
    task.call_primitive("gemm", O, Q, S)


@task.define(leaf=True)
def learn(S, K, U):
    """What the state did not know."""
    task.call_primitive("gemm", S, K.T, U)


@task.define
def head(O, Q, K, V):  # noqa: E741
    """Chunk after chunk; the inverse of 1 - Y is (1 + Y)(1 + Y^2)(1 + Y^4)..."""
    size = 32
    S = task.zeros((Q.shape[1], V.shape[1]), task.float32, name="S")
    Qp, Kp, Vp, Op = (task.partition(x, shape=(size, x.shape[1])) for x in (Q, K, V, O))
    for i in task.sequential_range(Qp.shape[0]):
        W, U, E = (task.empty((size, V.shape[1]), O.dtype, name=n) for n in "WUE")
        P, R, Y, T, Z = (task.empty((size, size), O.dtype, name=n) for n in "PRYTZ")
        task.launch(scores, R, Kp[i, 0], Kp[i, 0])
        task.launch(strictly_below, Y, T, R)
        for _ in range(4):
            task.fill(Z, 0)
            task.launch(times, Z, Y, Y)
            task.launch(become, Y, Z)
            task.fill(Z, 0)
            task.launch(times, Z, T, Y)
            task.launch(more, T, Z)
        task.fill(W, 0)
        task.launch(times, W, Kp[i, 0], S)
        task.launch(less, E, Vp[i, 0], W)
        task.fill(U, 0)
        task.launch(times, U, T, E)
        task.launch(scores, R, Qp[i, 0], Kp[i, 0])
        task.launch(seen, P, R)
        task.launch(output, Op[i, 0], P, U, Qp[i, 0], S)
        task.launch(learn, S, Kp[i, 0], U)


@task.define
def delta_chunk(
    O: task.Tensor["H", "T", "D"],  # noqa: E741
    Q: task.Tensor["H", "T", "D"],
    K: task.Tensor["H", "T", "D"],
    V: task.Tensor["H", "T", "D"],
):
    """Every head."""
    for h in task.parallel_range(O.shape[0]):
        task.launch(head, O[h], Q[h], K[h], V[h])


def test_tiles_that_are_needed_one_after_another_are_not_cut(right):
    """They fit, for they share their bytes; all together they do not."""
    right(delta_chunk, "amd-mi300x", {"H": 2, "T": 64, "D": 64})


@task.define
def two_products(C, D, A, B, W):
    """Two products with one operand in common, and something between them."""
    c, d = (task.zeros(X.shape, task.float32, name="sums") for X in (C, D))
    task.launch(times, c, A, W)
    task.launch(become, C, c)
    task.launch(times, d, B, W)
    task.launch(become, D, d)


@task.define
def pairs(
    C: task.Tensor["H", "M", "N"],
    D: task.Tensor["H", "L", "N"],
    A: task.Tensor["H", "M", "K"],
    B: task.Tensor["H", "L", "K"],
    W: task.Tensor["K", "N"],
):
    """Every pair."""
    for h in task.parallel_range(C.shape[0]):
        task.launch(two_products, C[h], D[h], A[h], B[h], W)


def test_a_panel_that_others_need_whole_is_not_cut():
    """It does not fit, and is said not to; a part of it would be read beyond its end."""
    shapes = {"H": 2, "M": 64, "L": 16, "N": 64, "K": 192}
    with pytest.raises(OverCapacityError):
        _ = produce_stages(pairs, "amd-mi300x", shapes=shapes).tile_program
