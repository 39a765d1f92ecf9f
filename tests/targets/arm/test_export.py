"""What `septran export` writes for ARM processors: built by a C compiler alone, it is right."""

from __future__ import annotations

import os
import subprocess

import pytest
from typer.testing import CliRunner

from septran.cli import app
from septran.targets.cpu.run.foreign import EMULATOR, emulated_processor
from tests.tiers import slow_but

GEMM = ["-s", "M=13", "-s", "N=35", "-s", "K=29"]
WARNINGS = "-static -Wall -Wextra -Werror"


def exported(folder, *words):
    run = CliRunner().invoke(app, ["export", *words, "--on", "cpu-arm", "-o", str(folder)])
    assert run.exit_code == 0, run.output
    return folder


def checked(folder, processor, **environment):
    """What the examples print, once built without a warning."""
    flags = {"CFLAGS": WARNINGS, "CXXFLAGS": WARNINGS, "STATIC_ONLY": "1", **environment}
    run = {"RUN": f"{EMULATOR} -cpu {processor}"}
    return subprocess.run(
        ["sh", str(folder / "build.sh"), "check"], env={**os.environ, **flags, **run},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("arch", slow_but(["apple-m1"], ["neoverse-n1", "apple-m1", "neoverse-v1"]))
def test_an_arm_export_checks_itself_without_tvm(emulator, tmp_path, arch):
    folder = exported(tmp_path / "out", "gemm", "--arch", arch, *GEMM)
    header = (folder / "include/gemm.h").read_text()
    assert "int32_t septran_gemm(float *C, const float *A, const float *B);" in header
    assert (folder / "lib/libgemm.a").exists()
    done = checked(folder, emulated_processor(arch))
    assert done.returncode == 0, done.stderr
    assert "gemm C: right" in done.stdout


@pytest.mark.slow
def test_code_for_longer_registers_refuses_a_processor_without_them(emulator, tmp_path):
    folder = exported(tmp_path / "out", "gemm", "--arch", "neoverse-v1", *GEMM)
    done = checked(folder, "cortex-a57")
    assert done.returncode == 3, done.stderr
    assert "compiled for processors with sve, which this has not" in done.stdout


@pytest.mark.slow
def test_threads_share_an_exported_loop(emulator, tmp_path):
    folder = exported(tmp_path / "out", "elementwise", "-s", "M=192", "-s", "N=300")
    for count in ("1", "3"):
        done = checked(folder, "max", SEPTRAN_THREADS=count)
        assert done.returncode == 0, done.stdout + done.stderr


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
    folder = exported(tmp_path / "out", str(tmp_path / "logic.py"), "-s", "N=9")
    header = (folder / "include/logic.h").read_text()
    assert "septran_logic(float *register_, const float *long_);" in header
