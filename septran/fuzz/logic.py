"""Random logic files, as source text that a person can read and keep."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

UNARY = ("task.exp({})", "task.tanh({})", "task.sigmoid({})", "abs({})", "-{}", "task.relu({})")
BINARY = (
    "({} + {})", "({} - {})", "({} * {})", "task.maximum({}, {})", "task.minimum({}, {})",
    "task.where({} > 0, {}, 0.5)",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A logic file with what it needs to be called."""

    text: str
    inputs: tuple[tuple[str, tuple[str, ...]], ...]
    """Each input with its dimensions' names."""


def rowwise(rng: Random) -> Source:
    """A leaf of random expressions and row reductions on blocks of rows."""
    body: list[str] = []
    tiles, rows = ["X", "W"], ["r"]
    for n in range(rng.randint(1, 4)):
        if rng.random() < 0.35:
            name, operand = f"v{n}", expression(rng, tiles, rows, 1)
            function = rng.choice(("sum", "max", "min"))
            body.append(f"{name} = task.empty(X.shape[:1], name='{name}')")
            body.append(f"{name}[:] = task.{function}({operand}, axis=1)")
            rows.append(name)
        else:
            name = f"t{n}"
            body.append(f"{name} = task.empty(X.shape, name='{name}')")
            body.append(f"{name}[:, :] = {expression(rng, tiles, rows, 2)}")
            tiles.append(name)
    # every chain ends in tanh, so that errors of exp do not overflow the bound
    body.append(f"Y[:, :] = task.tanh({expression(rng, tiles, rows, 2)})")
    lines = "\n    ".join(body)
    text = f"""import task_lang as task


@task.define(leaf=True)
def rows(Y, X, W, r, b):
    {lines}


@task.define
def main(
    Y: task.Tensor["M", "N"],
    X: task.Tensor["M", "N"],
    W: task.Tensor["M", "N"],
    r: task.Tensor["M"],
    b: task.Tensor["N"],
):
    block_m = task.tunable("block_M")
    parts = [task.partition(t, shape=(block_m, t.shape[1])) for t in (Y, X, W)]
    rp = task.partition(r, shape=(block_m,))
    for i in task.parallel_range(parts[0].shape[0]):
        task.launch(rows, *(p[i, 0] for p in parts), rp[i], b)
"""
    inputs = (("X", ("M", "N")), ("W", ("M", "N")), ("r", ("M",)), ("b", ("N",)))
    return Source(text, inputs)


def products(rng: Random) -> Source:
    """A product with random transposes, loop order and epilogue."""
    trans_a, trans_b = rng.random() < 0.4, rng.random() < 0.4
    dims_a = ("K", "M") if trans_a else ("M", "K")
    dims_b = ("N", "K") if trans_b else ("K", "N")
    epilogue = rng.choice(("acc", "task.relu(acc)", "acc + b[None, :]", "task.tanh(acc * 0.1)"))
    order = rng.choice(("i, j", "j, i"))
    extents = "Cp.shape" if order == "i, j" else "Cp.shape[1], Cp.shape[0]"
    text = f'''import task_lang as task


@task.define(leaf=True)
def multiply(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def finish(C, acc, b):
    C[:, :] = {epilogue}


@task.define
def block(C, A, B, b):
    step = task.tunable("block_K")
    acc = task.zeros(C.shape, task.accumulator_dtype(C.dtype), name="acc")
    Ap = task.partition(A, shape=(A.shape[0], step))
    Bp = task.partition(B, shape=(step, B.shape[1]))
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(multiply, acc, Ap[0, k], Bp[k, 0])
    task.launch(finish, C, acc, b)


@task.define
def main(
    C: task.Tensor["M", "N"],
    A: task.Tensor["{dims_a[0]}", "{dims_a[1]}"],
    B: task.Tensor["{dims_b[0]}", "{dims_b[1]}"],
    b: task.Tensor["N"],
):
    m, n = task.tunable("block_M"), task.tunable("block_N")
    A, B = {"A.T" if trans_a else "A"}, {"B.T" if trans_b else "B"}
    Cp = task.partition(C, shape=(m, n))
    Ap = task.partition(A, shape=(m, A.shape[1]))
    Bp = task.partition(B, shape=(B.shape[0], n))
    bp = task.partition(b, shape=(n,))
    for {order} in task.parallel_range({extents}):
        task.launch(block, Cp[i, j], Ap[i, 0], Bp[0, j], bp[j])
'''
    return Source(text, (("A", dims_a), ("B", dims_b), ("b", ("N",))))


def expression(rng: Random, tiles: list[str], rows: list[str], depth: int) -> str:
    """A random expression of a tile's shape."""
    if depth == 0 or rng.random() < 0.15:
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(tiles)
        if kind < 0.8:
            return f"({rng.choice(tiles)} + {rng.choice(rows)}[:, None])"
        return f"({rng.choice(tiles)} * b[None, :])"
    if rng.random() < 0.35:
        inner = expression(rng, tiles, rows, depth - 1)
        form = rng.choice(UNARY)
        # exp of sums of products would overflow for some seeds and say nothing
        return form.format(f"task.tanh({inner})" if "exp" in form else inner)
    parts = [expression(rng, tiles, rows, depth - 1) for _ in range(2)]
    return rng.choice(BINARY).format(*parts)
