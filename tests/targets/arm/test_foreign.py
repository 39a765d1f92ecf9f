"""Kernels that an emulator runs: kept, refused what they cannot do, and told apart from others."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import septran
from septran.cli import app
from septran.matrix import Matrix, measure_cell
from septran.operators import Case
from septran.runtime.errors import NotTimedError
from septran.targets.cpu.run import foreign
from septran.targets.cpu.run.build import MissingFeatureError
from septran.targets.cpu.run.foreign import EmulatedRunError, emulated_processor

SIZES = {"M": 5, "N": 18}


@pytest.fixture(scope="module")
def softmax(kernel_for):
    return kernel_for("neoverse-n1", "softmax", **SIZES)


@pytest.fixture
def no_emulator(monkeypatch):
    monkeypatch.setattr(foreign.shutil, "which", lambda name: None)


def test_a_kernel_is_called_as_any_other(emulator, softmax):
    x = np.arange(90, dtype=np.float32).reshape(5, 18) % 7
    expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(softmax(x), expected, rtol=1e-5)


def test_a_saved_kernel_runs_again(emulator, softmax, tmp_path):
    softmax.save(tmp_path / "kernel")
    x = np.ones((5, 18), np.float32)
    assert np.array_equal(septran.load(tmp_path / "kernel")(x), softmax(x))


def test_without_an_emulator_a_call_says_what_is_missing(no_emulator, softmax):
    with pytest.raises(MissingFeatureError, match="no qemu-aarch64 and no aarch64-linux-gnu-gcc"):
        softmax(np.ones((5, 18), np.float32))


def test_an_emulated_kernel_has_no_times(softmax):
    with pytest.raises(NotTimedError, match="has no times"):
        softmax.profile()


def test_what_only_the_host_s_own_code_can_do_is_refused(softmax):
    with pytest.raises(MissingFeatureError, match="run between guard pages"):
        softmax.check(guard=True)
    with pytest.raises(MissingFeatureError, match="recorded part by part"):
        softmax.timeline()


def test_a_program_that_ends_badly_is_no_result(emulator, softmax, monkeypatch):
    monkeypatch.setattr(foreign, "emulated_processor", lambda arch: "no-such-processor")
    with pytest.raises(EmulatedRunError, match="ended with 1 in qemu-aarch64"):
        softmax(np.ones((5, 18), np.float32))


def test_a_read_behind_a_tensor_ends_the_run(emulator, softmax):
    """The judge is no use unless it sees what it is for."""
    executable = softmax.stages.executable
    short = tuple(
        replace(p, shape=(4, 18)) if p.name == "X" else p for p in executable.compiled.parameters
    )
    wrong = replace(executable, compiled=replace(executable.compiled, parameters=short))
    with pytest.raises(EmulatedRunError, match="-11"):
        wrong(np.zeros((5, 18), np.float32), np.zeros((4, 18), np.float32))


def test_scalable_vectors_are_emulated_as_long_as_they_are():
    assert emulated_processor("neoverse-v1") == "max,sve256=on,sve-default-vector-length=32"
    assert emulated_processor("neoverse-n1") == "max,sve128=on,sve-default-vector-length=16"


def test_a_run_without_times_says_so(emulator):
    run = CliRunner().invoke(app, ["run", "softmax", "--on", "cpu-arm", "-s", "M=5", "-s", "N=18"])
    assert run.exit_code == 0, run.output
    assert "neoverse-n1 emulated by qemu-aarch64" in run.output
    assert "emulated code has no times" in run.output
    words = ["run", "softmax", "--on", "cpu-arm", "-s", "M=5", "-s", "N=18", "--json"]
    data = json.loads(CliRunner().invoke(app, words).output)
    assert data["right"] is True
    assert data["profile"] is None


def test_where_nothing_runs_it_the_matrix_says_that_it_is_only_compiled(no_emulator):
    cell = measure_cell(Case("softmax", SIZES, {}), "cpu-arm")
    assert cell.right
    assert not cell.ran
    table = Matrix((cell,))
    assert "0 of 0 right" in str(table)
    assert "1 only compiled: this host has no qemu-aarch64" in str(table)
    assert "| `softmax` | compiled only |" in table.to_markdown()


def test_an_emulated_cell_is_right_and_has_no_time(emulator):
    cell = measure_cell(Case("softmax", SIZES, {}), "cpu-arm")
    assert cell.right
    assert cell.ran
    assert cell.cost == ""


def test_scalars_are_passed(emulator, kernel_for, tmp_path):
    (tmp_path / "scaled.py").write_text(
        '''"""Y = X * factor."""
from septran import task


@task.define(leaf=True)
def scaled_tile(Y, X, *, factor: float = 1.0):
    """One tile."""
    Y[:] = X * factor


@task.define
def scaled(Y: task.Tensor["N"], X: task.Tensor["N"], *, factor: float = 1.0):
    """Tiles, each on its own."""
    Yp, Xp = task.partition(Y, shape=(16,)), task.partition(X, shape=(16,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(scaled_tile, Yp[i], Xp[i], factor=factor)
'''
    )
    kernel = kernel_for("neoverse-n1", str(tmp_path / "scaled.py"), N=37)
    x = np.arange(37, dtype=np.float32)
    assert np.array_equal(kernel(x, factor=2.5), x * np.float32(2.5))
