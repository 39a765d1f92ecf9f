"""Tiles that are rounded up: one ragged tile where a dimension is smaller than a block."""

import numpy as np
import pytest

from septran import task
from septran.mapping.loader import load_mapping
from septran.mapping.resolve import resolve
from septran.task.trace.tensors import Padded, fitted

MAPPING = """
machine: cpu-x86
rules:
  - match: {level: entry}
    proc: HOST
    mems: {"*": DRAM}
  - match: {loops: parallel}
    proc: CORE
    mems: {"*": NONE}
tunables:
  block_M: {value: 64, multiple: 16}
"""


@pytest.mark.parametrize(
    ("block", "extent", "tile"),
    [(64, 8, 8), (Padded(64, 16), 8, 16), (Padded(64, 16), 33, 48), (Padded(64, 16), 100, 64),
     (Padded(40, 16), 33, 40), (Padded(64, 16), 0, 1), (64, 0, 1)],
)  # fmt: skip
def test_the_extent_of_a_tile(block, extent, tile):
    assert fitted(block, extent) == tile


@task.define(leaf=True)
def doubled(Y, X):
    Y[:] = X * 2


@task.define
def twice(Y: task.Tensor["M"], X: task.Tensor["M"]):
    rows = task.tunable("block_M")
    Yp, Xp = task.partition(Y, shape=(rows,)), task.partition(X, shape=(rows,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(doubled, Yp[i], Xp[i])


@pytest.mark.parametrize("rows", [5, 16, 70])
def test_what_is_beyond_the_edge_does_not_exist(rows):
    plan = load_mapping(MAPPING)
    tree = task.trace(twice, {"Y": (rows,), "X": (rows,)}, {"X": "float32"}, plan.chooser())
    (leaf,) = [t for t in tree.tasks() if t.leaf]
    assert leaf.params[0].shape == (64 if rows == 70 else 16,)
    assert "{value: 64, multiple: 16}" in resolve(tree, plan).to_yaml()
    x = np.arange(rows, dtype="float32")
    from septran.tile.interpret.interpreter import interpret
    from septran.tile.pipeline import place

    program = place(resolve(tree, plan))[-1].program
    assert np.array_equal(interpret(program, {"X": x})["Y"], 2 * x)
