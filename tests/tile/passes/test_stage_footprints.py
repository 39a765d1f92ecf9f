"""Footprints: what a view reads is staged once, and read through the view's own map."""

from __future__ import annotations

import numpy as np
import pytest

from septran import task
from septran.compiler import produce_stages
from septran.tile.interpret.interpreter import interpret
from septran.tile.layouts import ROW, Layout
from septran.tile.nodes import Compute, Copy, nodes
from septran.tile.passes.copies.stage_footprints import FootprintError
from septran.tile.verify.verifier import verify

PLAIN = """
    machine: cpu-x86
    rules: [{match: {level: entry}, proc: HOST, mems: {"*": DRAM}}]
    tunables: {"block_*": 64}
"""
TASKS = {
    "conv2d": ("gemm_core", "B", "footprint(0, 2, 3, 1)"),
    "conv2d_nhwc": ("gemm_core", "A", "footprint"),
}
CASES = [  # height, width, filter, stride, padding, dilation
    (6, 7, 3, 1, 1, 1),
    (6, 7, 3, 1, 0, 1),
    (9, 8, 2, 2, 1, 1),
    (7, 7, 3, 1, 2, 2),
    (4, 5, 1, 2, 0, 1),
    (3, 3, 3, 1, 3, 1),  # some windows lie outside of the image altogether
]


def mapping(name: str, tensor: str, layout: str, blocks: str = "") -> str:
    return f"""
        machine: cpu-x86
        rules:
          - match: {{task: {name}}}
            mems: {{{tensor}: L3}}
            layouts: {{{tensor}: "{layout}"}}
        tunables: {{{blocks or "block_M: 64"}, "block_*": 64}}
    """


def stages(operator, case, text, **sizes):
    h, w, r, stride, padding, dilation = case
    shapes = {"B": 2, "C": 4, "H": h, "W": w, "O": 6, "R": r, "S": r, **sizes}
    flags = {"stride": stride, "padding": padding, "dilation": dilation}
    return produce_stages(operator, text, shapes=shapes, static=flags)


def inputs(program, rng):
    given = [b for b in program.buffers if b.name in program.params and b.name != "Y"]
    return {b.name: rng.integers(-4, 5, b.shape).astype(np.float32) for b in given}


def staged(program):
    return next(b for b in program.buffers if b.memory == "L3")


@pytest.mark.parametrize("operator", TASKS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.one_in(3)
def test_the_box_around_the_windows_gives_what_the_windows_give(operator, case):
    made = stages(operator, case, mapping(*TASKS[operator]))
    program, plain = made.tile_program, stages(operator, case, PLAIN).tile_program
    verify(program)
    given = inputs(program, np.random.default_rng(0))
    for order in ("early", "late"):
        np.testing.assert_array_equal(
            interpret(program, given, order=order)["Y"], interpret(plain, given)["Y"]
        )


def test_the_buffer_is_as_large_as_the_padded_image():
    program = stages("conv2d", CASES[0], mapping(*TASKS["conv2d"])).tile_program
    assert staged(program).shape == (1, 8, 9, 4)
    assert staged(program).layout == ROW


def test_only_borders_are_filled():
    program = stages("conv2d", CASES[0], mapping(*TASKS["conv2d"])).tile_program
    fills = [
        n.operands[0].shape
        for n in nodes(program.body)
        if isinstance(n, Compute) and n.primitive == "fill" and n.operands[0].buffer != "Y"
    ]
    assert fills == [(1, 1, 9, 4), (1, 1, 9, 4), (1, 6, 1, 4), (1, 6, 1, 4)]


def test_an_image_without_padding_is_only_copied():
    program = stages("conv2d", CASES[1], mapping(*TASKS["conv2d"])).tile_program
    copies = [n for n in nodes(program.body) if isinstance(n, Copy)]
    assert [c.source.shape for c in copies] == [(1, 6, 7, 4)]
    assert not any(c.source.padded for c in copies)


def test_boxes_move_with_the_loops_around():
    """Each group has channels of its own, and each batch an image."""
    text = mapping(*TASKS["conv2d"])
    shapes = {"B": 2, "C": 8, "H": 6, "W": 5, "O": 6, "R": 3, "S": 3}
    made = produce_stages("conv2d", text, shapes=shapes, static={"groups": 2, "padding": 1})
    program = made.tile_program
    assert staged(program).shape == (1, 8, 7, 4)
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (2, 8, 6, 5)).astype(np.float32)
    f = rng.integers(-4, 5, (6, 4, 3, 3)).astype(np.float32)
    plain = produce_stages("conv2d", PLAIN, shapes=shapes, static={"groups": 2, "padding": 1})
    expected = interpret(plain.tile_program, {"X": x, "F": f})["Y"]
    np.testing.assert_array_equal(interpret(program, {"X": x, "F": f})["Y"], expected)


def test_boxes_of_whole_rows_reach_into_the_padding_of_some():
    """Blocks of two rows of pixels: the first and the last have a border, the others none."""
    text = mapping("gemm_block", "A", "footprint", "block_M: 14")
    case = (6, 7, 3, 1, 1, 1)
    program = stages("conv2d_nhwc", case, text).tile_program
    verify(program)
    assert staged(program).shape == (1, 4, 9, 4)
    assert any(n.source.padded for n in nodes(program.body) if isinstance(n, Copy))
    given = inputs(program, np.random.default_rng(2))
    expected = interpret(stages("conv2d_nhwc", case, PLAIN).tile_program, given)["Y"]
    np.testing.assert_array_equal(interpret(program, given)["Y"], expected)


def test_where_there_is_no_such_box_elements_are_copied():
    """Blocks of five pixels begin anywhere in a row."""
    text = mapping("gemm_block", "A", "footprint", "block_M: 5")
    program = stages("conv2d_nhwc", CASES[0], text).tile_program
    verify(program)
    assert staged(program).shape == (5, 36)
    missed = [r.message for r in program.remarks if r.passed == "stage_footprints"]
    assert any("element by element" in m for m in missed)


def test_what_is_written_is_copied_whole():
    @task.define(leaf=True)
    def double(X):
        X[:, :] = X * 2

    @task.define
    def twice(X: task.Tensor["M", "N"]):
        task.launch(double, X)

    text = mapping("double", "X", "footprint")
    program = produce_stages(twice, text, shapes={"M": 3, "N": 5}).tile_program
    assert any("it is written" in r.message for r in program.remarks)
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(interpret(program, {"X": x})["X"], 2 * x)


@pytest.mark.parametrize("layout", ["footprint(0, 1)", "footprint(0, 1, 2, 2)"])
def test_an_order_that_is_none_is_refused(layout):
    with pytest.raises(FootprintError, match="does not order the 4 axes of X"):
        assert stages("conv2d", CASES[0], mapping("gemm_core", "B", layout)).tile_program


@pytest.mark.parametrize("text", ["footprint", "footprint(0, 2, 3, 1)"])
def test_a_footprint_is_a_layout_of_mappings(text):
    assert str(Layout.parse(text)) == text
