"""What `export` writes for AMD's GPUs: clang compiles the text, a C compiler the host program."""

from __future__ import annotations

import os
import subprocess

import pytest

import septran
from septran.targets.c_compiler import c_compiler
from septran.targets.rocm.toolchain import HipCompiler, available, device_libraries

SIZES = {"softmax": {"M": 20, "N": 70}, "gemm": {"M": 64, "N": 64, "K": 64}}


@pytest.mark.skipif(c_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("operator", SIZES)
def test_text_and_host_are_compiled(operator, tmp_path):
    tool = available()
    if not isinstance(tool, HipCompiler):
        pytest.skip("no clang for AMD's GPUs")
    kernel = septran.compile(operator, "amd-mi300x", shapes=SIZES[operator], dtypes="bfloat16")
    kernel.export(tmp_path)
    code = tmp_path / f"septran_{operator}.co"
    shipped = code.read_bytes()
    code.unlink()
    # Of a clang that is not ROCm's own it is said where the functions of mathematics are.
    bitcode = " ".join(
        f"-Xclang -mlink-builtin-bitcode -Xclang {file}" for file in device_libraries("gfx942")
    )
    done = subprocess.run(
        ["sh", str(tmp_path / "build.sh")], capture_output=True, text=True, check=False,
        env={
            **os.environ, "HIP_COMPILER": str(tool.path), "HIPFLAGS": f"-nogpulib {bitcode}",
            "CFLAGS": "-Wall -Wextra -Werror",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert code.read_bytes()[:4] == shipped[:4] == b"\x7fELF"
    found = subprocess.run(
        [tmp_path / "examples/example"], cwd=tmp_path / "examples", capture_output=True, text=True,
        check=False, env={**os.environ, "HIP_LIBRARY": str(tmp_path / "none.so")},
    )  # fmt: skip
    if found.returncode == 3:
        assert "no driver is found" in found.stdout or "hip" in found.stdout.lower()
    else:
        assert found.returncode == 0, found.stdout


def test_an_emulated_kernel_is_exported_as_text(tmp_path):
    kernel = septran.compile("softmax", "amd-mi300x", shapes=SIZES["softmax"], emulate=True)
    kernel.export(tmp_path)
    assert "softmax_kernel" in (tmp_path / "septran_softmax.hip").read_text()
    assert not (tmp_path / "septran_softmax.co").exists()
