"""Fills, copies and first contents of composites below the entry, outside of parallel loops."""

import pytest

import septran
from septran.task.tree import Loop, statements

LOGIC = """
    @task.define(leaf=True)
    def add(Y, X):
        Y[:, :] = Y + X

    @task.define
    def added(Y, X):
        Yp = task.partition(Y, shape=(32, 32))
        Xp = task.partition(X, shape=(32, 32))
        for i, j in task.parallel_range(Yp.shape):
            task.launch(add, Yp[i, j], Xp[i, j])

    @task.define
    def passes(Y, X):
        T = task.zeros(X.shape, X.dtype, name="T")
        U = task.full(X.shape, 2.0, X.dtype, name="U")
        task.launch(added, T, X)
        task.launch(added, U, T)
        task.fill(Y, 1)
        task.launch(added, Y, U)
        task.copy(T, Y)
        task.launch(added, Y, T)

    @task.define
    def sums(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
        task.launch(passes, Y, X)
"""


@pytest.mark.one_in(3)
def test_they_are_right(machine, logic, right):
    right(logic("sums", LOGIC), machine, {"M": 70, "N": 40})


def test_units_share_them(logic):
    stages = septran.produce_stages(logic("sums", LOGIC), "npu-cube", shapes={"M": 70, "N": 40})
    passes = stages.task_tree.task("sums/passes")
    loops = [s for s in statements(passes.body) if isinstance(s, Loop)]
    assert [loop.parallel for loop in loops] == [True] * 4


def test_inside_of_a_parallel_loop_they_are_its_units(logic):
    text = LOGIC.replace(
        "    task.launch(passes, Y, X)",
        """    for i in task.parallel_range(1):
            task.launch(passes, Y, X)""",
    )
    stages = septran.produce_stages(logic("sums", text), "cpu-x86", shapes={"M": 70, "N": 40})
    passes = stages.task_tree.task("sums/passes")
    assert not [s for s in statements(passes.body) if isinstance(s, Loop)]
