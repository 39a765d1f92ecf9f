"""Sizes that a logic does not take are refused; edges and empty loops are right everywhere."""

import shutil

import numpy as np
import pytest

import septran
from septran import operators, task
from septran.task.errors import SymbolicValueError, UnmetDemandError

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-h200", "amd-mi300x")
"""The last one's tile program is interpreted; NVIDIA's kernels are emulated."""


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def kernel(logic, machine, **static):
    emulated = machine == "nvidia-h200"
    if emulated and not shutil.which("g++"):
        pytest.skip("the emulator needs g++")
    return septran.compile(logic, machine, static=static, emulate=emulated)


def run(logic, machine, *arrays, **static):
    """What an executor makes of the arrays."""
    if machine == "reference":
        return task.run(logic, *arrays, **static)
    made = kernel(logic, machine, **static)
    return made.interpret(*arrays) if machine == "amd-mi300x" else made(*arrays)


UNMET = {
    "topk beyond a row": ("topk", (floats(4, 5),), {"k": 6}, "k is 6, and a row has 5 elements"),
    "topk of nothing": ("topk", (floats(4, 5),), {"k": 0}, "k is 0, and a row has 5"),
    "topk of fewer": ("topk", (floats(4, 5),), {"k": -1}, "k is -1, and a row has 5"),
    "halves of a head": ("rope", (floats(4, 2, 7), floats(4, 3), floats(4, 3)), {}, "no halves"),
    "heads": ("attention", (floats(1, 3, 4, 8), *[floats(1, 2, 4, 8)] * 2), {}, "3 heads of"),
    "groups": ("conv2d", (floats(1, 3, 5, 5), floats(2, 1, 3, 3)), {"groups": 2}, "3 channels"),
    "bits": (
        "dequant_gemm", (floats(4, 64), np.zeros((24, 8), "uint8"), *[floats(1, 8)] * 2),
        {"bits": 3}, "4 or 8 bits, not 3",
    ),
    "function": ("reduce", (floats(4, 5),), {"function": "median"}, "'median', and none of sum"),
}  # fmt: skip


@pytest.mark.parametrize("machine", ["reference", *MACHINES])
@pytest.mark.parametrize("name", UNMET)
@pytest.mark.one_in(5)
def test_what_an_operator_demands(name, machine):
    operator, arrays, static, message = UNMET[name]
    logic = operators.load(operator)
    with pytest.raises(UnmetDemandError, match=message) as caught:
        run(logic, machine, *arrays, **static)
    assert "septran/operators/" in str(caught.value.where)
    assert "task.require(" in caught.value.where.text
    assert "it is asked for" in caught.value.hint


def test_a_demand_tells_the_sizes_that_there_are():
    with pytest.raises(UnmetDemandError) as caught:
        task.run(operators.load("topk"), floats(4, 3))
    assert caught.value.hint == "it is asked for M = 4, k = 4, N = 3"


@task.define(leaf=True)
def twice(Y, X):
    """Y = 2 X."""
    Y[:, :] = X * 2


@task.define
def positive(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """What elements are is no demand on sizes."""
    task.require(X > 0, "positive numbers")
    task.launch(twice, Y, X)


def test_elements_cannot_be_demanded():
    with pytest.raises(SymbolicValueError, match="not known while tracing"):
        task.run(positive, floats(3, 3))


@task.define
def three_rows(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """A logic for one size: what is written is found out at others."""
    task.require(X.shape[0] == 3, "it has three rows")
    for _ in task.parallel_range(1):
        task.launch(twice, Y, X)


def test_sizes_that_are_made_up_need_not_meet_a_demand():
    assert task.written(three_rows) == {"Y"}
    assert np.array_equal(septran.compile(three_rows)(floats(3, 4)), 2 * floats(3, 4))
    with pytest.raises(UnmetDemandError, match="three_rows: it has three rows"):
        septran.compile(three_rows)(floats(4, 4))


@task.define
def quarters(Y, X):
    """A tile in four; where it is ragged the last ones may begin behind its end."""
    for j in task.sequential_range(4):
        task.launch(twice, Y[j * 4 : j * 4 + 4], X[j * 4 : j * 4 + 4])


@task.define
def slices_of_tiles(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """Tiles of 16 rows in slices of 4."""
    tile = (16, X.shape[1])
    Yp, Xp = task.partition(Y, shape=tile), task.partition(X, shape=tile)
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(quarters, Yp[i, 0], Xp[i, 0])


@task.define
def slices_beyond(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """More slices than there are rows for."""
    for i in task.parallel_range(12):
        task.launch(twice, Y[i * 4 : i * 4 + 4], X[i * 4 : i * 4 + 4])


@task.define
def empty_loops(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """Loops that never turn, alone and beside one that does, and the work."""
    for _ in task.parallel_range(X.shape[0] - 40):
        task.launch(slices_of_tiles, Y, X)
    for _, _ in task.parallel_range(3, 0):
        task.launch(twice, Y, X)
    for _ in task.parallel_range(1):
        task.launch(slices_of_tiles, Y, X)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("logic", [slices_of_tiles, slices_beyond, empty_loops], ids=str)
@pytest.mark.one_in(3)
def test_edges_of_slices_and_loops_that_never_turn(logic, machine):
    x = floats(37, 5)
    assert np.array_equal(run(logic, machine, x), 2 * x)


def test_no_extent_is_negative():
    tree = task.trace(slices_of_tiles, {"X": (37, 5), "Y": (37, 5)})
    assert "max(0, " in str(tree)


@pytest.mark.parametrize("logic", ["gemm", "softmax", "topk"])
def test_nothing_is_written_to_what_has_no_elements(logic):
    sizes = {"M": 0, "N": 4} | ({"K": 4} if logic == "gemm" else {})
    program = septran.produce_stages(logic, "cpu-x86", shapes=sizes).tile_program
    septran.verify(program)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_window_larger_than_the_tensor_is_nowhere(machine):
    """As in NumPy's slices there is no place for it, and the output has no elements."""
    found = run(operators.load("conv2d"), machine, floats(1, 2, 3, 9), floats(2, 2, 5, 5))
    assert found.shape == (1, 2, 0, 5)
