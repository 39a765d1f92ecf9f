"""What is left of rows and columns: nothing is read or written where there is nothing."""

from __future__ import annotations

import pytest

import septran
from septran.fuzz import make_case, run_case

pytestmark = pytest.mark.both_widths

PRODUCTS = [  # M, N, K: columns that are left differ from block to block
    (131, 67, 1021, "float32"),
    (61, 282, 817, "float16"),
    (199, 108, 864, "float32"),
    (37, 131, 70, "float64"),
    (130, 49, 33, "bfloat16"),
]


@pytest.mark.parametrize(("m", "n", "k", "dtype"), PRODUCTS, ids=str)
def test_ragged_columns_read_no_panel_that_is_not_there(m, n, k, dtype):
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": m, "N": n, "K": k}, dtypes=dtype)
    kernel.check().raise_if_wrong()


def test_a_filter_of_one_row_is_packed_into_its_own_panel():
    """Seed 20099 once: elements that are a panel's width apart were written beyond it."""
    outcome = run_case(make_case(20099))
    assert outcome.kind == "right", outcome
