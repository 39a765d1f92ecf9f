"""Integers that float64 does not have: as what a tensor is filled with, and as operands."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task

MACHINES = (
    "cpu-x86", "dsa-sim", "npu-cube", pytest.param("opencl-generic"),
    pytest.param("nvidia-a100", marks=pytest.mark.slow),
    pytest.param("amd-mi300x", marks=pytest.mark.slow),
)  # fmt: skip
GREATEST = {"int64": 2**63 - 1, "uint64": 2**64 - 1}


@task.define(leaf=True)
def tile(Y, Z, X, *, number: int):
    """Filled, chosen, compared and added: each with a number of 64 bits."""
    Y[:, :] = task.minimum(task.scan("min", X, axis=0, exclusive=True), X + number)
    task.fill(Z, number)


@task.define
def numbers(Y: task.Out["M", "N"], Z: task.Out["M", "N"], X: task.In["M", "N"], *, number: int):
    Yp, Zp, Xp = (task.partition(t, shape=(t.shape[0], 4)) for t in (Y, Z, X))
    for j in task.parallel_range(Yp.shape[1]):
        task.launch(tile, Yp[0, j], Zp[0, j], Xp[0, j], number=number)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("less", [0, 2])
def test_each_bit_of_a_long_integer_is_kept(machine, dtype, less):
    number = GREATEST[dtype] - less
    kernel = septran.compile(
        numbers, machine, shapes={"M": 3, "N": 6}, dtypes=dtype, static={"number": number},
        emulate=machine.startswith(("nvidia", "amd")),
    )  # fmt: skip
    x = np.random.default_rng(0).integers(1, 2**62, (3, 6)).astype(dtype)
    greatest = np.full((1, 6), GREATEST[dtype], dtype)
    before = np.vstack([greatest, np.minimum.accumulate(x[:-1], axis=0)])
    y, z = kernel(x)
    np.testing.assert_array_equal(z, np.full((3, 6), number, dtype))
    np.testing.assert_array_equal(y, np.minimum(before, x + np.full((), number, dtype)))
