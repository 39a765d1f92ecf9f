"""Random logic files, as source text that a person can read and keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names

EXTENTS = (1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 130)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
HEAD = "from septran import task\n\n\n"


@dataclass(frozen=True)
class Input:
    """A tensor to pass."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    places: int | None = None
    """Of a tensor of indices: each is at least 0 and less than this."""


@dataclass(frozen=True)
class RandomLogic:
    """A logic file with the inputs of a call."""

    text: str
    inputs: tuple[Input, ...]
    static: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""
    """The name of its family, for statistics."""


_ROWS = """@task.define(leaf=True)
def {rows}({Y}, {X}, {W}, {r}, {b}):
    {lines}


@task.define
def {whole}(
    {Y}: task.Tensor["M", "N"],
    {X}: task.Tensor["M", "N"],
    {W}: task.Tensor["M", "N"],
    {r}: task.Tensor["M"],
    {b}: task.Tensor["N"],
):
    height = task.tunable("{tunable}", 8)
    parts = [task.partition(t, shape=(height, t.shape[1])) for t in ({Y}, {X}, {W})]
    rp = task.partition({r}, shape=(height,))
    for {i} in task.parallel_range(parts[0].shape[0]):
        task.launch({rows}, *(p[{i}, 0] for p in parts), rp[{i}], {b})
"""


def rows(c: Choices) -> RandomLogic:
    """Return a leaf of expressions and reductions over rows, with temporaries written in parts."""
    n, dtype = Names(c), c.of(FLOATS[:2])
    height, width = c.of(EXTENTS), c.of(EXTENTS)
    Y, X, W, r, b = n.of("Y", "X", "W", "r", "b").values()
    rows_, columns = [f"{r}[:, None]"], f"{b}[None, :]"
    tiles, body = [X, W], list[str]()
    for number in range(c.between(0, 4)):
        name = n[f"t{number}"]
        body += (
            _reduction(c, name, ExpressionParts(tiles, (*rows_, columns)), X)
            if c.chance(35)
            else _temporary(c, name, ExpressionParts(tiles, (*rows_, columns)), X, width)
        )
        # A reduction gives a value a row, which later expressions broadcast along the columns.
        if "axis=1" in body[-1]:
            rows_.append(f"{name}[:, None]")
        else:
            tiles.append(name)
    # every chain ends in tanh, so that errors of exp do not overflow the bound
    body.append(
        f"{Y}[:, :] = task.tanh({expression(c, ExpressionParts(tiles, (*rows_, columns)), 2)})"
    )
    names = n.of("rows", "whole", "i", "Y", "X", "W", "r", "b")
    tunable = c.of(("block_rows", "block_M", "rows_of_mine"))
    text = HEAD + _ROWS.format(**names, lines="\n    ".join(body), tunable=tunable)
    whole = (height, width)
    inputs = (
        Input(X, whole, dtype), Input(W, whole, dtype), Input(r, whole[:1], dtype),
        Input(b, whole[1:], dtype),
    )  # fmt: skip
    return RandomLogic(text, inputs, kind="rows")


def _reduction(c: Choices, name: str, operands: ExpressionParts, like: str) -> list[str]:
    value = expression(c, operands, 1)
    return [
        f"{name} = task.empty({like}.shape[:1], name='{name}')",
        f"{name}[:] = task.{c.of(('sum', 'max', 'min'))}({value}, axis=1)",
    ]


def _temporary(
    c: Choices, name: str, operands: ExpressionParts, like: str, width: int
) -> list[str]:
    """Return a temporary of a tile's shape, written at once or in two parts of its columns."""
    made = f"{name} = task.empty({like}.shape, name='{name}')"
    if width < 2 or not c.chance(25):
        return [made, f"{name}[:, :] = {expression(c, operands, 2)}"]
    at = c.of((1, width // 2, width - 1))
    tiles = operands.tiles
    left, right = (
        expression(c, ExpressionParts([f"{t}[:, {part}]" for t in tiles]), 1)
        for part in (f":{at}", f"{at}:")
    )
    return [made, f"{name}[:, :{at}] = {left}", f"{name}[:, {at}:] = {right}"]


def elementwise(c: Choices) -> RandomLogic:
    """Return tiles of integers, or of several element types, each element on its own."""
    n, integers = Names(c), c.chance(70)
    kinds = INTEGERS if integers else FLOATS
    dtype = c.of(kinds)
    out = c.of((dtype, c.of(INTEGERS + FLOATS if integers else FLOATS)))
    height, width = c.of(EXTENTS), c.of(EXTENTS)
    Y, X, W = n["Y"], n["X"], n["W"]
    leaf, entry, t, i, j = n["each"], n["whole"], n["t"], n["i"], n["j"]
    positions = (f"task.index({X}, 0)[:, None]", f"task.index({X}, 1)[None, :]")
    operands = ExpressionParts((X, W), positions if integers and dtype == "int64" else (), integers)
    value, more = (
        expression(c, operands, 2),
        expression(c, ExpressionParts((X, W, t), (), integers), 2),
    )
    transposed = c.chance(20)
    target = f"{Y}.T" if transposed else Y
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {X}, {W}):
    {t} = task.empty({X}.shape, {X}.dtype, name="{t}")
    {t}[:, :] = {value}
    {Y}[:, :] = {more}


@task.define
def {entry}(
    {Y}: task.Tensor[{'"N", "M"' if transposed else '"M", "N"'}, task.{out}],
    {X}: task.Tensor["M", "N"],
    {W}: task.Tensor["M", "N"],
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Xp, Wp = (task.partition(x, shape=tile) for x in ({target}, {X}, {W}))
    for {i}, {j} in task.parallel_range(Yp.shape):
        task.launch({leaf}, Yp[{i}, {j}], Xp[{i}, {j}], Wp[{i}, {j}])
"""
    inputs = (Input(X, (height, width), dtype), Input(W, (height, width), dtype))
    return RandomLogic(text, inputs, kind="elementwise")


PRODUCTS = (
    ("float32", "float32"), ("float16", "float32"), ("bfloat16", "float32"), ("float64", "float64"),
    ("int8", "int32"), ("uint8", "int32"),
)  # fmt: skip


_ENDS = ("{acc}", "task.relu({acc})", "{acc} + {b}", "task.tanh({acc} * 0.1)")
_PRODUCTS = """@task.define(leaf=True)
def {multiply}({C}, {A}, {B}):
    task.call_primitive("gemm", {C}, {A}, {B})


@task.define(leaf=True)
def {finish}({C}, acc, {b}):
    {C}[:, :] = {end}


@task.define
def {block}({C}, {A}, {B}, {b}):
    step = task.tunable("block_K")
    acc = task.zeros({C}.shape, task.{total}, name="acc")
    for e in task.sequential_range({A}.shape[0]):
        Ap = task.partition({A}[e], shape=({A}.shape[1], step))
        Bp = task.partition({B}[e], shape=(step, {B}.shape[2]))
        for k in task.sequential_range(Ap.shape[1]):
            task.launch({multiply}, acc, Ap[0, k], Bp[k, 0]){again}
    task.launch({finish}, {C}, acc, {b})


@task.define
def {whole}(
    {C}: task.Tensor["G", "M", "N", task.{out}],
    {A}: task.Tensor["G", "E", {dims_a}],
    {B}: task.Tensor["E", {dims_b}],
    {b}: task.Tensor["N"],
):
    m, n_ = task.tunable("block_M"), task.tunable("block_N")
    right = {B}{transpose_b}
    Bp = task.partition(right, shape=(right.shape[0], right.shape[1], n_))
    bp = task.partition({b}, shape=(n_,))
    for g in task.parallel_range({C}.shape[0]):
        left = {A}[g]{transpose_a}
        Cp = task.partition({C}[g], shape=(m, n_))
        Ap = task.partition(left, shape=(left.shape[0], m, left.shape[2]))
        for i, j in task.parallel_range(Cp.shape):
            task.launch({block}, Cp[i, j], Ap[0, i, 0], Bp[0, 0, j], bp[j])
"""


def products(c: Choices) -> RandomLogic:
    """Return products summed over one or two nested loops, transposed, batched, with an end."""
    n, (dtype, total) = Names(c), c.of(PRODUCTS)
    M, N, K = (c.of(EXTENTS) for _ in range(3))
    E, several = c.between(1, 3), c.between(1, 2)
    trans_a, trans_b, batch = c.chance(30), c.chance(30), c.chance(25)
    _, A, B, b = n.of("C", "A", "B", "b").values()
    end, floats = c.of(_ENDS), dtype not in ("int8", "uint8")
    end = end.format(acc="acc", b=f"{b}[None, :]") if floats else "acc"
    out = c.of((dtype, total)) if floats else total
    names = n.of("multiply", "finish", "block", "whole", "C", "A", "B", "b")
    again = f"\n            task.launch({names['multiply']}, acc, Ap[0, k], Bp[k, 0])"
    swapped = ".transpose(0, 2, 1)"
    text = HEAD + _PRODUCTS.format(
        **names, end=end, total=total, out=out, again=again * (several - 1),
        dims_a='"K", "M"' if trans_a else '"M", "K"', transpose_a=swapped if trans_a else "",
        dims_b='"N", "K"' if trans_b else '"K", "N"', transpose_b=swapped if trans_b else "",
    )  # fmt: skip
    G = 2 if batch else 1
    inputs = (
        Input(A, (G, E, *((K, M) if trans_a else (M, K))), dtype),
        Input(B, (E, *((N, K) if trans_b else (K, N))), dtype), Input(b, (N,), dtype),
    )  # fmt: skip
    return RandomLogic(text, inputs, kind="products")


_BETWEEN = ("{}", "task.tanh({})", "task.relu({}) * 0.25", "task.minimum({}, 1.0)")
_CHAINS = """@task.define(leaf=True)
def {scores}({S}, {Q}, {K}):
    task.fill({S}, 0)
    task.call_primitive("gemm", {S}, {Q}, {K}.T)


@task.define(leaf=True)
def {middle}({P}, {S}, {Q}, {K}):
    seen = task.index({K}, 0)[None, :] <= task.index({Q}, 0)[:, None]
    {P}[:, :] = {probabilities}


@task.define(leaf=True)
def {values}(acc, {P}, {V}):
    task.call_primitive("gemm", acc, {P}, {V})


@task.define(leaf=True)
def {end}({O}, acc):
    {O}[:, :] = acc * 0.5


@task.define
def {block}({O}, {Q}, {K}, {V}):
    seen = {seen}
    keys = task.tunable("block_N")
    Kp = task.partition({K}[:seen], shape=(keys, {K}.shape[1]))
    Vp = task.partition({V}[:seen], shape=(keys, {V}.shape[1]))
    acc = task.zeros({O}.shape, task.float32, name="acc")
    for k in task.sequential_range(Kp.shape[0]):
        {S} = task.empty(({Q}.shape[0], Kp[k, 0].shape[0]), task.float32, name="{S}")
        {P} = task.empty({S}.shape, {Q}.dtype, name="{P}")
        task.launch({scores}, {S}, {Q}, Kp[k, 0])
        task.launch({middle}, {P}, {S}, {Q}, Kp[k, 0])
        task.launch({values}, acc, {P}, Vp[k, 0])
    task.launch({end}, {O}, acc)


@task.define
def {whole}(
    {O}: task.Tensor["M", "F"],
    {Q}: task.Tensor["M", "D"],
    {K}: task.Tensor["N", "D"],
    {V}: task.Tensor["N", "F"],
):
    height = task.tunable("block_M")
    Op = task.partition({O}, shape=(height, {O}.shape[1]))
    Qp = task.partition({Q}, shape=(height, {Q}.shape[1]))
    for i in task.parallel_range(Op.shape[0]):
        task.launch({block}, Op[i, 0], Qp[i, 0], {K}, {V})
"""


def chains(c: Choices) -> RandomLogic:
    """Return two products with a function between them, over keys in order, some masked."""
    n, dtype = Names(c), c.of(("float32", "float16", "bfloat16"))
    M, N = c.of(EXTENTS), c.of(EXTENTS)
    D, F = c.of((8, 16, 20, 32, 64)), c.of((8, 16, 24, 40))
    causal, between = c.chance(35), c.of(_BETWEEN)
    names = n.of(
        "O", "Q", "K", "V", "S", "P", "scores", "middle", "values", "end", "block", "whole"
    )
    Q, K, V, S = (names[x] for x in ("Q", "K", "V", "S"))
    # A block of rows sees no key after its last row; the mask cuts off those after each row.
    causal_keys = f"task.least({K}.shape[0], task.start({Q}, 0) + {Q}.shape[0])"
    text = HEAD + _CHAINS.format(
        **names, seen=causal_keys if causal else f"{K}.shape[0]",
        probabilities=between.format(f"task.where(seen, {S}, 0.0)" if causal else S),
    )  # fmt: skip
    inputs = (Input(Q, (M, D), dtype), Input(K, (N, D), dtype), Input(V, (N, F), dtype))
    return RandomLogic(text, inputs, kind="chains")


def moves(c: Choices) -> RandomLogic:
    """Return copies, fills and transposes, launched by composites and inside leaves."""
    n, dtype = Names(c), c.of(FLOATS + INTEGERS)
    height, width = c.of(EXTENTS), c.of(EXTENTS)
    Y, X, T = n["Y"], n["X"], n["T"]
    leaf, entry = n["move"], n["whole"]
    transposed, through, filled = c.chance(50), c.chance(50), c.chance(40)
    source = f"{X}.T" if transposed else X
    lines = []
    if through:
        lines += [
            f"{T} = task.empty({source}.shape, {X}.dtype, name='{T}')",
            f"task.copy({T}, {source})",
        ]
        source = T
    fill = f"    task.fill({Y}, {c.between(0, 3)})\n" if filled else ""
    before = "\n    ".join(lines) + ("\n" if lines else "")
    body = f"task.copy({Y}, {X})" if c.chance(50) else f"{Y}[:, :] = {X}"
    extents = "Yp.shape" if c.chance(70) or not filled else "Yp.shape[0], 1"
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {X}):
    {body}


@task.define
def {entry}(
    {Y}: task.Tensor["M", "N"],
    {X}: task.Tensor[{'"N", "M"' if transposed else '"M", "N"'}],
):
    {before}{"    " if lines else ""}tile = (task.tunable("block_M"), task.tunable("block_N"))
{fill}    Yp, Xp = task.partition({Y}, shape=tile), task.partition({source}, shape=tile)
    for i, j in task.parallel_range({extents}):
        task.launch({leaf}, Yp[i, j], Xp[i, j])
"""
    shape = (width, height) if transposed else (height, width)
    return RandomLogic(text, (Input(X, shape, dtype),), kind="moves")
