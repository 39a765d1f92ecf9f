"""Products whose operands both lie along the summed axis: read in place, summed by vectors."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran.tile.nodes import Copy, nodes

SHAPES = [(1, 64, 64), (1, 1, 1), (1, 7, 3), (2, 17, 100), (3, 33, 129), (4, 40, 4100), (8, 9, 31)]


def product(m, n, k, dtype="float32", **options):
    shapes = {"M": m, "N": n, "K": k}
    static = {"trans_b": True}
    return septran.compile("gemm", "cpu-x86", shapes=shapes, static=static, dtypes=dtype, **options)


def copied(kernel):
    body = kernel.stages.tile_program.body
    return {node.source.buffer for node in nodes(body) if isinstance(node, Copy)}


@pytest.mark.one_in(9)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_extent_and_type(shape, dtype):
    kernel = product(*shape, dtype)
    assert copied(kernel) == set()
    result = kernel.check()
    assert result.right, result


def test_sums_go_on_over_steps():
    kernel = product(3, 21, 300, tunables={"block_K": 70})
    assert copied(kernel) == set()
    assert kernel.check().right


def test_what_lies_behind_a_buffers_end_is_not_summed():
    """Rows of K of 13 elements: a vector reaches into the next row, where NaN is."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((1, 13)).astype("float32")
    b = rng.standard_normal((9, 13)).astype("float32")
    b[4] = np.nan
    c = product(1, 9, 13)(a, b)
    assert np.isnan(c[0, 4])
    assert np.isfinite(np.delete(c, 4)).all()


def test_one_query_reads_its_keys_in_place():
    kernel = septran.compile(
        "attention", "cpu-x86", shapes={"B": 1, "H": 2, "G": 2, "M": 1, "N": 77, "D": 33}
    )
    assert copied(kernel) == set()
    assert kernel.check().right


def test_many_rows_are_packed():
    assert copied(product(64, 256, 64)) == {"B"}
