"""Copies and loops that the library does not have."""

from __future__ import annotations

import pytest

COPIES = """
    @task.define(leaf=True)
    def carry(Target, Origin):
        task.copy(Target, Origin)

    @task.define
    def duplicate(Target: task.Tensor["R", "S"], Origin: task.Tensor["R", "S"]):
        shape = task.tunable("block_high"), task.tunable("block_wide")
        Tp, Op = task.partition(Target, shape=shape), task.partition(Origin, shape=shape)
        for i, j in task.parallel_range(Tp.shape):
            task.launch(carry, Tp[i, j], Op[i, j])
"""
BROUGHT = """
    machine: dsa-sim
    rules:
      - {{match: {{level: entry}}, proc: HOST, mems: {{"*": GLOBAL}}, pipeline: {stages}}}
      - {{match: {{loops: parallel}}, proc: CORE, mems: {{writes: SPM}}}}
    tunables: {{"block_*": 64}}
"""
SIZES = {"R": 130, "S": 200}


def test_a_leaf_copies_tile_by_tile(machine, logic, right):
    right(logic("duplicate", COPIES), machine, SIZES)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_stage_that_is_stored_is_filled_again_after_that(stages, logic, right):
    right(logic("duplicate", COPIES), BROUGHT.format(stages=stages), SIZES)


TRIANGLE = """
    @task.define(leaf=True)
    def twice(Y, X):
        Y[:, :] = X * 2

    @task.define
    def triangle(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
        Yp, Xp = task.partition(Y, shape=(64, 64)), task.partition(X, shape=(64, 64))
        for i in task.parallel_range(Yp.shape[0]):
            for j in task.parallel_range(i + 1):
                task.launch(twice, Yp[i, j], Xp[i, j])
"""


def test_a_loop_that_turns_once_does_not_race_with_itself(machine, logic, right):
    right(logic("triangle", TRIANGLE), machine, {"R": 64, "S": 64})


BY_TILES = """
    @task.define(leaf=True)
    def add(Y, X):
        Y[:, :] = Y + X

    @task.define
    def begin(Y: task.Tensor["R", "S"], Z: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
        shape = (48, 40)
        Yp, Zp, Xp = (task.partition(t, shape=shape) for t in (Y, Z, X))
        for i, j in task.parallel_range(Yp.shape):
            task.fill(Yp[i, j], 3)
            task.copy(Zp[i, j], Xp[i, j])
        for i, j in task.parallel_range(Yp.shape):
            task.launch(add, Yp[i, j], Xp[i, j])
"""


def test_built_in_leaves_are_launched_for_tiles(machine, logic, right):
    right(logic("begin", BY_TILES), machine, SIZES)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_a_copy_converts(dtype, machine, logic, right):
    right(logic("duplicate", COPIES), machine, SIZES, dtypes={"Target": dtype})
