"""Our own kernels as nvcc compiles them: the emulator's two fronts agree with float64."""

import dataclasses

import pytest

import septran
from septran.emulator import MODES, emulation

pytestmark = pytest.mark.slow
_HEADS = {"B": 1, "H": 2, "M": 200, "D": 64, "G": 1, "N": 200}
CASES = {
    "gemm": ("gemm", "nvidia-h200", {"M": 200, "N": 328, "K": 136}, "float16"),
    "gemm float32": ("gemm", "nvidia-h200", {"M": 72, "N": 136, "K": 40}, "float32"),
    "attention": ("attention", "nvidia-h200", _HEADS, "float16"),
    "softmax": ("softmax", "nvidia-h200", {"M": 70, "N": 200}, "float32"),
    "gemm on A100": ("gemm", "nvidia-a100", {"M": 136, "N": 72, "K": 80}, "float16"),
}


@pytest.mark.parametrize("case", CASES)
def test_own_kernel_as_ptx(to_ptx, case):
    operator, machine, shapes, dtype = CASES[case]
    kernel = septran.compile(operator, machine, shapes=shapes or None, dtypes=dtype, emulate=True)
    inputs = kernel.sample(3)
    executable = kernel.stages.executable
    text = to_ptx(executable.program.source, executable.program.arch)
    program = dataclasses.replace(executable.program, source=text)
    object.__setattr__(executable, "program", program)
    for mode in MODES:
        with emulation(mode, 5):
            kernel.check(**inputs).raise_if_wrong()
