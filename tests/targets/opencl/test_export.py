"""What `export` writes is built by a C compiler alone, and runs where there is an OpenCL driver."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import septran
from septran.runtime.errors import NotExportableError
from septran.targets.c_compiler import c_compiler

STRICT = "-Wall -Wextra -Werror"
SIZES = {
    "softmax": {"M": 20, "N": 70},
    "rms_norm": {"M": 9, "N": 70},
    "gemm": {"M": 40, "N": 70, "K": 50},
    "gemm_splitk": {"M": 16, "N": 32, "K": 512},
}


def environment() -> dict[str, str]:
    """Where the driver is that pyopencl brings, which it says to its own process alone."""
    import pyopencl

    home = Path(pyopencl.__file__).parent
    inside = next((home / ".libs").glob("libOpenCL*"), None)
    if inside is None:
        return dict(os.environ)
    return {
        **os.environ, "PYOPENCL_HOME": str(home), "OPENCL_LIBRARY": str(inside),
        "LD_LIBRARY_PATH": str(inside.parent),
    }  # fmt: skip


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(folder / "build.sh"), *words], capture_output=True, text=True, check=False,
        env=environment() | {"CFLAGS": STRICT} | more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def softmax(tmp_path_factory):
    folder = tmp_path_factory.mktemp("softmax")
    septran.compile("softmax", "opencl-generic", shapes=SIZES["softmax"]).export(folder)
    return folder


@pytest.mark.skipif(c_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.one_in(4)
@pytest.mark.parametrize("operator", SIZES)
def test_the_example_is_right(device, operator, dtype, tmp_path):
    kernel = septran.compile(operator, "opencl-generic", shapes=SIZES[operator], dtypes=dtype)
    header = kernel.export(tmp_path)
    assert header == tmp_path / f"include/septran_{operator}.h"
    done = run(tmp_path, "check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": right, error at most" in done.stdout


@pytest.mark.skipif(c_compiler() is None, reason="no C compiler")
def test_a_wrong_result_and_a_missing_device_are_said(device, softmax):
    assert run(softmax).returncode == 0
    data, text = softmax / "examples/data/X", softmax / "septran_softmax.cl"
    example = [softmax / "examples/example"]
    kept = data.read_bytes()
    data.write_bytes(b"\0" * len(kept))

    def said(*words: str, **more: str) -> tuple[int, str]:
        done = subprocess.run(
            [*example, *words], cwd=softmax / "examples", capture_output=True, text=True,
            check=False, env=environment() | more,
        )  # fmt: skip
        return done.returncode, done.stdout

    code, words = said()
    assert code == 1
    assert "elements are wrong" in words
    data.write_bytes(kept)
    assert said()[0] == 0
    assert said(SEPTRAN_OPENCL="no such") == (
        3, "septran_softmax: there is no such OpenCL device: error 0 of the driver\n"
    )  # fmt: skip
    (softmax / "broken.cl").write_text(text.read_text() + "\nmistake")
    code, words = said("../broken.cl")
    assert code == 3
    assert "clBuildProgram: error" in words


def test_the_header_says_what_a_call_takes(softmax, golden):
    header = (softmax / "include/septran_softmax.h").read_text()
    lines = [line for line in header.splitlines() if "Logic" not in line and "Written" not in line]
    golden.check("\n".join(lines) + "\n", "header")


def test_what_is_not_exported_is_said(tmp_path):
    kernel = septran.compile("softmax", "opencl-generic", shapes=SIZES["softmax"])
    with pytest.raises(NotExportableError, match="is for opencl, whose kernels are exported one"):
        kernel.export(tmp_path, name="mylib")
    other = septran.compile("softmax", "tpu-v5e", shapes=SIZES["softmax"])
    with pytest.raises(NotExportableError, match="is for tpu, for which there is no export"):
        other.export(tmp_path)
