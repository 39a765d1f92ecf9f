"""Random logic files whose operands are rows, columns and pages that integers choose."""

from __future__ import annotations

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, FLOATS, HEAD, INTEGERS, Input, RandomLogic

_TYPES = ("float32", "float16", "bfloat16")
_PAGES = (1, 2, 3, 5, 8, 16, 32)


def gathers(c: Choices) -> RandomLogic:
    """Products of chosen rows with chosen matrices, or expressions of what is chosen."""
    return c.of((_expressions, _products, _paged))(c)


def _index(c: Choices) -> str:
    return c.of(INTEGERS)


def _expressions(c: Choices) -> RandomLogic:
    """Tiles of gathered rows, columns or both, and rows that a leaf chooses of its own tile."""
    n, dtype = Names(c), c.of(FLOATS)
    rows, columns, height, width = (c.of(EXTENTS) for _ in range(4))
    Y, X, Z, at, by, own, i, j = (n[x] for x in ("Y", "X", "Z", "at", "by", "own", "i", "j"))
    both, computed = c.chance(50), c.chance(30)
    rows_by, made = (n["made"], _computed(n["made"], by)) if computed else (by, "")
    chosen = f"{X}[{rows_by}][:, {at}]" if both else f"task.gather({X}, {rows_by})"
    seen = height if both else columns
    value = expression(c, ExpressionParts((X, f"{Z}[{own}]")), 2)
    leaf, entry = n["chosen"], n["whole"]
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {X}, {Z}, {own}):
    {Y}[:, :] = task.tanh({value})


@task.define
def {entry}(
    {Y}: task.Tensor["T", {'"U"' if both else '"N"'}],
    {X}: task.Tensor["M", "N"],
    {Z}: task.Tensor["V", {'"U"' if both else '"N"'}],
    {by}: task.Tensor["T"],
    {at}: task.Tensor["U"],
    {own}: task.Tensor["T"],
):
{made}    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Xp = (task.partition(x, shape=tile) for x in ({Y}, {chosen}))
    Zp = task.partition({Z}, shape=({Z}.shape[0], tile[1]))
    op = task.partition({own}, shape=tile[:1])
    for {i}, {j} in task.parallel_range(Yp.shape):
        task.launch({leaf}, Yp[{i}, {j}], Xp[{i}, {j}], Zp[0, {j}], op[{i}])
"""
    few = c.of(_PAGES)
    inputs = (
        Input(X, (rows, columns), dtype), Input(Z, (few, seen), dtype),
        Input(by, (width,), _index(c), rows), Input(at, (height,), _index(c), columns),
        Input(own, (width,), _index(c), few),
    )  # fmt: skip
    return RandomLogic(text, inputs, kind="gathers")


def _computed(made: str, by: str) -> str:
    """Lines of a task that copy indices, so that the kernel reads those that it has written."""
    return f"""    {made} = task.empty({by}.shape, {by}.dtype, name="{made}")
    task.copy({made}, {by})
"""


_PRODUCTS = """@task.define(leaf=True)
def {tile}({C}, {X}, {W}):
    task.call_primitive("gemm", {C}, {X}, {W})


@task.define(leaf=True)
def store({C}, {acc}):
    {C}[:, :] = {acc}


@task.define
def {block}({C}, {X}, {W}):
    deep = task.tunable("block_K")
    Ap = task.partition({X}, shape=({X}.shape[0], deep))
    Bp = task.partition({W}, shape=(deep, {W}.shape[1]))
    {acc} = task.zeros({C}.shape, task.float32, name="{acc}")
    for {k} in task.sequential_range(Ap.shape[1]):
        task.launch({tile}, {acc}, Ap[0, {k}], Bp[{k}, 0])
    task.launch(store, {C}, {acc})


@task.define
def {whole}(
    {C}: task.Tensor["T", "N"],
    {X}: task.Tensor["M", "K"],
    {W}: task.Tensor[{dims}],
    {by}: task.Tensor["T"],
    {of}: task.Tensor["G"],
):
{computed}    width = task.tunable("block_N")
    Cp = task.partition({C}, shape=({size}, width))
    Ap = task.partition({X}[{rows}], shape=({size}, {X}.shape[1]))
    for {i}, {j} in task.parallel_range(Cp.shape):
        chosen = {W}[{groups}[{i}]]{transpose}
        Wp = task.partition(chosen, shape=(chosen.shape[0], width))
        task.launch({block}, Cp[{i}, {j}], Ap[{i}, 0], Wp[0, {j}])
"""


def _products(c: Choices) -> RandomLogic:
    """Each block of gathered rows times the matrix of its group."""
    n, dtype = Names(c), c.of(_TYPES)
    size, groups, matrices = c.of(_PAGES), c.between(1, 4), c.between(1, 5)
    rows, deep, width = c.of(EXTENTS), c.of(EXTENTS), c.of(EXTENTS)
    names = n.of("C", "X", "W", "of", "by", "i", "j", "k", "tile", "block", "whole", "acc")
    transposed, computed = c.chance(30), c.chance(30)
    used = {"rows": names["by"], "groups": names["of"], "computed": ""}
    if computed:
        mine = {"rows": n["made"], "groups": n["held"]}
        lines = (_computed(mine[k], used[k]) for k in ("rows", "groups"))
        used = mine | {"computed": "".join(lines)}
    text = HEAD + _PRODUCTS.format(
        **names, **used, size=size, transpose=".T" if transposed else "",
        dims='"E", "N", "K"' if transposed else '"E", "K", "N"',
    )  # fmt: skip
    # Rows are gathered in blocks of `size`, each of which is one group's.
    matrix = (width, deep) if transposed else (deep, width)
    inputs = (
        Input(names["X"], (rows, deep), dtype), Input(names["W"], (matrices, *matrix), dtype),
        Input(names["by"], (size * groups,), _index(c), rows),
        Input(names["of"], (groups,), _index(c), matrices),
    )  # fmt: skip
    return RandomLogic(text, inputs, kind="gathers")


_PAGED = """@task.define(leaf=True)
def {tile}({C}, {Q}, {K}):
    task.call_primitive("gemm", {C}, {Q}, {K}.T)


@task.define(leaf=True)
def add({C}, {S}):
    {C}[:, :] = {C} + task.max({S}, axis=1)[:, None]


@task.define
def {one}({C}, {Q}, {K}):
    {S} = task.zeros(({Q}.shape[0], {K}.shape[0]), task.float32, name="{S}")
    task.launch({tile}, {S}, {Q}, {K})
    task.launch(add, {C}, {S})


@task.define
def each({C}, {Q}, {K}, {table}):
    task.fill({C}, 0)
    for {p} in task.sequential_range({table}.shape[0]):
        task.launch({one}, {C}, {Q}, {K}[{table}[{p}]])


@task.define
def {whole}(
    {C}: task.Tensor["B", "M", 1, task.float32],
    {Q}: task.Tensor["B", "M", "D"],
    {K}: task.Tensor["P", "S", "D"],
    {table}: task.Tensor["B", "L"],
):
    for {b} in task.parallel_range({C}.shape[0]):
        task.launch(each, {C}[{b}], {Q}[{b}], {K}, {table}[{b}])
"""


def _paged(c: Choices) -> RandomLogic:
    """Sums over pages in an order that a table says, page by page, in a sequential loop."""
    n, dtype = Names(c), c.of(_TYPES)
    size, pages, used = c.of(_PAGES), c.between(1, 6), c.between(1, 5)
    batch, deep, width = c.between(1, 3), c.of(EXTENTS), c.of(EXTENTS)
    names = n.of("C", "Q", "K", "table", "b", "p", "tile", "whole", "one", "S")
    inputs = (
        Input(names["Q"], (batch, width, deep), dtype),
        Input(names["K"], (pages, size, deep), dtype),
        Input(names["table"], (batch, used), _index(c), pages),
    )
    return RandomLogic(HEAD + _PAGED.format(**names), inputs, kind="gathers")
