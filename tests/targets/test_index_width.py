"""Indices have 32 bits only where extents prove that all that is computed of them fits."""

import re

import numpy as np
import pytest

import septran
from septran import operators, task
from septran.targets.index_width import LARGEST, index_dtype

MACHINES = ("cpu-x86", "dsa-sim", "npu-cube", "nvidia-h200", "nvidia-a100")
COUNT = 100_000


@task.define(leaf=True)
def far_tile(Y, X, *, i):
    """Products of an index and factors that are no more than tensors have elements."""
    Y[0, :] = X + i * 30_000
    Y[1, :] = X + (i + 5) * 20_000 // 7
    Y[2, :] = X + i * 30_000 % 1_003
    Y[3, :] = X - i * 25_000
    Y[4, :] = task.where(i * 30_000 > X, 1, 0)
    Y[5, :] = task.where(task.index(X, 0) > i * 30_000, 1, 0)


@task.define
def far(Y: task.Tensor[6, "N", task.int64], X: task.Tensor["N", task.int64]):
    """One element a tile: the index goes far."""
    Yp, Xp = task.partition(Y, shape=(6, 1)), task.partition(X, shape=(1,))
    for i in task.parallel_range(Xp.shape[0]):
        task.launch(far_tile, Yp[0, i], Xp[i], i=i)


@task.define(leaf=True)
def twice(Y, X):
    """Y = 2 X."""
    Y[:] = X + X


@task.define
def doubled(Y: task.Tensor["N", task.int8], X: task.Tensor["N", task.int8]):
    """Tiles of one axis; the last one goes beyond its end."""
    Yp, Xp = task.partition(Y, shape=(64,)), task.partition(X, shape=(64,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(twice, Yp[i], Xp[i])


def program(logic, machine, **shapes):
    return septran.produce_stages(logic, machine, shapes=shapes).tile_program


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("count", "dtype"), [(70_000, "int32"), (COUNT, "int64")])
def test_a_number_of_an_index_passes_32_bits_in_short_tensors(machine, count, dtype):
    assert count * 30_000 <= LARGEST or dtype == "int64"
    assert index_dtype(program(far, machine, N=count)) == dtype


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("count", "dtype"), [(2**30, "int32"), (2**31 - 10, "int64")])
def test_the_end_of_the_last_tile_is_counted(machine, count, dtype):
    assert index_dtype(program(doubled, machine, N=count)) == dtype


SHOWN = [("gemm", "cpu-x86"), ("gemm", "dsa-sim"), ("attention", "nvidia-h200")]
"""All others are in `tests/operators/test_machines.py`, where they are made anyway."""


@pytest.mark.parametrize(("operator", "machine"), SHOWN)
def test_operators_of_the_library_have_short_indices(operator, machine):
    assert index_dtype(program(operator, machine, **operators.module(operator).EXAMPLE)) == "int32"


@pytest.mark.slow
def test_numbers_of_indices_are_right():
    x, i = np.arange(COUNT) * 1_000, np.arange(COUNT)
    wanted = [
        x + i * 30_000, x + (i + 5) * 20_000 // 7, x + i * 30_000 % 1_003, x - i * 25_000,
        i * 30_000 > x, i > i * 30_000,
    ]  # fmt: skip
    np.testing.assert_array_equal(septran.compile(far, "cpu-x86")(x), np.stack(wanted))


def test_the_product_is_of_64_bits_in_cuda():
    text = septran.produce_stages(far, "nvidia-h200", shapes={"N": COUNT}).tensor_ir.cuda.source
    wide = re.findall(r"\(\(int64_t\)\(\(int\)blockIdx.x\)\) \* \(int64_t\)(\d+)", text)
    assert set(wide) >= {"30000", "20000", "25000"}
    assert not re.search(r"\* (30000|20000|25000)", text)


def test_the_product_is_of_64_bits_in_a_dsas_c():
    text = septran.produce_stages(far, "dsa-sim", shapes={"N": COUNT}).source.text
    assert "i * 30000" in text
    assert re.search(r"int64_t i\b", text)
