"""Few rows of bytes times a matrix that is read in place, its rows interleaved in registers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import septran
from tests.targets.cpu.test_group_dots import KINDS, product, random, vnni

__all__ = ["vnni"]
SIZES = [(1, 1024, 64), (1, 515, 13), (4, 1090, 31), (3, 640, 9)]
"""M, N, K: whole tiles and groups, and neither."""


def made(m, n, k, kinds):
    return septran.compile(
        "gemm",
        "cpu-x86",
        shapes={"M": m, "N": n, "K": k},
        dtypes=dict(zip("CAB", ("int32", *kinds), strict=True)),
    )


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kinds", [(a, b) for a in KINDS for b in KINDS], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_few_rows_are_exact(vnni, sizes, kinds):
    del vnni
    m, n, k = sizes
    rng = np.random.default_rng(m * n + k)
    a, b = random(rng, (m, k), kinds[0]), random(rng, (k, n), kinds[1])
    kernel = made(m, n, k, kinds)
    assert "copy(" not in str(kernel.stages.tile_program.body)
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), product(a, b))


def test_nothing_beyond_the_operands_is_read(vnni):
    del vnni
    checked = made(3, 579, 14, ("int8", "int8")).check(guard=True)
    assert checked.right, str(checked)


def test_rows_are_interleaved_and_multiplied_without_being_stored(vnni):
    if vnni != "host":
        pytest.skip("plain operations stand in for the instructions")
    assembly = made(1, 4096, 4096, ("int8", "int8")).stages.source.parts["assembly"]
    # Of four rows two steps of two each make four vectors, which are multiplied once.
    interleaved = len(re.findall(r"\bvpunpck[lh](?:bw|wd)\b", assembly))
    assert interleaved == 2 * len(re.findall(r"\bvpdpbusd\b", assembly)) > 0
