"""Random logic files with products in two or three nested loops, and what surrounds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.fuzz.choices import Choices
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, HEAD, Input, RandomLogic

_TYPES = ("float16", "float32", "bfloat16")
_FOLDS = ("{t} + {a}", "{t} * 0.5 + {a}", "task.maximum({t}, {a})")
"""Ways to take a sum into the total, of which the second depends on the order of the steps."""

_LEAVES = """@task.define(leaf=True)
def {multiply}({acc}, {A}, {B}):
    task.call_primitive("gemm", {acc}, {A}, {B})


@task.define(leaf=True)
def {fold}({total}, {acc}):
    {total}[:, :] = {folded}


@task.define(leaf=True)
def {make}({T}, {X}):
    {T}[:, :] = task.tanh({X}).astype({T}.dtype)


@task.define(leaf=True)
def {bias}({total}, {Z}):
    {total}[:, :] = {total} + task.tanh({Z})


@task.define(leaf=True)
def {finish}({Y}, {total}):
    {Y}[:, :] = {total}.astype({Y}.dtype)


"""
_ENTRY = """@task.define
def {block}({Y}, {X}, {W}, {Z}, {V}):
    {work}


@task.define
def {whole}(
    {Y}: task.Tensor["M", "N"],
    {X}: task.Tensor[{dims}],
    {W}: task.Tensor["E", "F", "K", "N"],
    {Z}: task.Tensor["E", "M", "N"],
    {V}: task.Tensor["E", "K", "N"],
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    rows = {seen}
    Yp = task.partition({Y}, shape=tile)
    Xp = task.partition(rows, shape=(*rows.shape[:2], tile[0], rows.shape[3]))
    Wp = task.partition({W}, shape=(*{W}.shape[:3], tile[1]))
    Zp = task.partition({Z}, shape=({Z}.shape[0], *tile))
    Vp = task.partition({V}, shape=(*{V}.shape[:2], tile[1]))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(
            {block}, Yp[i, j], Xp[0, 0, i, 0], Wp[0, 0, 0, j], Zp[0, i, j], Vp[0, 0, j]
        )
"""


@dataclass(frozen=True)
class _Nest:
    """What a nest of loops consists of besides the steps of its innermost product."""

    loops: int
    """How many loops there are: two or three."""
    starts: int
    """How many of them are around the accumulator's beginning, and its end."""
    made: int
    """How many are around the making of the left operand; 0 where it is the input."""
    beside: str
    """The sum that a product of the outer loop adds to: the total, the inner sum, or neither."""
    before: bool
    """Whether a loop goes over the total before the nest."""
    between: bool
    """Whether the outer loop changes the total besides."""
    after: bool
    """Whether a loop with a product comes after the nest."""


def nested_products(c: Choices) -> RandomLogic:
    """Return a total of products in nested loops, whose sums begin and end at several depths."""
    n, dtype = Names(c), c.of(_TYPES)
    loops = c.between(2, 3)
    nest = _Nest(
        loops, c.between(0, loops - 1), c.of((0, 0, 1, loops - 1)), c.of(("", "total", "acc")),
        c.chance(30), c.chance(30), c.chance(30),
    )  # fmt: skip
    names = n.of(
        "Y", "X", "W", "Z", "V", "acc", "A", "B", "T", "total", "multiply", "fold", "make",
        "bias", "finish", "block", "whole",
    )  # fmt: skip
    outer, middle = c.between(1, 4), c.between(1, 3) if loops == 3 else 1
    rows, columns, depth = c.of(EXTENTS), c.of(EXTENTS), c.of((*EXTENTS, 192, 200))
    X, total, acc = names["X"], names["total"], names["acc"]
    shape: tuple[int, ...] = (outer, middle, rows, depth)
    dims, seen = '"E", "F", "M", "K"', X
    if c.chance(20):  # each step of the middle loop sees rows that begin one further down
        shape, dims = (outer, depth, rows + middle - 1), '"E", "K", "R"'
        seen = f"task.window({X}, ({names['W']}.shape[1],)).transpose(0, 3, 2, 1)"
    text = HEAD + _LEAVES.format(**names, folded=c.of(_FOLDS).format(t=total, a=acc))
    text += _ENTRY.format(
        **names, work="\n    ".join(_work(names, nest)), dims=dims, seen=seen
    )  # fmt: skip
    inputs = (
        Input(X, shape, dtype),
        Input(names["W"], (outer, middle, depth, columns), dtype),
        Input(names["Z"], (outer, rows, columns), dtype),
        Input(names["V"], (outer, depth, columns), dtype),
    )
    return RandomLogic(text, inputs, kind="nested products")


def _work(names: Mapping[str, str], nest: _Nest) -> list[str]:
    """Return the lines of a block's task."""
    Y, X, Z, V, total = (names[x] for x in ("Y", "X", "Z", "V", "total"))
    add_bias = f"    task.launch({names['bias']}, {total}, {Z}[e])"
    lines = [f"{total} = task.zeros({Y}.shape, task.float32, name='{total}')"]
    lines.append("deep = task.tunable('block_K')")
    if nest.before:
        lines += [f"for e in task.sequential_range({Z}.shape[0]):", add_bias]
    lines += _level(names, nest, 0)
    if nest.after:
        lines.append(f"for e in task.sequential_range({V}.shape[0]):")
        lines += [f"    {line}" for line in _product(names, total, f"{X}[e, 0]", f"{V}[e]")]
    return [*lines, f"task.launch({names['finish']}, {Y}, {total})"]


def _level(names: Mapping[str, str], nest: _Nest, depth: int) -> list[str]:
    """Return the lines inside of the nest's first `depth` loops."""
    Y, X, W, T, acc, total = (names[x] for x in ("Y", "X", "W", "T", "acc", "total"))
    f = "f" if nest.loops == 3 else "0"
    lines = []
    if depth == nest.starts:
        lines.append(f"{acc} = task.zeros({Y}.shape, task.float32, name='{acc}')")
    if depth and depth == nest.made:
        lines.append(f"{T} = task.empty({X}.shape[2:], {X}.dtype, name='{T}')")
        lines.append(f"task.launch({names['make']}, {T}, {X}[e, {f if depth == 2 else '0'}])")
    if depth == 1:
        if nest.between:
            lines.append(f"task.launch({names['bias']}, {total}, {names['Z']}[e])")
        # The inner sum has begun by now, or does so in the loop inside only.
        target = {"total": total, "acc": acc if nest.starts <= 1 else total}.get(nest.beside)
        if target is not None:
            lines += _product(names, target, f"{X}[e, 0]", f"{names['V']}[e]")
    if depth == nest.loops - 1:
        left = T if nest.made else f"{X}[e, {f}]"
        lines += _product(names, acc, left, f"{W}[e, {f}]")
    else:
        lines.append(f"for {'ef'[depth]} in task.sequential_range({X}.shape[{depth}]):")
        lines += [f"    {line}" for line in _level(names, nest, depth + 1)]
    if depth == nest.starts:
        lines.append(f"task.launch({names['fold']}, {total}, {acc})")
    return lines


def _product(names: Mapping[str, str], target: str, left: str, right: str) -> list[str]:
    """Return a loop over the parts of a product's sum."""
    A, B = names["A"], names["B"]
    return [
        f"{A} = task.partition({left}, shape=({left}.shape[0], deep))",
        f"{B} = task.partition({right}, shape=(deep, {right}.shape[1]))",
        f"for k in task.sequential_range({A}.shape[1]):",
        f"    task.launch({names['multiply']}, {target}, {A}[0, k], {B}[k, 0])",
    ]
