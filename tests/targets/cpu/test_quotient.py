"""Quotients by a row's number: as exact as stated, special values as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task

DIVISORS = (3.0, -7.3, 1e-20, 1e20, 1e-40, -3e38, 0.0, -0.0, np.inf, -np.inf, np.nan)


@task.define(leaf=True)
def divided(Y, X, s):
    Y[:, :] = X / s[:, None]


@task.define
def divide_rows(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"], s: task.Tensor["M"]):
    task.launch(divided, Y, X, s)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_by_a_rows_number(dtype):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((len(DIVISORS), 77)) * 10.0 ** rng.integers(-30, 30, 77)).astype(dtype)
    x[:, :5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    s = np.array(DIVISORS).astype(dtype)
    y = septran.compile(divide_rows, "cpu-x86", dtypes=dtype)(x, s)
    with np.errstate(all="ignore"):
        exact = x / s[:, None]
    plain = np.isfinite(exact)
    np.testing.assert_array_equal(y[~plain], exact[~plain])
    np.testing.assert_array_equal(np.signbit(y[exact == 0]), np.signbit(exact[exact == 0]))
    assert (abs(y[plain] - exact[plain]) <= np.spacing(abs(exact[plain]))).all()
