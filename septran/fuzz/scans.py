"""Random logic files with scans, and with parts that parallel iterations add up."""

from __future__ import annotations

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, FLOATS, HEAD, INTEGERS, Input, RandomLogic

_BOUNDED = "task.tanh({})"


def prefixes(c: Choices) -> RandomLogic:
    """Return scans of an expression, and an expression of the scan and the tile."""
    n, integers = Names(c), c.chance(30)
    dtype = c.of(INTEGERS if integers else FLOATS)
    height, width = c.of(EXTENTS), c.of(EXTENTS)
    Y, X, W, leaf, entry, i = (n[x] for x in ("Y", "X", "W", "leaf", "whole", "i"))
    axis, function = c.between(0, 1), c.of(("sum", "prod", "max", "min"))
    value = expression(c, ExpressionParts((X, W), (), integers), c.between(0, 1))
    if not integers:  # a product of numbers around 1 neither overflows nor vanishes
        value = f"1 + 0.1 * {_BOUNDED.format(value)}" if function == "prod" else value
    flags = f"axis={axis}, reverse={c.chance(40)}, exclusive={c.chance(40)}"
    scan = f'task.scan("{function}", {value}, {flags})'
    end = c.of(("{}", "{} + {X}", "task.maximum({}, {X})", "{} * 2 - {X}")).format(scan, X=X)
    tile = "(size, x.shape[1])" if axis else "(x.shape[0], size)"
    at = f"{i}, 0" if axis else f"0, {i}"
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {X}, {W}):
    {Y}[:, :] = {end}


@task.define
def {entry}(
    {Y}: task.Tensor["M", "N"],
    {X}: task.Tensor["M", "N"],
    {W}: task.Tensor["M", "N"],
):
    size = task.tunable("{c.of(("block_rows", "block_M", "rows_of_mine"))}", 8)
    Yp, Xp, Wp = (task.partition(x, shape={tile}) for x in ({Y}, {X}, {W}))
    for {i} in task.parallel_range(Yp.shape[{1 - axis}]):
        task.launch({leaf}, Yp[{at}], Xp[{at}], Wp[{at}])
"""
    inputs = (Input(X, (height, width), dtype), Input(W, (height, width), dtype))
    return RandomLogic(text, inputs, kind="prefixes")


_FLOAT_JOINS = {
    "a * c, c * b + d": ("0.9 * task.tanh({X})", "{V}", "1, 0"),
    "a + c, task.maximum(b + c, d)": ("task.tanh({X})", "{V}", "0, -9999"),
    "task.maximum(a, c), b * task.exp(a - task.maximum(a, c)) "
    "+ d * task.exp(c - task.maximum(a, c))": ("task.tanh({X})", "1 + task.tanh({V})", "-9999, 0"),
}
"""Functions that join parts (a, b) and (c, d), what of a tile and an expression is joined, and the
identity."""
_JOINS = {
    "task.maximum(a, c), task.where(c > 0, d, b + d)": ("task.where({X} > 0, 1, 0)", "{V}", "0, 0"),
    "task.where(a >= c, a, c), task.where(a >= c, b, d)": ("{X}", "{W}", "-9999, 0"),
    "task.minimum(a, c), d": ("{X}", "{V}", "9999, 0"),
}


def joins(c: Choices) -> RandomLogic:
    """Return scans of pairs by a function of the logic, tile by tile or of whole rows."""
    n, integers = Names(c), c.chance(30)
    dtype = c.of(INTEGERS if integers else FLOATS)
    shape = (c.of((1, 2, 3)), c.of(EXTENTS), c.of(EXTENTS))
    Y, X, W, leaf, entry, i, j, f = (
        n[x] for x in ("Y", "X", "W", "leaf", "whole", "i", "j", "join")
    )
    join, (first, second, identity) = c.of(
        tuple((_JOINS | ({} if integers else _FLOAT_JOINS)).items())
    )
    value = expression(c, ExpressionParts((X, W), (), integers), c.between(0, 1))
    value = value if integers else _BOUNDED.format(value)
    pair = ", ".join(e.format(X=X, W=W, V=value) for e in (first, second))
    axis, exclusive = c.between(-2, 1), c.chance(40)
    flags = f"axis={axis}, reverse={c.chance(40)}, exclusive={exclusive}"
    flags += f", identity=({identity})" if exclusive else ""
    end = c.of(("{b}", "{a} + {b}", "{b} * 2 - {X}", "task.maximum({a}, {b})"))
    across = axis % 2 == 0
    tile = "(1, x.shape[1], size)" if across else "(1, size, x.shape[2])"
    at = f"{i}, 0, {j}" if across else f"{i}, {j}, 0"
    text = f"""{HEAD}def {f}(left, right):
    (a, b), (c, d) = left, right
    return {join}


@task.define(leaf=True)
def {leaf}({Y}, {X}, {W}):
    low, high = task.scan({f}, ({pair}), {flags})
    {Y}[:, :] = {end.format(a="low", b="high", X=X)}


@task.define
def {entry}(
    {Y}: task.Tensor["B", "M", "N"],
    {X}: task.Tensor["B", "M", "N"],
    {W}: task.Tensor["B", "M", "N"],
):
    size = task.tunable("{c.of(("block_rows", "block_M", "rows_of_mine"))}", 8)
    Yp, Xp, Wp = (task.partition(x, shape={tile}) for x in ({Y}, {X}, {W}))
    for {i}, {j} in task.parallel_range(Yp.shape[0], Yp.shape[{2 if across else 1}]):
        task.launch({leaf}, Yp[{at}][0], Xp[{at}][0], Wp[{at}][0])
"""
    inputs = (Input(X, shape, dtype), Input(W, shape, dtype))
    return RandomLogic(text, inputs, kind="joins")


def parts(c: Choices) -> RandomLogic:
    """Return sums or extremes of rows, of which parallel iterations make the parts."""
    n = Names(c)
    dtype, function = c.of(FLOATS), c.of(("sum", "max", "min"))
    height, width = c.of(EXTENTS), c.of(EXTENTS)
    Y, X, W, part, leaf, entry, i = (n[x] for x in ("Y", "X", "W", "part", "leaf", "whole", "i"))
    k, join = n["k"], n["join"]
    value = expression(c, ExpressionParts((X, W)), 1)
    nested, tiled, twice = c.chance(40), c.chance(50), c.chance(25)
    rows, turns = c.of((1, 2, 5, 8, 16)), c.between(2, 3)
    choose = f"{join}[j]" if tiled else Y
    columns = c.of((16, 24, 64)) if tiled else width
    inner = f"for {k} in task.sequential_range({turns}):" if nested else f"for {k} in (0,):"
    step = rows * turns if nested else rows
    begin = f"{step} * {i} + {rows} * {k}"
    again = f'\n                task.reduce_into({choose}, {part}, "{function}")' * twice
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({part}, {X}, {W}):
    {part}[:] = task.{function}({_BOUNDED.format(value)}, axis=0)


@task.define
def {entry}(
    {Y}: task.Out["N", task.{c.of((dtype, "float32"))}],
    {X}: task.In["M", "N"],
    {W}: task.In["M", "N"],
):
    task.fill({Y}, {c.between(-2, 2)})
    {join} = task.partition({Y}, shape=({columns},))
    for {i} in task.parallel_range(task.cdiv({X}.shape[0], {step})):
        {inner}
            for j in task.parallel_range({join}.shape[0]):
                rows = slice({begin}, {begin} + {rows})
                Xp = task.partition({X}[rows], shape=({rows}, {columns}))
                Wp = task.partition({W}[rows], shape=({rows}, {columns}))
                {part} = task.empty({choose}.shape, task.float32, name="{part}")
                task.launch({leaf}, {part}, Xp[0, j], Wp[0, j])
                task.reduce_into({choose}, {part}, "{function}"){again}
"""
    inputs = (Input(X, (height, width), dtype), Input(W, (height, width), dtype))
    return RandomLogic(text, inputs, kind="parts")


def scatters(c: Choices) -> RandomLogic:
    """Return rows joined to those that integers choose, in one order or in parallel parts."""
    n = Names(c)
    dtype, function = c.of(FLOATS), c.of(("sum", "max", "min"))
    rows, width, few = c.of(EXTENTS), c.of(EXTENTS), c.of((1, 2, 3, 5, 8, 16, 32))
    W, G, index, entry, t, j = (n[x] for x in ("W", "G", "index", "whole", "t", "j"))
    p, part, leaf = n["p"], n["part"], n["leaf"]
    parts, columns = c.of((1, 1, 2, 3)), c.of((16, 24, 64))
    value = expression(c, ExpressionParts((G,)), 1)
    computed = c.chance(50)
    made = f"""{part} = task.empty(Gp[at, {j}][0].shape, task.float32, name="{part}")
                task.launch({leaf}, {part}, Gp[at, {j}][0])
                """ if computed else ""  # fmt: skip
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({part}, {G}):
    {part}[:] = {_BOUNDED.format(value)}


@task.define
def {entry}(
    {W}: task.Out[{few}, "D", task.float32],
    {G}: task.In["T", "D"],
    {index}: task.In["T"],
):
    task.fill({W}, {c.between(-2, 2)})
    many, count = task.cdiv({G}.shape[0], {parts}), {G}.shape[0]
    Wp = task.partition({W}, shape=({few}, {columns}))
    Gp = task.partition({G}, shape=(1, {columns}))
    for {p} in task.parallel_range({parts}):
        for {j} in task.parallel_range(Wp.shape[1]):
            turns = task.greatest(0, task.least(many, count - many * {p}))
            for {t} in task.sequential_range(turns):
                at = many * {p} + {t}
                {made}task.reduce_into(
                    Wp[0, {j}][{index}[at]], {part if computed else f"Gp[at, {j}][0]"}, "{function}"
                )
"""
    inputs = (
        Input(G, (rows, width), dtype), Input(index, (rows,), c.of(INTEGERS), few),
    )  # fmt: skip
    return RandomLogic(text, inputs, kind="scatters")
