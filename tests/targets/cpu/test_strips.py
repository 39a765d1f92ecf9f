"""Strips and panels of a gemm, whatever is left of its rows and columns."""

from __future__ import annotations

import pytest

import septran
from septran.targets.cpu.gemm.microkernel import Shape

SHAPE = Shape(6, 16, 16, "float32")


@pytest.mark.parametrize(
    ("rows", "idle"), [(3, False), (6, False), (7, True), (9, True), (10, False), (31, True)]
)
def test_rows_that_keep_no_unit_busy_are_seen(rows, idle):
    assert SHAPE.idles(rows) is idle


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (7, 33, 5), (8, 9, 3), (13, 257, 40), (31, 100, 64), (109, 70, 300)]
)
def test_results_are_right(shape):
    kernel = septran.compile("gemm", "cpu-x86", shapes=dict(zip("MNK", shape, strict=True)))
    kernel.check().raise_if_wrong()
