"""Random logic files with integers that calls tell: how many rows, which one, and a number."""

from __future__ import annotations

from septran.fuzz.choices import Choices
from septran.fuzz.expressions import ExpressionParts, expression
from septran.fuzz.names import Names
from septran.fuzz.programs import EXTENTS, FLOATS, HEAD, Input, RandomLogic

_TEXT = """@task.define(leaf=True)
def {add}({Y}, {X}, {seed}):
    {Y}[:, :] = {Y} * 0.5 + task.tanh({value}) + task.where({seed} % {odd} == 0, 1.0, -0.5)


@task.define
def {block}({Y}, {X}, {count}, {at}, {seed}):
    task.fill({Y}, 0)
    for {t} in task.sequential_range(task.count({count}[0], most={most})):
        task.launch({add}, {Y}, {X}[{row}], {seed})
    with task.when({condition}):
        task.launch({add}, {Y}, {X}[{at}[0]], {seed})


@task.define
def {whole}(
    {Y}: task.Tensor["M", "N"],
    {X}: task.Tensor["L", "M", "N"],
    {count}: task.Integer[0, {most}],
    {at}: task.Integer[0, {last}],
    {seed}: task.Integer[0, 9],
):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp = task.partition({Y}, shape=tile)
    Xp = task.partition({X}, shape=({X}.shape[0], *tile))
    for {i}, {j} in task.parallel_range(Yp.shape):
        task.launch({block}, Yp[{i}, {j}], Xp[0, {i}, {j}], {count}, {at}, {seed})
"""


def integers(c: Choices) -> RandomLogic:
    """Sums of as many matrices as a call says, and of one that it chooses."""
    n, dtype = Names(c), c.of(FLOATS)
    most, height, width = c.between(1, 7), c.of(EXTENTS), c.of(EXTENTS)
    names = n.of("Y", "X", "seed", "count", "at", "t", "i", "j", "add", "block", "whole")
    value = expression(c, ExpressionParts((names["X"],)), 1)
    every = f"task.count({names['count']}[0], most={most})"
    text = HEAD + _TEXT.format(
        **names, value=value, odd=c.between(2, 3), most=most, last=most - 1,
        row=c.of((names["t"], f"{most - 1} - {names['t']}")),
        condition=c.of((every, f"{most} - {every}")),
    )  # fmt: skip
    inputs = (
        Input(names["X"], (most, height, width), dtype),
        Input(names["count"], (1,), "int32", most + 1), Input(names["at"], (1,), "int32", most),
        Input(names["seed"], (1,), "int32", 10),
    )  # fmt: skip
    return RandomLogic(text, inputs, kind="integers")
