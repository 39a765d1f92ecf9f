"""Every operator in OpenCL C, run by the device that is here: PoCL, where no other is."""

import pytest

from septran import operators
from septran.matrix import measure_cell
from septran.targets.opencl.run.device import found
from tests.tiers import slow_but

CASES = {f"{case.operator} {case}": case for n in operators.names() for case in operators.cases(n)}
FAST = [
    next(key for key, case in CASES.items() if case.operator == name and case.dtype == dtype)
    for name, dtype in (
        ("softmax", "float16"), ("gemm", "float16"), ("grouped_gemm", "bfloat16"),
        ("batched_gemm", "float16"), ("permute", "float16"), ("fp8_gemm", "bfloat16"),
    )
]  # fmt: skip


@pytest.mark.parametrize("key", slow_but(FAST, CASES))
@pytest.mark.usefixtures("device")
def test_an_operator_is_right(key):
    cell = measure_cell(CASES[key], "opencl-generic")
    assert cell.right, cell.message
    assert 0 <= cell.worst <= 1
    assert cell.unknown == 0
    assert cell.seconds
    assert cell.executor == found().platform
