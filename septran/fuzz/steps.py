"""Random logic files whose leaves sort rows, or solve triangular systems, step by step."""

from __future__ import annotations

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import FLOATS, HEAD, INTEGERS, Input, RandomLogic

_FEW = (1, 2, 3, 7, 8, 15, 16, 17, 24, 33)
"""Extents of rows and systems, whose steps are as many as their square."""


def orders(c: Choices) -> RandomLogic:
    """Return the first of each row's sorted elements, and where they were."""
    n, dtype = Names(c), c.of(FLOATS + INTEGERS)
    V, P, X, leaf, entry, i = (n[x] for x in ("V", "P", "X", "leaf", "whole", "i"))
    height, width = c.of(_FEW), c.of(_FEW)
    count = c.between(1, width)
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({V}, {P}, {X}):
    task.sort({V}, {P}, {X}, descending={c.chance(50)})


@task.define
def {entry}(
    {V}: task.Out["M", {count}],
    {P}: task.Out["M", {count}, task.{c.of(("int64", "int32"))}],
    {X}: task.In["M", "N"],
):
    rows = task.tunable("block_rows", 4)
    Vp, Pp, Xp = (task.partition(t, shape=(rows, t.shape[1])) for t in ({V}, {P}, {X}))
    for {i} in task.parallel_range(Xp.shape[0]):
        task.launch({leaf}, Vp[{i}, 0], Pp[{i}, 0], Xp[{i}, 0])
"""
    return RandomLogic(text, (Input(X, (height, width), dtype),), kind="orders")


def solves(c: Choices) -> RandomLogic:
    """Return solutions of a triangular system, and an expression of them."""
    n, dtype = Names(c), c.of(FLOATS)
    Y, L, B, S, leaf, entry, j = (n[x] for x in ("Y", "L", "B", "S", "leaf", "whole", "j"))
    size, columns = c.of(_FEW), c.of(_FEW)
    wide = "float64" if dtype == "float64" else "float32"
    # Off the diagonal, which is taken for ones, small numbers: solutions neither grow nor vanish.
    text = f"""{HEAD}@task.define(leaf=True)
def {leaf}({Y}, {L}, {B}):
    low = task.empty({L}.shape, task.{wide}, name="low")
    {S} = task.empty({B}.shape, task.{wide}, name="{S}")
    low[:, :] = task.tanh({L}) * 0.1
    task.solve_triangular({S}, low, {B}, unit=True)
    {Y}[:, :] = task.tanh({expression(c, ExpressionParts((S, B)), 1)})


@task.define
def {entry}({Y}: task.Out["N", "M"], {L}: task.In["N", "N"], {B}: task.In["N", "M"]):
    width = task.tunable("block_N", 16)
    Yp, Bp = (task.partition(t, shape=(t.shape[0], width)) for t in ({Y}, {B}))
    for {j} in task.parallel_range(Yp.shape[1]):
        task.launch({leaf}, Yp[0, {j}], {L}, Bp[0, {j}])
"""
    inputs = (Input(L, (size, size), dtype), Input(B, (size, columns), dtype))
    return RandomLogic(text, inputs, kind="solves")
