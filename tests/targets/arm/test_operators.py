"""Every operator as an ARM processor's code, run by QEMU, is what rounding allows.

Each call has its tensors before pages that nothing may touch, and scratch memory full of NaN.
"""

from __future__ import annotations

import pytest

from septran import operators

QUICK = ("elementwise", "gemm", "softmax")
"""Operators that are run each time."""
PROCESSORS = ("neoverse-n1", "neoverse-v1", "neoverse-v2", "cortex-a72")
"""NEON with half floats, SVE of 256 bits, SVE2 of 128 bits, and the oldest NEON."""
EACH = [
    pytest.param(
        arch,
        case,
        id=f"{arch} {case.operator} {case}",
        marks=() if name in QUICK and arch in PROCESSORS[:2] and not number else pytest.mark.slow,
    )
    for which, arch in enumerate(PROCESSORS)
    for place, name in enumerate(operators.names())
    for number, case in enumerate(operators.cases(name))
    if (number == place % 3 and which == place // 3 % 4) or (name in QUICK and which < 2)
]
"""Cases and processors in turn; `tests/test_matrix.py` has all cases on the machine file's own."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("arch", "case"), EACH)
def test_an_operator_is_right(emulator, kernel_for, arch, case):
    kernel = kernel_for(arch, case.operator, case.dtype, case.static, **case.sizes)
    check = kernel.check()
    assert check.right, str(check)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "uint8", "int32"])
@pytest.mark.parametrize("arch", PROCESSORS[:2])
def test_a_product_of_every_type_is_right(emulator, kernel_for, arch, dtype):
    types = {"A": dtype, "B": dtype, "C": "int32" if "int" in dtype else dtype}
    check = kernel_for(arch, "gemm", types, M=13, N=35, K=29).check()
    assert check.right, str(check)


@pytest.mark.slow
@pytest.mark.parametrize("arch", PROCESSORS[:2])
def test_results_that_are_streamed_past_the_caches_are_right(emulator, kernel_for, arch):
    check = kernel_for(arch, "elementwise", None, {"function": "relu"}, M=2049, N=4096).check()
    assert check.right, str(check)
