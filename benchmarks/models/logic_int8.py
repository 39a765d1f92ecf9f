"""A layer's product with weights of 8 bits, as the encoder's int8 model has it.

A column of the weights is scale[n] * w[:, n], w of -127 to 127. A row of A is rounded to bytes:
step[m] * (q - zero[m]), q of 0 to 255 from the row's least element to its greatest. Products of
bytes are summed exactly in int32, and as the sum over k of (q - zero) * w is that of q * w less
zero times the sum of w, which is known with the weights, no signs are changed when the kernel
runs. The last channels of a row stay as they are, and so do their weights: those that are large
in all rows would make the steps of the others coarse. Source: Dettmers et al., LLM.int8(), arXiv
2208.07339.
"""

from benchmarks.models.logic import product
from septran import task
from septran.operators.gemm_bias_act import ACTIVATIONS

STEPS = 255
"""From the least element of a row to its greatest."""


@task.define(leaf=True)
def round_rows(Q, step, zero, A):
    """Some rows as bytes, in steps that 0 is one of; the step of a row of zeros is 1."""
    low = task.empty(A.shape[:1], task.float32, name="low")
    span = task.empty(A.shape[:1], task.float32, name="span")
    share = task.empty(A.shape[:1], task.float32, name="share")
    low[:] = task.minimum(task.min(A, axis=1), 0)
    span[:] = task.maximum(task.max(A, axis=1), 0) - low
    share[:] = task.where(span > 0, STEPS / span, 1)
    step[:] = task.where(span > 0, span / STEPS, 1)
    zero[:] = task.round(-low * share)
    # Both ends may be rounded away from zero, to one step more than there are.
    Q[:, :] = task.minimum(task.round(A * share[:, None]) + zero[:, None], STEPS).astype(Q.dtype)


@task.define
def round_all(Q, step, zero, A):
    """Rows in blocks, each on its own."""
    rows = task.tunable("block_rows")
    Qp, Ap = (task.partition(x, shape=(rows, x.shape[1])) for x in (Q, A))
    steps, zeros = (task.partition(x, shape=(rows,)) for x in (step, zero))
    for i in task.parallel_range(Qp.shape[0]):
        task.launch(round_rows, Qp[i, 0], steps[i], zeros[i], Ap[i, 0])


@task.define(leaf=True)
def finish_tile(C, P, F, step, zero, scale, total, bias, *, act: str):
    """C = act((P - zero * total) * step * scale + F + bias) on one tile."""
    sums = P.astype(task.float32) - zero[:, None] * total[None, :]
    C[:, :] = ACTIVATIONS[act](sums * step[:, None] * scale[None, :] + F + bias[None, :])


@task.define
def panel_rows(C, Q, W, A, V, step, zero, scale, total, bias, *, act: str):
    """Some rows by one panel, of bytes and of what is no bytes."""
    P = task.empty(C.shape, task.int32, name="P")
    F = task.empty(C.shape, task.float32, name="F")
    task.launch(product, P, Q, W)
    task.launch(product, F, A, V)
    task.launch(finish_tile, C, P, F, step, zero, scale, total, bias, act=act)


@task.define
def panel(C, Q, W, A, V, step, zero, scale, total, bias, *, act: str):
    """All rows by one panel, which stays in the core's cache."""
    rows = task.tunable("block_M")
    Cp, Qp, Ap = (task.partition(x, shape=(rows, x.shape[1])) for x in (C, Q, A))
    steps, zeros = (task.partition(x, shape=(rows,)) for x in (step, zero))
    for i in task.parallel_range(Cp.shape[0]):
        given = Qp[i, 0], W, Ap[i, 0], V, steps[i], zeros[i]
        task.launch(panel_rows, Cp[i, 0], *given, scale, total, bias, act=act)


@task.define
def linear_int8(
    C: task.Tensor["M", "P * S"],
    A: task.Tensor["M", "4 * G + R"],
    W: task.Tensor["P", "G", "S", 4, task.int8],
    V: task.Tensor["P", "R", "S"],
    scale: task.Tensor["P * S"],
    total: task.Tensor["P * S"],
    bias: task.Tensor["P * S"],
    *,
    act: str = "none",
):
    """C = act(A W + bias), in panels of S columns with four weights of a column side by side.

    An instruction that adds four products of bytes takes them as they lie: nothing packs them.
    total[n] is the sum of column n of the bytes. V has the weights of A's last R channels.
    """
    count, groups, width, size = W.shape
    inner = groups * size
    Q = task.empty((A.shape[0], inner), task.uint8, name="Q")
    step, zero = (task.empty(A.shape[:1], task.float32, name=n) for n in ("step", "zero"))
    task.launch(round_all, Q, step, zero, A[:, :inner])
    Cp = task.partition(C, shape=(C.shape[0], width))
    each = [task.partition(x, shape=(width,)) for x in (scale, total, bias)]
    for p in task.parallel_range(count):
        w = W[p].transpose(0, 2, 1).reshape(inner, width)
        given = Q, w, A[:, inner:], V[p], step, zero, *(x[p] for x in each)
        task.launch(panel, Cp[0, p], *given, act=act)
