"""What `septran export` writes for CPUs: built by a C compiler alone, it gives the results."""

from __future__ import annotations

import os
import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from septran.cli import app
from septran.targets.cpu.run.foreign import EMULATOR

GEMM = ["-s", "M=13", "-s", "N=35", "-s", "K=29"]


def exported(folder, *words):
    run = CliRunner().invoke(app, ["export", *words, "-o", str(folder)])
    assert run.exit_code == 0, run.output
    return folder


def printed(folder, *emulator, **environment):
    """What the example prints, once built without a warning."""
    flags = {"CFLAGS": "-static -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror", **environment}
    environment = {**os.environ, **flags}
    build = ["sh", str(folder / "build.sh")]
    subprocess.run(build, check=True, env=environment, capture_output=True)
    command = [*emulator, str(folder / "example")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return dict(line.split() for line in done.stdout.splitlines())


def product():
    """The sum of the example's C, which float32 has exactly."""
    a = (np.arange(13 * 29) % 7).reshape(13, 29)
    b = (np.arange(29 * 35) % 9).reshape(29, 35)
    return float((a @ b).sum())


@pytest.mark.parametrize("arch", ["neoverse-n1", "apple-m1"])
def test_an_arm_export_runs_without_tvm(emulator, tmp_path, arch):
    folder = exported(tmp_path / "out", "gemm", "--on", "cpu-arm", "--arch", arch, *GEMM)
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md", "build.sh", "example.c", "gemm.h", "gemm.o", "septran_runtime.c",
    ]  # fmt: skip
    header = (folder / "gemm.h").read_text()
    assert "int32_t septran_gemm(float *C, const float *A, const float *B);" in header
    assert float(printed(folder, EMULATOR)["C"]) == product()


def test_threads_share_an_exported_loop(emulator, tmp_path):
    sizes = ["-s", "M=192", "-s", "N=300"]
    folder = exported(tmp_path / "out", "elementwise", "--on", "cpu-arm", *sizes)
    sums = [printed(folder, EMULATOR, SEPTRAN_THREADS=n) for n in ("1", "3")]
    assert sums[0] == sums[1]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_an_export_for_this_host_runs_without_tvm(tmp_path):
    folder = exported(tmp_path / "out", "gemm", *GEMM)
    assert float(printed(folder)["C"]) == product()


def test_words_of_c_are_no_names(tmp_path):
    (tmp_path / "logic.py").write_text(
        '''"""Y = X + X."""
from septran import task


@task.define(leaf=True)
def doubled_tile(register, long):
    """One tile."""
    register[:] = long + long


@task.define
def logic(register: task.Tensor["N"], long: task.Tensor["N"]):
    """All at once."""
    task.launch(doubled_tile, register, long)
'''
    )
    folder = exported(tmp_path / "out", str(tmp_path / "logic.py"), "--on", "cpu-arm", "-s", "N=9")
    header = (folder / "logic.h").read_text()
    assert "septran_logic(float *register_, const float *long_);" in header
