"""Integers in CUDA text, as a compiler for GPUs reads them."""

import pytest

import septran

GREATEST = """
from septran import task

@task.define(leaf=True)
def some(Y, X):
    Y[:] = task.max(X, axis=1)

@task.define
def greatest(Y: task.Tensor["M", task.{dtype}], X: task.Tensor["M", "N", task.{dtype}]):
    Yp = task.partition(Y, shape=(task.tunable("block_M", 8),))
    Xp = task.partition(X, shape=(task.tunable("block_M", 8), X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(some, Yp[i], Xp[i, 0])
"""


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.one_in(2)
def test_the_least_integer_is_of_its_own_type(dtype, tmp_path, cuda_compiler):
    """C has no negative literals: -2147483648 is a long, and there is no `max` of it and an int."""
    file = tmp_path / "greatest.py"
    file.write_text(GREATEST.format(dtype=dtype), encoding="utf-8")
    shapes = {"M": 20, "N": 33}
    kernel = septran.compile(file, "nvidia-h200", shapes=shapes, emulate=True)
    kernel.check().raise_if_wrong()
    septran.compile(file, "nvidia-h200", shapes=shapes)
