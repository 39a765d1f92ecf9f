"""Random logic files of tasks inside tasks: sums and states that loops carry from step to step."""

from __future__ import annotations

from dataclasses import dataclass

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, FLOATS, HEAD, PRODUCTS, Input, RandomLogic

_LEVELS = ("only", "tiles", "chunks")
"""The kinds of tasks between the entry and the innermost loop.

They launch the next task only, launch it for tiles of the result, or for long parts of the sum.
"""


_GRAM_LEAVES = """@task.define(leaf=True)
def {step}({G}, {given}):
    task.call_primitive("gemm", {G}, {operands})


@task.define(leaf=True)
def {finish}({G}, acc):
    {G}[:, :] = acc


"""


@dataclass(frozen=True)
class _Sum:
    """Where a product's sum begins among its tasks, and what it is of."""

    levels: tuple[str, ...]
    """The kinds of the tasks from the entry inwards, without the innermost loop's."""
    begins: int
    """The number of the level whose task fills the result with zeros."""
    total: str
    """The element type of the sum."""
    own: bool
    """Whether the sum is a temporary of that level, stored by a leaf, not the caller's result."""
    one: bool
    """Whether a single operand is passed on, of which both factors are views."""
    by_rows: bool
    """Whether a single operand is summed along its rows."""


def grams(c: Choices) -> RandomLogic:
    """Return products of a tensor with itself, summed below up to three levels of tasks.

    Sums begin at any level that sees all of a sum: as the caller's result or a temporary, by a
    fill beside the loop. So they pass through as many memories as a mapping has for the tasks.
    """
    n, (dtype, total) = Names(c), c.of(PRODUCTS)
    left, right = c.of(((".T", ""), ("", ".T"), ("", ""), (".T", ".T")))
    M, N = c.of(EXTENTS), c.of(EXTENTS)
    shape = (M, N) if left != right else (N, N)
    one = left != right and c.chance(50)
    # A tile of the result takes rows of one factor and columns of the other: two operands.
    levels = tuple(c.of(_LEVELS[:: 2 if one else 1]) for _ in range(c.between(0, 3)))
    first = next((at for at, level in enumerate(levels) if level == "chunks"), len(levels))
    begins, own = c.between(0, first), c.chance(35)
    names = n.of("G", "X", "step", "finish", "whole")
    G, X, *_, entry = names.values()
    operands = f"{X}{left}, {X}{right}"
    text = HEAD + _GRAM_LEAVES.format(
        **names, given=X if one else "L, R", operands=operands if one else "L, R"
    )
    tasks, work = _tasks(n, _Sum(levels, begins, total, own, one, bool(left)))
    head = [] if one else [f"L, R = {operands}"]
    if "tiles" not in levels or c.chance(50):  # some machines refuse a whole without units
        work = ["for i in task.parallel_range(1):", *(f"    {line}" for line in work)]
    lines = "\n    ".join((*head, *work))
    dims = "N" if left == right else "M"
    side = "N" if left == right or left else "M"
    text += f"""{tasks}@task.define
def {entry}({G}: task.Tensor["{side}", "{side}", task.{total}], {X}: task.Tensor["{dims}", "N"]):
    {lines}
"""
    return RandomLogic(text, (Input(X, shape, dtype),), kind="grams")


def _tasks(n: Names, plan: _Sum) -> tuple[str, list[str]]:
    """Return the text of the tasks between the leaf and the entry, and the entry's lines."""
    G, X, levels = n["G"], n["X"], plan.levels
    text, below, work = "", n["step"], list[str]()
    for at in range(len(levels), -1, -1):
        if work:  # of the level before, which the entry does not write itself
            below, inside = n[f"level{at}"], "\n    ".join(work)
            given = X if plan.one else "L, R"
            text += f"@task.define\ndef {below}({G}, {given}):\n    {inside}\n\n\n"
        kind = "sum" if at == len(levels) else levels[at]
        cut = _cut_one(X, kind, plan.by_rows) if plan.one else _cut_two(kind)
        target = "acc" if plan.own and at == plan.begins else G
        work = _level(kind, below, target, cut)
        if at == plan.begins and plan.own:
            work = [f"acc = task.zeros({G}.shape, task.{plan.total}, name='acc')", *work]
            work += [f"task.launch({n['finish']}, {G}, acc)"]
        elif at == plan.begins:
            work = [f"task.fill({G}, 0)", *work]
    return text, work


def _cut_one(x: str, kind: str, by_rows: bool) -> tuple[list[str], str]:
    """Return how one operand is cut along the sum, and the part that step k takes."""
    if kind == "only":
        return [], x
    size = "task.tunable('block_K')" if kind == "sum" else "48"
    shape = f"({size}, {x}.shape[1])" if by_rows else f"({x}.shape[0], {size})"
    return [f"Xp = task.partition({x}, shape={shape})"], "Xp[k, 0]" if by_rows else "Xp[0, k]"


def _cut_two(kind: str) -> tuple[list[str], str]:
    """Return the same for two operands, or their cuts across the sum for tiles of the result."""
    if kind == "only":
        return [], "L, R"
    if kind == "tiles":
        m, n_ = "task.tunable('block_M')", "task.tunable('block_N')"
        shapes, parts = (f"({m}, L.shape[1])", f"(R.shape[0], {n_})"), "Lp[i, 0], Rp[0, j]"
    else:
        size = "task.tunable('block_K')" if kind == "sum" else "48"
        shapes, parts = (f"(L.shape[0], {size})", f"({size}, R.shape[1])"), "Lp[0, k], Rp[k, 0]"
    cuts = [f"{x}p = task.partition({x}, shape={s})" for x, s in zip("LR", shapes, strict=True)]
    return cuts, parts


def _level(kind: str, below: str, target: str, cut: tuple[list[str], str]) -> list[str]:
    """Return the lines of a task that launches `below`."""
    cuts, parts = cut
    if kind == "only":
        return [f"task.launch({below}, {target}, {parts})"]
    if kind == "tiles":
        tile = "(task.tunable('block_M'), task.tunable('block_N'))"
        return [
            *cuts,
            f"Gp = task.partition({target}, shape={tile})",
            "for i, j in task.parallel_range(Gp.shape):",
            f"    task.launch({below}, Gp[i, j], {parts})",
        ]
    extent = f"{parts[:2]}.shape[{0 if parts.startswith('Xp[k') else 1}]"
    loop = f"for k in task.sequential_range({extent}):"
    return [*cuts, loop, f"    task.launch({below}, {target}, {parts})"]


_FOLDS = (
    ("0.0", "task.maximum({s}, {x})"), ("0.0", "{s} + {x}"), ("1.0", "{s} * 0.5 + {x}"),
    ("0.0", "task.minimum({s}, {x})"),
)  # fmt: skip


_SCANS = """@task.define(leaf=True)
def {change}({s}, {X}):
    {s}[:, :] = {changed}


@task.define(leaf=True)
def {tell}({Y}, {s}):
    {Y}[:, :] = {told}


@task.define
def {walk}({Y}, {Z}, {X}):
    {s} = {state}
    task.fill({s}, {start})
    for e in task.sequential_range({X}.shape[0]):
        {steps}
    {end}


@task.define
def {whole}(
    {Y}: task.Tensor["E", "M", "N"],
    {Z}: task.Tensor["M", "N", task.{wide}],
    {X}: task.Tensor["E", "M", "N"],
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Zp = task.partition({Z}, shape=tile)
    Yp, Xp = (task.partition(t, shape=(t.shape[0], *tile)) for t in ({Y}, {X}))
    for i, j in task.parallel_range(Zp.shape):
        task.launch({walk}, Yp[0, i, j], Zp[i, j], Xp[0, i, j])
"""


def scans(c: Choices) -> RandomLogic:
    """Return states of a tile's shape that each step of a loop reads, changes, and outputs.

    The outputs are all states and, besides, the last one.
    """
    n, dtype = Names(c), c.of(FLOATS)
    E, M, N = c.between(1, 5), c.of(EXTENTS), c.of(EXTENTS)
    start, fold = c.of(_FOLDS)
    names = n.of("Y", "Z", "X", "s", "change", "tell", "walk", "whole")
    Y, Z, X, s, change, tell, *_ = names.values()
    changed = fold.format(s=s, x=f"task.tanh({expression(c, ExpressionParts([X]), 1)})")
    # A state that is the caller's tensor needs no output of its own after the loop.
    given, late = c.chance(50), c.chance(50)
    output = f"task.launch({tell}, {Y}[e], {s})"
    update = f"task.launch({change}, {s}, {X}[e])"
    text = HEAD + _SCANS.format(
        **names, start=start, changed=changed, wide=_wide(dtype),
        told=expression(c, ExpressionParts([s]), 1),
        state=Z if given else f"task.empty({Z}.shape, task.{_wide(dtype)}, name='{s}')",
        steps="\n        ".join((output, update) if late else (update, output)),
        end="pass" if given else f"task.launch({tell}, {Z}, {s})",
    )  # fmt: skip
    return RandomLogic(text, (Input(X, (E, M, N), dtype),), kind="scans")


def _wide(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


_STATISTICS = """@task.define(leaf=True)
def {gather}({m}, {s}, {X}):
    {m}[:] = task.maximum({m}, task.max({X}, axis=1))
    {s}[:] = {s} * 0.5 + task.sum({value}, axis=1)


@task.define(leaf=True)
def {use}({Y}, {X}, {m}, {s}):
    {Y}[:, :] = task.tanh({used})


@task.define(leaf=True)
def {again}({Z}, {Y}):
    {Z}[:] = task.{reduction}({Y}, axis=1)


{inner}@task.define
def {rows}({Y}, {X}):
    {m} = task.full({X}.shape[:1], -1.0, task.{wide}, name="{m}")
    {s} = task.zeros({X}.shape[:1], task.{wide}, name="{s}")
    {first}
    part = ({X}.shape[0], task.tunable("block_N"))
    Yp, Xs = task.partition({Y}, shape=part), task.partition({X}, shape=part)
    for j in task.sequential_range(Yp.shape[1]):
        task.launch({use}, Yp[0, j], Xs[0, j], {m}, {s})


@task.define
def {whole}({Y}: task.Tensor["M", "N"], {Z}: task.Tensor["M"], {X}: task.Tensor["M", "N"]):
    height = task.tunable("block_rows", 8)
    Yp, Xp = (task.partition(t, shape=(height, t.shape[1])) for t in ({Y}, {X}))
    Zp = task.partition({Z}, shape=(height,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch({rows}, Yp[i, 0], Xp[i, 0])
        task.launch({again}, Zp[i], Yp[i, 0])
"""
_FIRST_PASS = """Xp = task.partition({X}, shape=({X}.shape[0], task.tunable("block_N")))
    for j in task.sequential_range(Xp.shape[1]):
        task.launch({gather}, {m}, {s}, Xp[0, j])"""


def statistics(c: Choices) -> RandomLogic:
    """Return statistics of rows, part by part, then a second pass over the same rows.

    A state of rows is read and changed by every step; the first output is made from it, the second
    from the first.
    """
    n, dtype = Names(c), c.of(FLOATS)
    M, N = c.of(EXTENTS), c.of(EXTENTS)
    names = n.of("Y", "Z", "X", "m", "s", "gather", "use", "again", "between", "rows", "whole")
    X, m, s, between = (names[x] for x in ("X", "m", "s", "between"))
    value = expression(c, ExpressionParts([X]), 1)
    value = f"task.tanh({value} - {m}[:, None])" if c.chance(50) else f"task.tanh({value})"
    used = expression(c, ExpressionParts([X], (f"{m}[:, None]", f"{s}[:, None]")), 2)
    nested, cut = c.chance(50), _FIRST_PASS.format(**names)
    text = HEAD + _STATISTICS.format(
        **names, value=value, used=used, wide=_wide(dtype), reduction=c.of(("sum", "max", "min")),
        inner=f"@task.define\ndef {between}({m}, {s}, {X}):\n    {cut}\n\n\n" if nested else "",
        first=f"task.launch({between}, {m}, {s}, {X})" if nested else cut,
    )  # fmt: skip
    return RandomLogic(text, (Input(X, (M, N), dtype),), kind="statistics")


_PAIRS = (
    "{a} * {b}", "abs({a} - {b})", "({a} - {b}) * ({a} - {b})", "task.maximum({a}, {b})",
    "task.where({a} < {b}, 1.0, 0.0)",
)  # fmt: skip


def pairs(c: Choices) -> RandomLogic:
    """Return every element of a vector with every one of another, or of itself."""
    n, dtype = Names(c), c.of(FLOATS)
    M, N = c.of(EXTENTS), c.of(EXTENTS)
    Y, a, b, t = (n[x] for x in ("Y", "a", "b", "t"))
    leaf, entry, same = n["pair"], n["whole"], c.chance(40)
    pair = c.of(_PAIRS).format(a=f"{a}[:, None]", b=f"{b}[None, :]")
    more = expression(c, ExpressionParts([t], (f"{a}[:, None]", f"{b}[None, :]")), 1)
    other = "" if same else f', {b}: task.Tensor["N"]'
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {a}, {b}):
    {t} = task.empty({Y}.shape, name="{t}")
    {t}[:, :] = {pair}
    {Y}[:, :] = {more}


@task.define
def {entry}(
    {Y}: task.Tensor["M", "{"M" if same else "N"}"], {a}: task.Tensor["M"]{other}
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp = task.partition({Y}, shape=tile)
    left = task.partition({a}, shape=tile[:1])
    right = task.partition({a if same else b}, shape=tile[1:])
    for i, j in task.parallel_range(Yp.shape):
        task.launch({leaf}, Yp[i, j], left[i], right[j])
"""
    inputs = (Input(a, (M,), dtype), *(() if same else (Input(b, (N,), dtype),)))
    return RandomLogic(text, inputs, kind="pairs")
