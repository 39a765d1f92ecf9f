"""Strips and panels of a gemm, whatever is left of its rows and columns."""

from __future__ import annotations

import pytest

import septran
from septran.ir.index import Index
from septran.machine.loader import load_machine
from septran.targets.cpu.context import Context
from septran.targets.cpu.gemm.k_loop import panels
from septran.targets.cpu.gemm.microkernel import Shape
from septran.targets.cpu.run.isa import vector_unit
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.indices import Indices

SHAPE = Shape(6, 16, 16, "float32")


@pytest.mark.parametrize(
    ("rows", "idle"), [(3, False), (6, False), (7, True), (9, True), (10, False), (31, True)]
)
def test_rows_that_keep_no_unit_busy_are_seen(rows, idle):
    assert SHAPE.idles(rows) is idle


@pytest.mark.parametrize(
    ("extent", "widths"),
    [
        (64, [32, 32]),
        (49, [32, 17]),
        (110, [None, 32, 30]),
        (65, [None, 17]),  # two registers of columns are wide enough
        (16, [None, 16]),  # nothing is there to share: of whole panels there are none
    ],
)
def test_no_panel_is_one_register_wide_beside_a_wider_one(extent, widths):
    machine, writer, found = load_machine("cpu-x86"), CpuWriter(), []
    context = Context(writer, Indices(writer), machine, vector_unit(machine))
    with writer.body():
        panels(context, Index.of(extent), 48, lambda _, columns: found.append(columns), 16)
    assert [c and c.constant for c in found] == widths


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (7, 33, 5), (8, 9, 3), (13, 257, 40), (31, 100, 64), (109, 70, 300), (25, 64, 40)],
)
def test_results_are_right(shape):
    kernel = septran.compile("gemm", "cpu-x86", shapes=dict(zip("MNK", shape, strict=True)))
    kernel.check().raise_if_wrong()
