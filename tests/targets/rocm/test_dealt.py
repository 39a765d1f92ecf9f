"""Rows and columns that are dealt to tiles in turn: results are right however operands lie."""

import numpy as np
import pytest

import septran
from septran.emulator import emulate

M, N, K = 256, 128, 64


@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_a_product_of_whole_tiles_is_right(dtype, trans_a, trans_b):
    stages = septran.produce_stages(
        "gemm", "amd-mi300x", shapes={"M": M, "N": N, "K": K}, dtypes=dtype,
        static={"trans_a": trans_a, "trans_b": trans_b},
    )  # fmt: skip
    rng = np.random.default_rng(3)
    # Small whole numbers: every sum of them is exact.
    a, b = (rng.integers(-4, 5, s).astype(dtype) for s in ((M, K), (K, N)))
    c = np.zeros((M, N), np.int32 if dtype == "int8" else dtype)
    given = [np.ascontiguousarray(x.T) if t else x for x, t in ((a, trans_a), (b, trans_b))]
    emulate(stages.tensor_ir.cuda, {"C": c, "A": given[0], "B": given[1]})
    assert np.array_equal(c, a.astype(float) @ b.astype(float))
