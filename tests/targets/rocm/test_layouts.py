"""What lanes hold of an MFMA's operands: our table against the published equations, and run.

The equations are those that AMD's matrix instruction calculator prints for CDNA 3 ("matrix element
to register mapping").
"""

import numpy as np
import pytest

from septran.emulator import emulate
from septran.emulator.launch import CudaProgram, KernelLaunch, Pointer
from septran.targets.cuda.fragment.fragments import Fragment, thread
from septran.targets.rocm.gemm.layouts import BF16, F16, F32, F64, HELD, I8, I8_CDNA2, SIDE
from septran.targets.rocm.gemm.mfma import text_of
from septran.targets.rocm.text.prelude import prelude

ALL = (F16, BF16, I8, I8_CDNA2, F32, F64)
NAMES = [mfma.name for mfma in ALL]
OPERANDS = {
    # The lane and the element of A[i][k]; of B[k][j] likewise by j.
    F16.name: lambda i, k: (16 * (k // 4) + i, k % 4),
    BF16.name: lambda i, k: (16 * (k // 4) + i, k % 4),
    I8.name: lambda i, k: (16 * (k // 8) + i, k % 8),
    I8_CDNA2.name: lambda i, k: (16 * (k // 4) + i, k % 4),
    F32.name: lambda i, k: (16 * k + i, 0),
    F64.name: lambda i, k: (16 * k + i, 0),
}
RESULTS = {
    # The lane and the element of D[i][j].
    **dict.fromkeys(NAMES, lambda i, j: (16 * (i // 4) + j, i % 4)),
    F64.name: lambda i, j: (16 * (i % 4) + j, i // 4),
}
TYPES = {
    F16.name: ("float16", "float32"), I8.name: ("int8", "int32"),
    I8_CDNA2.name: ("int8", "int32"), F32.name: ("float32", "float32"),
    F64.name: ("float64", "float64"),
}  # fmt: skip


def places(fragment):
    """The element of each lane's registers."""
    return {
        (lane, held): tuple(at.as_int() for at in fragment.coordinates(lane, held))
        for lane in range(64)
        for held in range(fragment.registers)
    }


@pytest.mark.parametrize("mfma", ALL, ids=NAMES)
def test_an_operand_lies_as_the_equations_say(mfma):
    found = places(Fragment.of(([thread(SIDE, 1)], mfma.along(1)), 64))
    wanted = {OPERANDS[mfma.name](i, k): (i, k) for i in range(SIDE) for k in range(mfma.depth)}
    assert found == wanted


@pytest.mark.parametrize("mfma", ALL, ids=NAMES)
def test_a_result_lies_as_the_equations_say(mfma):
    """Its rows are the columns of our tiles: operands are exchanged."""
    found = places(Fragment.of(([thread(SIDE, 1)], mfma.held(1)), 64))
    wanted = {RESULTS[mfma.name](i, j): (j, i) for i in range(SIDE) for j in range(SIDE)}
    assert found == wanted


@pytest.mark.parametrize("mfma", [m for m in ALL if m.name in TYPES], ids=list(TYPES))
def test_the_emulator_multiplies_by_equations_of_its_own(mfma):
    operand, result = TYPES[mfma.name]
    kinds = {"float16": "half", "int8": "signed char", "int32": "int", "float32": "float"}
    kind, total = (kinds.get(t, "double") for t in (operand, result))
    body = f"""{text_of(mfma)}
extern "C" __global__ void k({total}* d, {kind}* a, {kind}* b) {{
  alignas(16) {total} sums[4];
  for (int n = 0; n < 4; ++n) sums[n] = d[(int)threadIdx.x * 4 + n];
  int first = (int)threadIdx.x * {mfma.steps};
  septran_mfma_{mfma.name}((&(sums[0])), a + first, b + first);
  for (int n = 0; n < 4; ++n) d[(int)threadIdx.x * 4 + n] = sums[n];
}}
"""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, size).astype(operand) for size in ((SIDE, mfma.depth),) * 2)
    c = rng.integers(-8, 8, (SIDE, SIDE)).astype(result)
    lanes = {"d": np.zeros((64, HELD), result)}
    for name, matrix in (("a", a), ("b", b)):
        lanes[name] = np.zeros((64, mfma.steps), operand)
        for i in range(SIDE):
            for k in range(mfma.depth):
                lanes[name][OPERANDS[mfma.name](i, k)] = matrix[i, k]
    for i in range(SIDE):
        for j in range(SIDE):
            lanes["d"][RESULTS[mfma.name](i, j)] = c[i, j]
    launch = KernelLaunch("k", 1, 64, 1, 0, tuple(Pointer(n, "", n) for n in ("d", "a", "b")))
    text = f"{prelude(body)}\n{body}"
    emulate(CudaProgram(text, (launch,), (), ("d", "a", "b"), (), "gfx942"), lanes)
    wanted = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64).T
    for i in range(SIDE):
        for j in range(SIDE):
            assert lanes["d"][RESULTS[mfma.name](i, j)] == wanted[i, j]
