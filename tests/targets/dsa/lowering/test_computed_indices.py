"""Control programs that read indices which the kernel has computed: behind a sync, when written."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.simulator.errors import HazardError, UnwrittenBytesError
from septran.targets.dsa import lowering
from septran.targets.dsa.code.build import DsaExecutable
from tests.computed_indices import KEYS, X, take, turn, turned


@task.define
def chosen(Y, X, n):
    """Rows by way of a temporary, which only the choice writes."""
    T = task.empty(Y.shape, name="T")
    with task.when(n[0]):
        task.launch(take, T, X)
    task.launch(take, Y, T)


@task.define
def written_by_choice(
    Y: task.Tensor["T", "D"], X: task.Tensor["T", "D"], key: task.Tensor[1, task.int64]
):
    """A kernel that reads what nobody has written unless the index that it computes is right."""
    n = task.empty(key.shape, task.int64, name="n")
    for _ in task.parallel_range(1):
        task.launch(turn, n, key)
    for _ in task.parallel_range(1):
        task.launch(chosen, Y, X, n)


@task.define
def long_before(
    Y: task.Out["T", "D"], Z: task.Out["P", "Q"], X: task.In["V", "D"], B: task.In["P", "Q"],
    key: task.In["T", task.int64],
):  # fmt: skip
    """Much is copied between the computation of indices and their use."""
    at = task.empty(key.shape, task.int64, name="at")
    for _ in task.parallel_range(1):
        task.launch(turn, at, key)
    Zp, Bp = (task.partition(x, shape=(32, 64)) for x in (Z, B))
    for i in task.parallel_range(Zp.shape[0]):
        task.launch(take, Zp[i, 0], Bp[i, 0])
    for _ in task.parallel_range(1):
        task.launch(take, Y, X[at])


TOO_EARLY = r"follows from indices that .* has not written yet"


@pytest.mark.parametrize("keys", [KEYS, np.full(5, 5), np.full(5, 4)], ids=["mixed", "0", "1"])
@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.one_in(2)
def test_the_simulator_finds_indices_that_are_read_too_early(machine, keys, monkeypatch):
    monkeypatch.setattr(lowering, "synchronised", lambda program, steps: steps)
    monkeypatch.setattr(lowering, "fenced", lambda program, steps: steps)
    kernel = septran.compile(turned, machine)
    with pytest.raises(HazardError, match=TOO_EARLY):
        kernel(X, keys)


def test_a_sync_that_is_missing_is_found_whatever_the_time(monkeypatch):
    B = np.zeros((2048, 64), "float32")
    assert np.array_equal(septran.compile(long_before, "dsa-sim")(X, B, KEYS)[0], X[5 - KEYS])
    monkeypatch.setattr(lowering, "synchronised", lambda program, steps: steps)
    with pytest.raises(HazardError, match=TOO_EARLY):
        septran.compile(long_before, "dsa-sim")(X, B, KEYS)


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
def test_what_only_the_right_indices_write_is_no_unwritten_byte(machine):
    kernel = septran.compile(written_by_choice, machine)
    assert np.array_equal(kernel(X, np.array([4])), X)
    with pytest.raises(UnwrittenBytesError):
        kernel(X, np.array([5]))


@pytest.mark.parametrize("machine", ["dsa-sim", "npu-cube"])
@pytest.mark.one_in(2)
def test_a_saved_kernel_finds_its_indices_again(machine, tmp_path):
    kernel = septran.compile(turned, machine)
    assert np.array_equal(kernel(X, KEYS), X[5 - KEYS])
    assert kernel.profile(X, KEYS).cycles > 0
    kernel.save(tmp_path / "kernel.septran")
    assert np.array_equal(septran.load(tmp_path / "kernel.septran")(X, KEYS), X[5 - KEYS])
    header = kernel.export(tmp_path / "library").read_text()
    assert "temporary 0 once more, which the control program reads itself" in header


@pytest.mark.parametrize("after", [0, 1], ids=["in a circle", "at the last run"])
def test_indices_that_follow_from_themselves_are_a_located_error(after, monkeypatch):
    kernel = septran.compile(turned, "dsa-sim")
    kernel(X, KEYS)
    executable, recorded, runs = kernel.stages.executable, DsaExecutable._recorded, []

    def other(self, tables, numbers):
        """Nothing is asked for behind right indices, so that none are found; or the last time."""
        runs.append(tables)
        nothing = tables[0].any() if not after else len(runs) == 5
        return recorded(self, tables, numbers)[: 0 if nothing else None]

    monkeypatch.setattr(DsaExecutable, "_recorded", other)
    with pytest.raises(HazardError, match="turned reads indices that are others once") as caught:
        executable(np.zeros((5, 4), "float32"), X, KEYS)
    assert "machines/dsa-sim.yaml:1: " in str(caught.value)
    assert len(runs) == (2 if not after else 5)
