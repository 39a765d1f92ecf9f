"""``emulate=True`` and ``septran run --emulate``: generated code, called like any kernel."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import septran
from septran.cli import app
from septran.errors import Errors
from septran.runtime.errors import NotExportableError
from septran.targets.cuda.run.emulated import NotKeptError, emulation
from septran.targets.cuda.run.emulated_profile import EmulatedProfile
from septran.targets.registry import NoEmulatorError

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
SIZES = {"M": 40, "N": 200}


@pytest.fixture(scope="module")
def kernel():
    return septran.compile("softmax", "nvidia-h200", shapes=SIZES, emulate=True)


def test_it_is_called_with_arrays_of_the_host(kernel):
    import torch

    x = np.random.default_rng(0).standard_normal((40, 200)).astype(np.float32)
    wanted = torch.softmax(torch.from_numpy(x).double(), 1).numpy()
    assert np.abs(kernel(x) - wanted).max() < 1e-6
    assert isinstance(kernel(torch.from_numpy(x)), torch.Tensor)


@pytest.mark.parametrize("mode", ["eager", "late", "random"])
def test_checks_run_in_every_mode(kernel, mode):
    with emulation(mode, seed=3):
        assert kernel.check().right
    (profile,) = kernel.stages.executable.profiles
    assert profile.mode == mode


def test_the_mode_ends_with_its_block(kernel):
    with emulation("late"):
        pass
    kernel.check()
    assert kernel.stages.executable.profiles[0].mode == "eager"
    with pytest.raises(ValueError, match="one of eager, late, random"), emulation("soon"):
        pass


def test_a_profile_tells_what_happened(kernel, tmp_path):
    profile = kernel.profile()
    assert isinstance(profile, EmulatedProfile)
    assert profile.to_dict()["global_store_bytes"] >= 40 * 200 * 4
    assert "stored to global memory" in str(profile)
    events = json.loads(profile.to_chrome_trace(tmp_path / "t.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert spans
    assert all(event["dur"] >= 0 for event in spans)


def test_its_source_is_the_text_that_runs(kernel):
    source = kernel.stages.source
    assert source.language == "cuda"
    assert "softmax_kernel" in source.text
    assert source.facts["threads a block"] > 0


def test_it_is_neither_kept_nor_exported(kernel, tmp_path):
    with pytest.raises(NotKeptError, match="no machine code to save"):
        kernel.save(tmp_path / "kernel")
    with pytest.raises(NotExportableError, match="compiled to be emulated"):
        kernel.export(tmp_path / "source")


@pytest.mark.parametrize(
    ("machine", "instead"),
    [("cpu-x86", "runs by what"), ("dsa-sim", "is simulated"), ("tpu-v5e", "runs by what")],
)
def test_only_gpus_are_emulated(machine, instead):
    with pytest.raises(NoEmulatorError, match="no emulator for backend") as told:
        septran.compile("softmax", machine, emulate=True)
    assert instead in told.value.hint
    assert "there are emulators for cuda and rocm" in told.value.hint


@pytest.mark.slow
def test_the_command_line_checks_a_product_in_every_mode(tmp_path):
    """The sizes divide no tile; TMA, mbarriers and wgmma take part."""
    trace = tmp_path / "trace.json"
    words = ["run", "gemm", "--on", "nvidia-h200", "--emulate", "-s", "M=200", "-s", "N=328"]
    words += ["-s", "K=136", "--dtype", "float16", "--trace", str(trace)]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert data["right"]
    assert [row["mode"] for row in data["emulated"]] == ["eager", "late", "random"]
    assert all(row["profile"]["wgmma"] and row["profile"]["tma_loads"] for row in data["emulated"])
    assert {e["name"] for e in json.loads(trace.read_text())["traceEvents"]} >= {
        "wgmma",
        "tma load",
    }
    text = CliRunner().invoke(app, [*words, "--timeline"]).output
    lanes = [line.split("|")[0].strip() for line in text.splitlines() if line.count("|") == 2]
    assert lanes[:2] == ["copy engine", "tensor cores"]
    assert "late: they take effect as late as waits allow" in text
    assert "C: right" in text


def test_a_profile_shows_itself_with_its_timeline(kernel):
    profile = kernel.profile()
    shown = profile._repr_mimebundle_()
    assert "emulated (eager)" in shown["text/html"]
    assert "image/svg+xml" in shown["text/html"]
    assert "<script" not in shown["text/html"]
    times = profile.timeline()
    assert times.unit == "steps"
    lanes = {record.lane for record in times.records}
    assert "warp 0" in lanes
    assert "warp 1" not in lanes  # the first of a warpgroup stands for all
    assert all(record.end <= times.end for record in times.records)


def test_the_interpreter_of_a_gpu_kernel_takes_arrays_on_the_host(monkeypatch):
    """It runs on NumPy: only a call needs the device."""
    kernel = septran.compile(
        "gemm", "nvidia-a100", shapes={"M": 64, "N": 64, "K": 64}, dtypes="float16", emulate=True
    )
    monkeypatch.setattr(kernel, "device", "cuda")
    random = np.random.default_rng(0)
    a, b = (random.integers(-1, 2, (64, 64)).astype("float16") for _ in range(2))
    assert np.array_equal(kernel.interpret(a, b), a @ b)
    torch = pytest.importorskip("torch")
    found = kernel.interpret(torch.from_numpy(a), torch.from_numpy(b))
    assert np.array_equal(found.numpy(), a @ b)
    with pytest.raises(Errors, match="A is in host memory, but the kernel runs on cuda"):
        kernel(a, b)
