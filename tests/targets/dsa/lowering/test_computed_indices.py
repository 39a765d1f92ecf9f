"""Control programs that read indices which the kernel has computed: behind a sync, when written."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.simulator.errors import HazardError
from septran.targets.dsa import lowering

X = np.arange(24.0, dtype="float32").reshape(6, 4)
KEYS = np.array([3, 0, 5, 1, 1], "int64")


@task.define(leaf=True)
def turn(at, key):
    """Indices from the end."""
    at[:] = 5 - key


@task.define(leaf=True)
def take(Y, X):
    """Y is X."""
    Y[:, :] = X


@task.define
def turned(Y: task.Tensor["T", "D"], X: task.Tensor["V", "D"], key: task.Tensor["T", task.int64]):
    """Rows from the end."""
    at = task.empty(key.shape, task.int64, name="at")
    Ap, Kp = (task.partition(x, shape=(2,)) for x in (at, key))
    for i in task.parallel_range(Ap.shape[0]):
        task.launch(turn, Ap[i], Kp[i])
    Yp, Rp = (task.partition(x, shape=(2, 4)) for x in (Y, X[at]))
    for i, j in task.parallel_range(Yp.shape):
        task.launch(take, Yp[i, j], Rp[i, j])


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
def test_the_simulator_finds_indices_that_are_read_too_early(machine, monkeypatch):
    monkeypatch.setattr(lowering, "synchronised", lambda program, steps: steps)
    monkeypatch.setattr(lowering, "fenced", lambda program, steps: steps)
    kernel = septran.compile(turned, machine)
    with pytest.raises(HazardError, match=r"follows from indices that .* has not written yet"):
        kernel(X, KEYS)


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
def test_a_saved_kernel_finds_its_indices_again(machine, tmp_path):
    kernel = septran.compile(turned, machine)
    assert np.array_equal(kernel(X, KEYS), X[5 - KEYS])
    assert kernel.profile(X, KEYS).cycles > 0
    kernel.save(tmp_path / "kernel.septran")
    assert np.array_equal(septran.load(tmp_path / "kernel.septran")(X, KEYS), X[5 - KEYS])
    header = kernel.export(tmp_path / "library").read_text()
    assert "temporary 0 once more, which the control program reads itself" in header
