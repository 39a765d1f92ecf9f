"""Integers that calls tell: a length, a position, a seed, wherever elements of tensors may be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.argument_checks import WrongArgumentError
from septran.runtime.errors import ArgumentShapeError, ScalarError
from septran.task.errors import DtypeError, LaunchArgumentsError
from tests.tiers import slow_but

MOST = 70


@task.define(leaf=True)
def add_rows(y, x):
    y[:] = y + task.sum(x, axis=0)


@task.define(leaf=True)
def add_one(y, x, bias, seed):
    y[:] = y + x + bias * task.where(seed % 2 == 0, 1.0, -1.0)


@task.define
def columns(y, x, bias, length: task.Integer[0, MOST], position, seed):
    rows = task.partition(x[: task.count(length)], shape=(16, x.shape[1]))
    task.fill(y, 0)
    for i in task.sequential_range(rows.shape[0]):
        task.launch(add_rows, y, rows[i, 0])
    task.launch(add_one, y, x[position[0]], bias, seed)


@task.define
def prefix(
    Y: task.Tensor["D"],
    X: task.Tensor["L", "D"],
    bias: task.Tensor["D"],
    length: task.Integer[0, MOST],
    position: task.Integer[0, MOST - 1],
    seed: task.Integer[-(2**40), 2**40],
):
    """The sum of the first `length` rows and of one more, and a bias whose sign a seed decides."""
    Xp = task.partition(X, shape=(X.shape[0], 16))
    Yp, biases = (task.partition(x, shape=(16,)) for x in (Y, bias))
    for j in task.parallel_range(Yp.shape[0]):
        task.launch(columns, Yp[j], Xp[0, j], biases[j], length, position, seed)


def inputs():
    """Whole numbers, whose sums are exact."""
    random = np.random.default_rng(3)
    return (random.integers(-8, 9, shape).astype(np.float32) for shape in ((MOST, 24), (24,)))


def exact(x, bias, length, position, seed):
    return x[:length].sum(0, dtype=np.float64) + x[position] + bias * (1 if seed % 2 == 0 else -1)


CALLS = ((0, 0, 7), (33, 69, 2**35), (MOST, 5, -1))
MACHINES = slow_but(["cpu-x86"], ["cpu-x86", "dsa-sim", "npu-cube"])


@pytest.mark.parametrize("machine", MACHINES)
def test_python_integers_of_a_call_need_no_compilation(machine):
    kernel = septran.compile(prefix, machine)
    x, bias = inputs()
    for numbers in CALLS:
        kernel.check(x, bias, *numbers).raise_if_wrong()
        assert np.array_equal(kernel(x, bias, *numbers), exact(x, bias, *numbers))
        assert np.array_equal(kernel.interpret(x, bias, *numbers), exact(x, bias, *numbers))
    assert len(kernel.specialisations) == 1


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
def test_python_integers_of_a_call_of_a_gpu(machine):
    kernel = septran.compile(prefix, machine, emulate=True)
    x, bias = inputs()
    for numbers in CALLS[1:]:
        kernel.check(x, bias, *numbers).raise_if_wrong()


def test_reference_takes_python_integers():
    x, bias = inputs()
    for numbers in CALLS:
        assert np.array_equal(task.run(prefix, x, bias, *numbers), exact(x, bias, *numbers))
    with pytest.raises(WrongArgumentError, match="length of prefix is 71, and is from 0 to 70"):
        task.run(prefix, x, bias, 71, 0, 0)


def test_a_call_names_them_and_passes_tensors_as_well():
    kernel = septran.compile(prefix, "cpu-x86")
    x, bias = inputs()
    wanted = kernel(x, bias, 33, 4, 1)
    assert "length: 0..70" in str(kernel.signature)
    assert np.array_equal(kernel(x, bias, seed=1, length=33, position=4), wanted)
    assert np.array_equal(kernel(x, bias, np.int64(33), np.array([4], np.int32), 1), wanted)
    for _ in range(2):  # the slow way, and the short one
        given = torch.from_numpy(x), torch.from_numpy(bias)
        assert torch.equal(kernel(*given, 33, 4, 1), torch.from_numpy(wanted))


def test_an_integer_out_of_its_range_is_refused():
    kernel = septran.compile(prefix, "cpu-x86")
    x, bias = inputs()
    for wrong in (-1, MOST + 1, True):
        with pytest.raises(ScalarError, match=f"length is {wrong}, and is from 0 to 70"):
            kernel(x, bias, wrong, 0, 0)
    with pytest.raises(ArgumentShapeError, match="length"):
        kernel(x, bias, np.zeros(2, np.int32), 0, 0)


def test_samples_are_in_range():
    kernel = septran.compile(prefix, "cpu-x86", shapes={"L": 40, "D": 24})
    drawn = [kernel.sample(seed) for seed in range(20)]
    assert {int(s["position"][0]) for s in drawn} <= set(range(40))
    assert {int(s["length"][0]) for s in drawn} <= set(range(MOST + 1))
    assert min(int(s["seed"][0]) for s in drawn) < 0


def test_a_saved_kernel_takes_them(tmp_path):
    kernel = septran.compile(prefix, "cpu-x86")
    x, bias = inputs()
    wanted = kernel(x, bias, 33, 4, 1)
    kernel.save(tmp_path / "prefix.septran")
    assert np.array_equal(septran.load(tmp_path / "prefix.septran")(x, bias, 33, 4, 1), wanted)


def test_an_operator_of_torch_takes_python_integers():
    found = septran.torch.op(prefix, "cpu-x86", name="tests::prefix")
    x, bias = map(torch.from_numpy, inputs())
    for numbers in CALLS:
        wanted = exact(x.numpy(), bias.numpy(), *numbers)
        assert np.array_equal(found(x, bias, *numbers), wanted)
    with pytest.raises(ScalarError, match="position is 70"):
        found(x, bias, 3, 70, 0)


@pytest.mark.slow
def test_a_graph_takes_another_integer_without_a_compilation():
    found = septran.torch.op(prefix, "cpu-x86", name="tests::prefix")
    x, bias = map(torch.from_numpy, inputs())
    graphs = []

    def counted(graph, _):
        graphs.append(graph)
        return graph.forward

    step = torch.compile(lambda n: found(x, bias, n, 3, 1), backend=counted, dynamic=True)
    for length in (5, 6, 40):
        wanted = exact(x.numpy(), bias.numpy(), length, 3, 1)
        assert np.array_equal(step(length), wanted)
    assert len(graphs) == 1


@pytest.mark.parametrize("span", [(5, 2), (1, 2, 3), "long", (0, 2**63), True])
def test_a_wrong_range_says_what_to_write(span):
    with pytest.raises(DtypeError, match="is no range of an integer") as error:
        task.Integer[span]
    assert "task.Integer[0, 4096]" in str(error.value.hint)


def test_a_count_of_another_tensor_needs_its_bound():
    @task.define
    def unbounded(Y: task.Tensor["D"], n: task.Tensor[1, task.int32]):
        for _ in task.sequential_range(task.count(n[0])):
            task.fill(Y, 0)

    with pytest.raises(LaunchArgumentsError, match="the count of n has no bound") as error:
        septran.compile(unbounded, "cpu-x86", shapes={"D": 4})
    assert "task.Integer" in str(error.value.hint)


@task.define(leaf=True)
def put_row(place, x):
    place[:, :] = x


@task.define
def cached(K: task.Tensor["N", "E"], x: task.Tensor[1, "E"], at: task.Integer[0, 6]):
    first = task.least(task.count(at), K.shape[0] - 1)
    task.launch(put_row, K[first : first + 1], x)


def test_a_row_that_a_call_chooses_is_written_alone():
    tree = task.trace(cached, {"K": (7, 4), "x": (1, 4), "at": (1,)})
    assert tree.root.params[0].reads  # the other rows keep their content
    cache, row = np.ones((7, 4), np.float32), np.full((1, 4), 5, np.float32)
    septran.compile(cached, "cpu-x86")(row, 3, out=cache)
    assert (cache[3] == 5).all()
    assert (np.delete(cache, 3, axis=0) == 1).all()
