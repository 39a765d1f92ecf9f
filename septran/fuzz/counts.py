"""Random logic files whose loops turn as often as integers say, nested, and not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, HEAD, Input, RandomLogic

_TYPES = ("float32", "float16", "bfloat16")
_COUNTERS = ("int64", "int32", "int16", "uint8", "uint32")
"""Types of counts: as long as any extent here, which is more than int8 has."""
_BLOCKS = (
    "task.cdiv(task.count({n}, most={most}), {step})",
    "task.count({n}, most={most}) // {step}",
    "task.cdiv({most}, {step}) - task.cdiv(task.count({n}, most={most}), {step})",
    "task.least(task.cdiv(task.count({n}, most={most}), {step}), 2)",
    "task.greatest(task.count({n}, most={most}) // {step} - 1, 0)",
)
"""Numbers of blocks of `step` that an element of up to `most` gives, never more than there are."""

_LEAVES = """@task.define(leaf=True)
def {multiply}({acc}, {A}, {B}):
    task.call_primitive("gemm", {acc}, {A}, {B})


@task.define(leaf=True)
def {fold}({total}, {acc}):
    {total}[:, :] = {folded}


@task.define(leaf=True)
def {change}({total}, {Z}):
    {total}[:, :] = {total} * 0.5 + task.tanh({changed})


@task.define(leaf=True)
def {finish}({Y}, {total}):
    {Y}[:, :] = {total}


"""
_FOLDS = ("{t} + {a}", "{t} * 0.5 + {a}", "task.maximum({t}, {a})", "task.tanh({a} * 0.1) - {t}")
_ENTRY = """@task.define
def {block}({Y}, {X}, {W}, {Z}, {outer}, {inner}, {by}):
    {work}


@task.define
def {whole}(
    {Y}: task.Tensor["G", "M", "N"],
    {X}: task.Tensor["G", "E", "M", "K"],
    {W}: task.Tensor["P", "K", "N"],
    {Z}: task.Tensor["P", "M", "N"],
    {outer}: task.Tensor["G"],
    {inner}: task.Tensor["G", "E"],
    {by}: task.Tensor["G", "E"],
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Zp = task.partition({Z}, shape=({Z}.shape[0], *tile))
    Wp = task.partition({W}, shape=(*{W}.shape[:2], tile[1]))
    for g in task.parallel_range({Y}.shape[0]):
        Yp = task.partition({Y}[g], shape=tile)
        Xp = task.partition({X}[g], shape=({X}.shape[1], tile[0], {X}.shape[3]))
        for i, j in task.parallel_range(Yp.shape):
            task.launch(
                {block}, Yp[i, j], Xp[0, i, 0], Wp[0, 0, j], Zp[0, i, j], {outer}[g : g + 1],
                {inner}[g], {by}[g],
            )
"""


@dataclass(frozen=True)
class _Nest:
    """What a nest of a counted loop and the loop around it is."""

    outer: str
    """What is around: nothing, a loop, one as often as a count says, or a condition."""
    blocks: str
    """The number of blocks of the inner sum."""
    held: bool
    """Whether the inner sum goes on from one iteration of the outer loop to the next."""
    gathered: bool
    """Whether the matrix of an iteration is chosen by an integer, too."""
    product: bool
    """Whether the inner loop multiplies; else it changes the total itself."""
    after: bool
    """Whether a loop that always turns comes after the nest."""


def counts(c: Choices) -> RandomLogic:
    """Products, and changes of a state, in loops whose trips are elements of tensors."""
    n, dtype = Names(c), c.of(_TYPES)
    nest = _Nest(
        c.of(("none", "order", "count", "when")), c.of(_BLOCKS), c.chance(50), c.chance(40),
        not c.chance(30), c.chance(40),
    )  # fmt: skip
    names = n.of(
        "Y", "X", "W", "Z", "outer", "inner", "by", "acc", "A", "B", "total", "multiply", "fold",
        "change", "finish", "block", "whole",
    )  # fmt: skip
    rows, columns, depth = c.of(EXTENTS), c.of(EXTENTS), c.of((*EXTENTS, 192, 200))
    groups, several, pages = c.between(1, 3), c.between(1, 4), c.between(1, 4)
    total, acc = names["total"], names["acc"]
    text = HEAD + _LEAVES.format(
        **names, folded=c.of(_FOLDS).format(t=total, a=acc),
        changed=expression(c, ExpressionParts((names["Z"],)), 1),
    )  # fmt: skip
    text += _ENTRY.format(**names, work="\n    ".join(_work(names, nest)))
    counter = c.of(_COUNTERS)
    most = (several if nest.outer == "count" else 1) + 1
    inputs = (
        Input(names["X"], (groups, several, rows, depth), dtype),
        Input(names["W"], (pages, depth, columns), dtype),
        Input(names["Z"], (pages, rows, columns), dtype),
        Input(names["outer"], (groups,), counter, most),
        Input(names["inner"], (groups, several), c.of(_COUNTERS), depth + 1),
        Input(names["by"], (groups, several), "int32", pages),
    )
    return RandomLogic(text, inputs, kind="counts")


def _work(names: Mapping[str, str], nest: _Nest) -> list[str]:
    """Return the lines of a block's task."""
    Y, X, Z, total, acc = (names[x] for x in ("Y", "X", "Z", "total", "acc"))
    start = f"{acc} = task.zeros({Y}.shape, task.float32, name='{acc}')"
    fold = f"task.launch({names['fold']}, {total}, {acc})"
    apart = nest.product and not nest.held
    most = f"task.count({names['outer']}[0], most={{}})"
    loop = {
        "none": "",
        "order": f"for e in task.sequential_range({X}.shape[0]):",
        "count": f"for e in task.sequential_range({most.format(f'{X}.shape[0]')}):",
        "when": f"with task.when({names['outer']}[0]):",
    }[nest.outer]
    lines = [f"{total} = task.zeros({Y}.shape, task.float32, name='{total}')"]
    lines += ["deep = task.tunable('block_K')"]
    lines += [start] if nest.product and nest.held else []
    inner = (
        [start] * apart
        + _inner(names, nest, "e" if loop.startswith("for") else "0")
        + [fold] * apart
    )
    lines += [loop, *(f"    {line}" for line in inner)] if loop else inner
    lines += [fold] if nest.product and nest.held else []
    if nest.after:
        lines.append(f"for p in task.sequential_range({Z}.shape[0]):")
        lines.append(f"    task.launch({names['change']}, {total}, {Z}[p])")
    return [*lines, f"task.launch({names['finish']}, {Y}, {total})"]


def _inner(names: Mapping[str, str], nest: _Nest, e: str) -> list[str]:
    """Return the counted loop of one iteration of the outer loop."""
    A, B, X, W, Z = (names[x] for x in ("A", "B", "X", "W", "Z"))
    by = f"{names['by']}[{e}]" if nest.gathered else "0"
    element = f"{names['inner']}[{e}]"
    most, step = f"{X}.shape[2]", "deep"
    blocks = nest.blocks.format(n=element, most=most, step=step)
    if not nest.product:
        page = f"{Z}[{by}]"
        return [
            f"for k in task.sequential_range({blocks}):",
            f"    task.launch({names['change']}, {names['total']}, {page})",
        ]
    return [
        f"{A} = task.partition({X}[{e}], shape=({X}.shape[1], deep))",
        f"{B} = task.partition({W}[{by}], shape=(deep, {W}.shape[2]))",
        f"for k in task.sequential_range({blocks}):",
        f"    task.launch({names['multiply']}, {names['acc']}, {A}[0, k], {B}[k, 0])",
    ]
