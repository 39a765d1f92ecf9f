"""Kernels for AMD's GPUs as executables: shown, kept, emulated, and not launched."""

import numpy as np
import pytest

import septran
from septran.emulator import emulation
from septran.runtime.errors import DeviceError
from septran.targets.rocm import toolchain
from septran.targets.rocm.executable import HipExecutable, load, missing
from septran.targets.rocm.toolchain import NoHipCompilerError, compiler

SIZES = {"M": 40, "N": 70}


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv(toolchain.VARIABLE, "none")


def test_without_a_compiler_there_is_text(no_compiler):
    with pytest.raises(NoHipCompilerError, match="no compiler for HIP"):
        compiler()
    source = septran.produce_stages("softmax", "amd-mi300x", shapes=SIZES).source
    assert source.language == "hip"
    assert "softmax_kernel" in source.text
    assert "apt-get" in source.facts["not compiled"]


@pytest.mark.skipif(missing() is None, reason="there is a GPU here")
def test_a_call_says_that_there_is_no_gpu():
    kernel = septran.compile("softmax", "amd-mi300x", shapes=SIZES)
    assert kernel.stages.executable.code
    with pytest.raises(DeviceError, match="in host memory, but the kernel runs on cuda"):
        kernel(np.zeros((40, 70), np.float32))


def test_without_a_compiler_a_call_says_so(no_compiler):
    executable = septran.produce_stages("softmax", "amd-mi300x", shapes=SIZES).executable
    with pytest.raises(NoHipCompilerError, match="neither a clang from 17 on with lld nor hipRTC"):
        executable(np.zeros((40, 70), np.float32))


def test_with_a_compiler_there_are_figures_and_they_are_kept(hip_compiler, tmp_path):
    stages = septran.produce_stages("softmax", "amd-mi300x", shapes=SIZES)
    executable = stages.executable
    assert isinstance(executable, HipExecutable)
    facts = executable.source.facts
    assert facts["spilled registers"] == 0
    assert facts["threads a block"] == 256
    assert facts["waves a compute unit"] >= 4
    assert facts["occupancy"].endswith("%")
    assert "softmax_kernel" in executable.source.parts["GCN assembly"]
    executable.save(tmp_path)
    again = load(tmp_path)
    assert again.program == executable.program
    assert again.compiled == executable.compiled


@pytest.mark.parametrize("mode", ["eager", "late", "random"])
@pytest.mark.parametrize(
    ("logic", "dtype", "shapes"),
    [
        ("gemm", "float16", {"M": 70, "N": 130, "K": 90}),
        ("gemm", "bfloat16", {"M": 33, "N": 65, "K": 40}),
        ("gemm", "int8", {"M": 70, "N": 130, "K": 90}),
        ("gemm", "float32", {"M": 33, "N": 65, "K": 43}),
        ("gemm", "float64", {"M": 33, "N": 65, "K": 43}),
        ("fp8_gemm", None, {"M": 40, "N": 70, "K": 200}),
        ("grouped_gemm", None, {"T": 70, "E": 5, "K": 90, "N": 130}),
        ("softmax", "float64", SIZES),
        ("attention", "float16", {"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 40}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_emulated_kernels_are_right(logic, dtype, shapes, mode):
    kernel = septran.compile(logic, "amd-mi300x", shapes=shapes, dtypes=dtype, emulate=True)
    assert kernel.stages.source.language == "hip"
    with emulation(mode, seed=5):
        assert kernel.check().right
    (profile,) = kernel.stages.executable.profiles
    assert (profile.run.statistics["mma"] > 0) == (logic not in ("softmax", "grouped_gemm"))


@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
def test_products_of_cdna2_are_right(dtype):
    """Its product of bytes has half the depth of CDNA 3's."""
    shapes = {"M": 33, "N": 65, "K": 43}
    kernel = septran.compile("gemm", "amd-mi250", shapes=shapes, dtypes=dtype, emulate=True)
    assert kernel.check().right
    name = {"float16": "f32_16x16x16_f16", "int8": "i32_16x16x16_i8", "float64": "f64_16x16x4_f64"}
    assert f"septran_mfma_{name[dtype]}(" in kernel.stages.source.text
