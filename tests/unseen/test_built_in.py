"""Built-in leaves that the entry launches itself: outside of loops, and beside other tasks."""

from __future__ import annotations

import pytest

import septran
from septran.mapping.mistakes import NoParallelLoopError

OUTSIDE = """
    @task.define(leaf=True)
    def add(Y, T, X):
        Y[{all}] = Y + T + X

    @task.define
    def outside(Y: task.Tensor[{dims}], X: task.Tensor[{dims}]):
        {start}
        t = task.full(X.shape, 3, name="t")
        cut = ({cut})
        Yp, Xp = task.partition(Y, shape=cut), task.partition(X, shape=cut)
        Tp = task.partition(t, shape=cut)
        for i in task.parallel_range(Yp.shape):
            task.launch(add, Yp[i], Tp[i], Xp[i])
"""
BESIDE = """
    @task.define(leaf=True)
    def add(Y, T, X):
        Y[:, :] = Y + T + X

    @task.define
    def beside(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
        shape = (16, 64)
        Yp, Xp = task.partition(Y, shape=shape), task.partition(X, shape=shape)
        for i, j in task.parallel_range(Yp.shape):
            t = task.full(Xp[i, j].shape, 3, name="t")
            {start}
            task.launch(add, Yp[i, j], t, Xp[i, j])
"""
RANKS = {
    1: {"all": ":", "dims": '"R"', "cut": "64,"},
    2: {"all": ":, :", "dims": '"R", "S"', "cut": "16, 64"},
    3: {"all": ":, :, :", "dims": '"R", "S", "T"', "cut": "1, 16, 64"},
}
SHAPES = {1: {"R": 4200}, 2: {"R": 130, "S": 99}, 3: {"R": 3, "S": 18, "T": 65}}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("start", ["task.fill(Y, 2)", "task.copy(Y, X)"])
def test_outside_of_loops(start, machine, logic, right):
    right(logic("outside", OUTSIDE.format(start=start, **RANKS[2])), machine, SHAPES[2])


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize("rank", [1, 3])
def test_tensors_of_other_ranks(rank, machine, logic, right):
    text = OUTSIDE.format(start="task.fill(Y, 2)", **RANKS[rank])
    right(
        logic("outside", text.replace("[i]", "[i]" if rank == 1 else "[*i]")), machine, SHAPES[rank]
    )


@pytest.mark.one_in(3, first=2)
@pytest.mark.parametrize("start", ["task.fill(Yp[i, j], 2)", "task.copy(Yp[i, j], Xp[i, j])"])
def test_beside_launches(start, machine, logic, right):
    right(logic("beside", BESIDE.format(start=start)), machine, {"R": 50, "S": 99})


def test_beside_launches_under_a_mapping_that_does_not_know_of_it(tmp_path, logic, right):
    mapping = tmp_path / "own.mapping.yaml"
    mapping.write_text(
        "machine: cpu-x86\nrules:\n"
        "  - {match: {level: entry}, proc: HOST, mems: {'*': DRAM}}\n"
        "  - {match: {task: add}, proc: CORE}\n"
    )
    text = BESIDE.format(start="task.fill(Yp[i, j], 2)")
    right(logic("beside", text), mapping, {"R": 50, "S": 99})


def test_nothing_but_a_copy(machine, logic, right):
    text = """
        @task.define
        def moved(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
            task.copy(Y, X)
    """
    right(logic("moved", text), machine, {"R": 70, "S": 65})


def test_parts_of_one_tensor_are_copied_in_program_order(logic, right):
    text = """
        @task.define
        def shifted(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
            Yp, Xp = task.partition(Y, shape=(4, 9)), task.partition(X, shape=(4, 9))
            task.copy(Yp[0, 0], Xp[0, 0])
            task.copy(Yp[1, 0], Yp[0, 0])
    """
    right(logic("shifted", text), "cpu-x86", {"R": 8, "S": 9})


def test_tiles_of_a_fill_have_as_many_rows_as_the_mapping_says(logic):
    text = """
        @task.define
        def filled(Y: task.Tensor["R", "S"]):
            task.fill(Y, 1)
    """
    mapping = "extends: cpu-x86.mapping.yaml\ntunables: {block_fill: 40, %s}"
    for said, grid in (("block_fill_rows: 8", "13, 3"), ("block_fill_rows: 40", "3, 3")):
        stages = septran.produce_stages(
            logic("filled", text), mapping % said, shapes={"R": 100, "S": 99}
        )
        assert f"parallel({grid})" in str(stages.task_tree)


def test_a_fill_spreads_nothing_else(logic):
    text = """
        @task.define(leaf=True)
        def add(Y, X):
            Y[:, :] = Y + X

        @task.define
        def alone(Y: task.Tensor["R", "S"], X: task.Tensor["R", "S"]):
            task.fill(Y, 1)
            task.launch(add, Y, X)
    """
    with pytest.raises(NoParallelLoopError, match="no loop of alone is parallel"):
        _ = septran.produce_stages(
            logic("alone", text), "npu-cube", shapes={"R": 8, "S": 9}
        ).tile_program
