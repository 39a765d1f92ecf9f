"""What CUDA's text gives of numbers at the ends of their types, beside the reference."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import septran
from septran import task

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
REALS = np.array(
    [0.5, -2.5, 255, -129, 2.0**31, -(2.0**31) - 1, 2.0**32 + 3, 2.0**53 + 2, -(2.0**63), 2.0**64,
     1e30, -1e30, np.inf, np.nan, 1e-40, 65520]
)  # fmt: skip


@task.define(leaf=True)
def scaled_leaf(Y, X):
    """Small numbers, whose digits are behind the fifteenth decimal."""
    Y[:, :] = X * 1e-20 + 1e-300


@task.define
def scaled(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """One block."""
    task.launch(scaled_leaf, Y, X)


@task.define(leaf=True)
def divided_leaf(Y, X, Z):
    """A quotient and a remainder, rounded down."""
    Y[:, :] = X // Z * 3 + X % Z


@task.define
def divided(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], Z: task.Tensor["M", "N"]):
    """One block."""
    task.launch(divided_leaf, Y, X, Z)


@task.define(leaf=True)
def converted_leaf(Y, X):
    """The same numbers in another type."""
    Y[:, :] = X


@task.define
def converted(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """One block."""
    task.launch(converted_leaf, Y, X)


def same(logic, dtypes, *arrays):
    """Whether the emulated text and the reference give the same bits."""
    kernel = septran.compile(logic, "nvidia-h200", dtypes=dtypes, emulate=True)
    with np.errstate(all="ignore"):
        found, wanted = np.asarray(kernel(*arrays)), np.asarray(kernel.reference(*arrays))
    np.testing.assert_array_equal(found, wanted.astype(found.dtype))


def test_small_constants_keep_their_digits():
    same(scaled, "float64", np.array([[1e20, 1.0, 0.0, -1e300]]))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "int64"])
def test_floats_are_integers_modulo_their_power_of_two(dtype):
    same(converted, {"X": "float64", "Y": dtype}, REALS.reshape(1, -1))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_are_divided_down(dtype):
    ends = np.iinfo(dtype)
    values = np.array([ends.min, ends.max, -7, -1, 0, 1, 2, 5], dtype)
    x, z = (np.ascontiguousarray(a) for a in np.meshgrid(values, values))
    same(divided, dtype, x, z)
