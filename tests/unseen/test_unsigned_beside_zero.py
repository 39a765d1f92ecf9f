"""Unsigned numbers compared with 0, on which TVM's simplifier ends the process: they are folded."""

from __future__ import annotations

import numpy as np
import pytest

import septran

LOGIC = """
from septran import task

@task.define(leaf=True)
def each(Y, X):
    unread = task.empty(X.shape, X.dtype)
    unread[:, :] = X
    Y[:, :] = {value}

@task.define
def whole(Y: task.Tensor["M", "N", task.{dtype}], X: task.Tensor["M", "N"]):
    tile = (task.tunable("block_M", 16), task.tunable("block_N", 32))
    Yp, Xp = (task.partition(x, shape=tile) for x in (Y, X))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(each, Yp[i, j], Xp[i, j])
"""
DTYPES = ("uint8", "uint16", "uint32", "uint64")
VALUES = (
    "task.where(X < 0, X, 7) + X", "task.where(0 > X, X, 7)", "task.where(X >= 0, X, 7)",
    "task.where(0 <= X, X, 7) + X", "task.where(0 < X, X, 7)",
)  # fmt: skip


def written(folder, value, dtype):
    file = folder / "whole.py"
    file.write_text(LOGIC.format(value=value, dtype=dtype), encoding="utf-8")
    return file


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", VALUES)
def test_cuda_text_is_made(value, dtype, tmp_path):
    file = written(tmp_path, value, dtype)
    stages = septran.produce_stages(file, "nvidia-a100", shapes={"M": 3, "N": 33}, dtypes=dtype)
    assert "each computes Y" in stages.tensor_ir.cuda.source


@pytest.mark.one_in(4)
@pytest.mark.both_widths
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", VALUES)
def test_a_cpu_computes_it(value, dtype, tmp_path):
    file = written(tmp_path, value, dtype)
    kernel = septran.compile(file, "cpu-x86", shapes={"M": 3, "N": 33}, dtypes=dtype)
    x = np.arange(99, dtype=dtype).reshape(3, 33) % 5
    kernel.check(x).raise_if_wrong()
