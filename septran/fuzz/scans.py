"""Random logic files that scan rows or columns, tile by tile or as a whole, among expressions."""

from __future__ import annotations

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, FLOATS, HEAD, INTEGERS, Input, RandomLogic

_BOUNDED = "task.tanh({})"


def scans(c: Choices) -> RandomLogic:
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
    return RandomLogic(text, inputs, kind="scans")
