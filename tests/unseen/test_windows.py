"""Windows that a leaf takes itself, with zeros outside of the tensor, in expressions."""

from __future__ import annotations

import pytest

import septran
from septran.errors import SepTranError

ROWS = """
    @task.define(leaf=True)
    def piece(Out, Big, Inp):
        seen = task.window(Inp, (3,), padding=(1,))
        Out[:, :] = task.sum(seen, axis=2) + task.sum(Big, axis=1)[:, None]

    @task.define
    def smooth(Out: task.Tensor["C", "L"], Big: task.Tensor["C", "B"], Inp: task.Tensor["C", "L"]):
        rows = task.tunable("block_H", 6)
        Op, Bp, Ip = (task.partition(T, shape=(rows, T.shape[1])) for T in (Out, Big, Inp))
        for i in task.parallel_range(Op.shape[0]):
            task.launch(piece, Op[i, 0], Bp[i, 0], Ip[i, 0])
"""
PLANES = """
    @task.define(leaf=True)
    def most(Out, Inp, Wt):
        seen = task.window(Inp, (2, 3), stride=(1, 2), padding=(1, 2), dilation=(2, 1))
        Out[:, :] = task.max(task.max(seen * Wt[None, None, :, :] + seen, axis=3), axis=2)

    @task.define
    def pooled(Out: task.Tensor["P", "Q"], Inp: task.Tensor["H", "W"], Wt: task.Tensor[2, 3]):
        for i in task.parallel_range(1):
            task.launch(most, Out, Inp, Wt)
"""
TWICE = """
    @task.define(leaf=True)
    def both(Out, Inp):
        near = task.window(Inp, (3,), padding=(1,))
        far = task.window(Inp, (5,), padding=(2,))
        Out[:] = task.sum(near, axis=1) - task.max(far, axis=1)

    @task.define
    def twice(Out: task.Tensor["N"], Inp: task.Tensor["N"]):
        for i in task.parallel_range(1):
            task.launch(both, Out, Inp)
"""
MOVED = """
    @task.define(leaf=True)
    def step(Out, part):
        Out[:] = Out + task.max(part, axis=1)

    @task.define(leaf=True)
    def begin(Out):
        Out[:] = 0

    @task.define
    def walked(Out: task.Tensor["N"], Inp: task.Tensor["N"]):
        seen = task.partition(task.window(Inp, (7,), padding=(3,)), shape=(Inp.shape[0], 2))
        for i in task.parallel_range(1):
            task.launch(begin, Out)
            for k in task.sequential_range(seen.shape[1]):
                task.launch(step, Out, seen[0, k])
"""
PRODUCT = """
    @task.define(leaf=True)
    def mixed(Out, Inp, F):
        task.fill(Out, 0)
        task.call_primitive("gemm", Out, task.window(Inp, (4,), padding=(2,))[0], F)

    @task.define
    def mix(Out: task.Tensor[33, "N"], Inp: task.Tensor[1, 32], F: task.Tensor[4, "N"]):
        for i in task.parallel_range(1):
            task.launch(mixed, Out, Inp, F)
"""


@pytest.mark.parametrize("rows", [6, 64])
def test_a_window_beyond_its_rows_sees_zeros_not_the_rows_beside_them(machine, logic, right, rows):
    shapes = {"C": 16, "L": 40, "B": 100}
    right(logic("smooth", ROWS), machine, shapes, tunables={"block_H": rows})


def test_a_window_of_two_axes_with_steps(machine, logic, right):
    right(logic("pooled", PLANES), machine, {"H": 9, "W": 14, "P": 9, "Q": 8})


def test_two_windows_of_one_tensor(machine, logic, right):
    right(logic("twice", TWICE), machine, {"N": 42})


def test_a_window_that_a_loop_moves(machine, logic, right):
    right(logic("walked", MOVED), machine, {"N": 42})


@pytest.mark.parametrize("dsa", ["dsa-sim", "npu-cube"])
def test_a_matrix_unit_that_would_read_beyond_a_tensor_is_refused(logic, dsa):
    stages = septran.produce_stages(logic("mix", PRODUCT), dsa, shapes={"N": 8})
    with pytest.raises(SepTranError, match="takes no zeros from outside of Inp") as caught:
        assert stages.source
    assert caught.value.code == "SEP530"


def test_a_processor_multiplies_by_a_window_of_zeros(logic, right):
    right(logic("mix", PRODUCT), "cpu-x86", {"N": 8})
