"""Random logic files whose leaves read parts of tensors beside or beyond those that they write."""

from __future__ import annotations

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, FLOATS, HEAD, Input, RandomLogic

_COMBINED = ("{} + {}", "{} - {}", "task.maximum({}, {})", "{}", "task.tanh({} * {})")
_TINY = ("1e-20", "-3e-17", "1.5e-30", "1e-7")
"""Constants that are 0 in a decimal text of few digits, and nearly or exactly 0 in 16 bits."""


def slices(c: Choices) -> RandomLogic:
    """Return statements on slices: a temporary onto itself, one row or column into many."""
    n, dtype = Names(c), c.of(FLOATS)
    height, width = c.between(2, 40), c.of(tuple(e for e in EXTENTS if e > 1))
    Y, X, W, T = (n[x] for x in ("Y", "X", "W", "T"))
    body = [f"{T} = task.empty({X}.shape, name='{T}')"]
    body.append(f"{T}[:, :] = {expression(c, ExpressionParts((X, W)), 1)}")
    body += [_slice(c, T, X, width) for _ in range(c.between(1, 3))]
    value = expression(c, ExpressionParts((T, X)), 1)
    if dtype == "float64" and c.chance(50):
        value = f"({value}) * {c.of(_TINY)}"
    body.append(f"{Y}[:, :] = {value}")
    leaf, entry, i = n["part"], n["whole"], n["i"]
    lines = "\n    ".join(body)
    cut = f"{X}.shape[0]" if c.chance(60) else 'task.tunable("block_M")'
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {X}, {W}):
    {lines}


@task.define
def {entry}(
    {Y}: task.Tensor["M", "N"], {X}: task.Tensor["M", "N"], {W}: task.Tensor["M", "N"],
):
    rows = {cut}
    Yp, Xp, Wp = (task.partition(t, shape=(rows, t.shape[1])) for t in ({Y}, {X}, {W}))
    for {i} in task.parallel_range(Yp.shape[0]):
        task.launch({leaf}, Yp[{i}, 0], Xp[{i}, 0], Wp[{i}, 0])
"""
    inputs = (Input(X, (height, width), dtype), Input(W, (height, width), dtype))
    return RandomLogic(text, inputs, kind="slices")


def _slice(c: Choices, own: str, other: str, width: int) -> str:
    """Return a statement whose target and source are other parts of the same columns or rows."""
    by = c.between(1, max(1, width // 2))
    low, high = f"[:, {by}:]", f"[:, :-{by}]"
    target, source = c.of(
        ((low, high), (high, low), ("[:, :]", "[0:1, :]"), ("[:, :]", "[:, 0:1]"))
    )
    first, second = c.of((own, other)), c.of((own, other))
    return f"{own}{target} = " + c.of(_COMBINED).format(f"{first}{source}", f"{second}{target}")


def windows(c: Choices) -> RandomLogic:
    """Return sums and greatest elements of windows along rows, with zeros beyond the ends."""
    n, dtype = Names(c), c.of(FLOATS)
    height, width = c.of(EXTENTS), c.of(EXTENTS)
    Y, X = n["Y"], n["X"]
    leaf, entry, i = n["smooth"], n["whole"], n["i"]
    size, dilation = c.of((1, 3, 5)), c.between(1, 2)
    padding = (size - 1) * dilation // 2  # as many windows as elements
    seen = f"task.window({X}, ({size},), padding=({padding},), dilation=({dilation},))"
    end = c.of(("{}", "{} + " + X, "task.tanh({})"))
    value = end.format(f"task.{c.of(('sum', 'max', 'min'))}({seen}, axis=2)")
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {X}):
    {Y}[:, :] = {value}


@task.define
def {entry}({Y}: task.Tensor["M", "N"], {X}: task.Tensor["M", "N"]):
    rows = task.tunable("{c.of(("block_rows", "block_M"))}", 8)
    Yp, Xp = (task.partition(t, shape=(rows, t.shape[1])) for t in ({Y}, {X}))
    for {i} in task.parallel_range(Yp.shape[0]):
        task.launch({leaf}, Yp[{i}, 0], Xp[{i}, 0])
"""
    return RandomLogic(text, (Input(X, (height, width), dtype),), kind="windows")
