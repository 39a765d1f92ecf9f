"""Random logic files whose slices begin and end where integers say."""

from __future__ import annotations

from collections.abc import Mapping

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, HEAD, Input, RandomLogic

_TYPES = ("float32", "float16", "bfloat16")
_LEAVES = """@task.define(leaf=True)
def {multiply}({acc}, {A}, {B}):
    task.call_primitive("gemm", {acc}, {A}, {B})


@task.define(leaf=True)
def {finish}({Y}, {acc}):
    {Y}[:, :] = {finished}


@task.define(leaf=True)
def {reckon}({Y}, {A}, {Z}):
    {Y}[:, :] = task.tanh({reckoned}) + task.{reduction}({A}, axis={axis}, keepdims=True)


@task.define
def {product}({Y}, {A}, {B}):
    deep = task.tunable("block_K")
    {acc} = task.zeros({Y}.shape, task.float32, name="{acc}")
    Ap = task.partition({A}, shape=({A}.shape[0], deep))
    Bp = task.partition({B}, shape=(deep, {B}.shape[1]))
    for k in task.sequential_range(Ap.shape[1]):
        task.launch({multiply}, {acc}, Ap[0, k], Bp[k, 0])
    task.launch({finish}, {Y}, {acc})


"""
_ROWS = """@task.define
def {block}({Y}, {X}, {W}, {Z}, {ends}, *, most: task.static):
    task.fill({Y}, 0)
    first = task.start({Y}, 0)
    for e in task.sequential_range({W}.shape[0]):
        low, high = (
            task.least(task.greatest(task.count({ends}[e, n], most=most) - first, 0), {Y}.shape[0])
            for n in (0, 1)
        )
        {work}


@task.define
def {whole}(
    {Y}: task.Tensor["M", "N"],
    {X}: task.Tensor["M", "{K}"],
    {W}: task.Tensor["E", "{K}", "N"],
    {Z}: task.Tensor["M", "N"],
    {ends}: task.Tensor["E", 2],
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Zp = (task.partition(x, shape=tile) for x in ({Y}, {Z}))
    Xp = task.partition({X}, shape={tile_x})
    Wp = task.partition({W}, shape=(*{W}.shape[:2], tile[1]))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(
            {block}, Yp[i, j], Xp[i, {at_x}], Wp[0, 0, j], Zp[i, j], {ends}, most={X}.shape[0]
        )
"""
_SUMS = """@task.define
def {block}({Y}, {A}, {B}, {ends}):
    most = {A}.shape[1]
    low, high = {low}, task.count({ends}[1], most=most)
    task.launch({product}, {Y}, {A}[:, low:high], {B}[low:high])


@task.define
def {whole}(
    {Y}: task.Tensor["E", "M", "N"],
    {X}: task.Tensor["M", "K"],
    {W}: task.Tensor["K", "N"],
    {ends}: task.Tensor["E", 2],
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp = task.partition({Y}, shape=(1, *tile))
    Xp = task.partition({X}, shape=(tile[0], {X}.shape[1]))
    Wp = task.partition({W}, shape=({W}.shape[0], tile[1]))
    for e, i, j in task.parallel_range(Yp.shape):
        task.launch({block}, Yp[e, i, j][0], Xp[i, 0], Wp[0, j], {ends}[e])
"""
_FINISHES = ("{a}", "task.relu({a})", "task.tanh({a} * 0.1)")


def sections(c: Choices) -> RandomLogic:
    """Sections of rows, each with its own work, or products that sum over one section each."""
    n, dtype = Names(c), c.of(_TYPES)
    names = n.of(
        "Y", "X", "W", "Z", "ends", "A", "B", "acc", "multiply", "finish", "reckon", "product",
        "block", "whole",
    )  # fmt: skip
    A, Z, acc = names["A"], names["Z"], names["acc"]
    text = HEAD + _LEAVES.format(
        **names, finished=c.of(_FINISHES).format(a=acc),
        reckoned=expression(c, ExpressionParts((A, Z)), 1), reduction=c.of(("max", "sum", "min")),
        axis=c.of((1, 0)),
    )  # fmt: skip
    rows, columns, depth = c.of(EXTENTS), c.of(EXTENTS), c.of((*EXTENTS, 192))
    several = c.between(1, 4)
    counter = c.of(("int64", "int32", "int16", "uint8"))
    body = _by_rows if c.chance(60) else _by_sums
    text, most, shapes = body(c, names, text, (rows, columns, depth, several))
    inputs = tuple(Input(names[x], shape, dtype) for x, shape in shapes.items())
    # Not in order: a section may be empty, and may lie over another one.
    ends = Input(names["ends"], (several, 2), counter, most + 1)
    return RandomLogic(text, (*inputs, ends), kind="sections")


Sizes = tuple[int, int, int, int]
"""Rows, columns, the summed extent, and how many sections there are."""
Body = tuple[str, int, dict[str, tuple[int, ...]]]
"""The text, the greatest end of a section, and the inputs' shapes by role."""


def _by_rows(c: Choices, names: Mapping[str, str], text: str, sizes: Sizes) -> Body:
    rows, columns, depth, several = sizes
    Y, X, W, Z = (names[x] for x in ("Y", "X", "W", "Z"))
    multiplied, conditional = c.chance(60), c.chance(50)
    work = (
        f"task.launch({names['product']}, {Y}[low:high], {X}[low:high], {W}[e])"
        if multiplied
        else f"task.launch({names['reckon']}, {Y}[low:high], {X}[low:high], {Z}[low:high])"
    )
    # An extreme of no rows is none: such a leaf is not to be run.
    if conditional or not multiplied:
        work = f"with task.when(high - low):\n            {work}"
    text += _ROWS.format(
        **names, work=work, K="K" if multiplied else "N",
        tile_x=f"(tile[0], {X}.shape[1])" if multiplied else "tile",
        at_x="0" if multiplied else "j",
    )  # fmt: skip
    deep = depth if multiplied else columns
    shapes = {"X": (rows, deep), "W": (several, deep, columns), "Z": (rows, columns)}
    return text, rows, shapes


def _by_sums(c: Choices, names: Mapping[str, str], text: str, sizes: Sizes) -> Body:
    rows, columns, depth, _ = sizes
    low = c.of(("0", f"task.count({names['ends']}[0], most=most)"))
    text += _SUMS.format(**names, low=low)
    return text, depth, {"X": (rows, depth), "W": (depth, columns)}
