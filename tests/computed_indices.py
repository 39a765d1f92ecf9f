"""Logics whose indices the same kernel computes, with their data, for several tests."""

from __future__ import annotations

import numpy as np

from septran import task

X = np.arange(24.0, dtype="float32").reshape(6, 4)
KEYS = np.array([3, 0, 5, 1, 1], "int64")
SHAPES = {"Y": (5, 4), "X": X.shape, "key": KEYS.shape}


@task.define(leaf=True)
def take(Y, X):
    """Y is X."""
    Y[...] = X


@task.define(leaf=True)
def turn(at, key):
    """Indices from the end."""
    at[...] = 5 - key


@task.define
def turned(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]):
    """Rows from the end, which a temporary chooses."""
    at = task.empty(key.shape, task.int64, name="at")
    Ap, Kp = (task.partition(x, shape=(2,)) for x in (at, key))
    for i in task.parallel_range(Ap.shape[0]):
        task.launch(turn, Ap[i], Kp[i])
    Yp, Rp = (task.partition(x, shape=(2, 4)) for x in (Y, X[at]))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(take, Yp[i, j], Rp[i, j])
