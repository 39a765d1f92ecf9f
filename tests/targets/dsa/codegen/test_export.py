"""A kernel for a DSA as a C project: built with the recorder, it asks for the same commands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import septran
from septran.runtime.errors import NotExportableError
from tests.tiers import slow_but

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")

KERNELS = {
    "gemm": {"M": 40, "N": 33, "K": 70},
    "softmax": {"M": 9, "N": 300},
    "embedding": None,
    "attention": None,
}
CASES = [(machine, name) for machine in ("dsa-sim", "npu-cube") for name in KERNELS]


def checked(folder):
    script = ["sh", str(folder / "build.sh"), "check"]
    return subprocess.run(script, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("machine", "name"), slow_but([("npu-cube", "gemm"), ("dsa-sim", "embedding")], CASES)
)
@pytest.mark.one_in(2)
def test_the_example_asks_for_what_the_simulator_was_given(tmp_path, machine, name):
    shapes = KERNELS[name] or septran.operators.load(name).function.__globals__["CASES"][0]
    kernel = septran.compile(name, machine, shapes=shapes)
    assert kernel.export(tmp_path) == tmp_path / f"include/{name}.h"
    done = checked(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "commands, as they should be" in done.stdout
    own = Path(septran.load_machine(machine).location.file).with_suffix(".h")
    vendor = next(tmp_path.glob(f"vendor/**/{machine}.h"))
    assert vendor.read_bytes() == own.read_bytes()


def test_another_command_is_found(tmp_path):
    septran.compile("softmax", "dsa-sim", shapes={"M": 4, "N": 8}).export(tmp_path)
    source = tmp_path / "src/softmax.c"
    text = source.read_text()
    assert "vendor_lib_set_flag(" in text
    source.write_text(text.replace("vendor_lib_set_flag(0, ", "vendor_lib_set_flag(1, ", 1))
    done = checked(tmp_path)
    assert done.returncode == 1
    assert "is another one" in done.stdout


def test_the_header_says_what_a_core_takes(tmp_path):
    kernel = septran.compile(
        "softmax", "npu-cube", shapes={"M": 8, "N": 64}, dynamic={"M": (1, 64)}
    )
    kernel.export(tmp_path)
    header = (tmp_path / "include/softmax.h").read_text()
    assert "#define SOFTMAX_CORES 2" in header
    assert "void softmax(int32_t core, float *Y, float *X, int32_t M);" in header
    assert "X [M, 64] float32: input" in header
    assert "M: an extent, from 1 to 64" in header
    assert checked(tmp_path).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake here")
def test_cmake_builds_and_tests_it(tmp_path):
    septran.compile("gemm", "dsa-sim", shapes={"M": 40, "N": 33, "K": 70}).export(tmp_path)
    for command in (
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build"],
        ["cmake", "--build", tmp_path / "build"],
        ["ctest", "--test-dir", tmp_path / "build", "--no-tests=error"],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_several_of_them_make_no_library(tmp_path):
    kernel = septran.compile("softmax", "dsa-sim", shapes={"M": 4, "N": 8})
    with pytest.raises(
        NotExportableError, match="is for dsa, whose kernels are exported one by one"
    ):
        septran.export({"a": kernel, "b": kernel}, tmp_path, name="mylib")
