"""Logic without a parallel loop, where the host cannot compute."""

import inspect

import numpy as np
import pytest

import septran
from septran import task
from septran.mapping.mistakes import NoParallelLoopError


@task.define(leaf=True)
def double(Y, X):
    Y[:] = X * 2.0


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def alone(Y: task.Tensor["N"], X: task.Tensor["N"]):
    task.launch(double, Y, X)


@task.define
def product(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    task.fill(C, 0)
    task.launch(mma, C, A, B)


@task.define
def as_told(Y: task.Tensor["N"], X: task.Tensor["N"]):
    for _ in task.parallel_range(1):
        task.launch(double, Y, X)


# On a GPU an element-wise kernel alone needs no memory that the host does not see.
CASES = [(t, logic) for t in ("dsa-sim", "npu-cube") for logic in (alone, product)]


@pytest.mark.parametrize(("target", "logic"), [*CASES, ("nvidia-h200", product)])
def test_it_is_told_in_the_words_of_the_logic(target, logic):
    shapes = {name: (32,) if logic is not product else (32, 32) for name, _ in logic.tensors}
    with pytest.raises(NoParallelLoopError, match="is parallel, so all of it") as caught:
        septran.produce_stages(logic, target, shapes=shapes).tile_program  # noqa: B018
    assert "task.parallel_range(1)" in caught.value.hint
    assert caught.value.where.file == __file__
    assert caught.value.related[0][1].file.endswith(f"{target}.mapping.yaml")


@task.define
def partly(Y: task.Tensor["N"], X: task.Tensor["N"]):
    t = task.empty(X.shape, X.dtype, name="t")
    task.launch(double, t, X)
    for i in task.sequential_range(1):
        for j in task.parallel_range(1):
            task.launch(double, Y[i + j :], t)


@pytest.mark.parametrize("target", ["dsa-sim", "npu-cube"])
def test_one_launch_outside_of_loops_is_told_among_others(target):
    shapes = {"Y": (32,), "X": (32,)}
    with pytest.raises(NoParallelLoopError, match="double is launched in no parallel") as caught:
        septran.produce_stages(partly, target, shapes=shapes).tile_program  # noqa: B018
    assert "around task.launch(double, ...)" in caught.value.hint
    first = inspect.getsourcelines(partly.function)[1]
    assert caught.value.where.line == first + 3


def test_what_the_hint_says_helps():
    x = np.arange(40, dtype="float32")
    assert np.array_equal(septran.compile(as_told, "dsa-sim")(x), x * 2)


def test_a_machine_whose_host_computes_needs_no_loop():
    x = np.arange(40, dtype="float32")
    assert np.array_equal(septran.compile(alone, "cpu-x86")(x), x * 2)
