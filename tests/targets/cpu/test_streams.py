"""Operands that are read in place: walks of the summed axis, transposed sums, even strips."""

from __future__ import annotations

import pytest
import torch

import septran
from septran.compiler import produce_stages
from septran.ir.index import Index
from septran.targets.cpu.gemm.k_loop import MOST_UNROLLED, KLoopNest
from septran.targets.cpu.run.build import annotated
from tests.tiers import slow_but

CASES = [  # batch, groups, channels and outputs a group, height, width, rows, columns, ...
    (1, 1, 64, 40, 56, 56, 3, 3, 1, 1, 1),
    (2, 1, 3, 20, 30, 31, 7, 7, 2, 3, 1),
    (1, 1, 16, 33, 14, 14, 3, 3, 2, 1, 1),
    (1, 3, 5, 7, 13, 11, 3, 2, 1, 2, 2),
    (1, 4, 1, 1, 17, 9, 3, 3, 1, 1, 1),  # a filter for each channel
    (1, 1, 24, 48, 7, 7, 3, 3, 1, 1, 1),  # 49 pixels: strips of six and of five
    (1, 1, 40, 17, 28, 28, 1, 1, 1, 0, 1),  # rows of pixels in place
    (1, 1, 40, 17, 28, 28, 1, 1, 2, 0, 1),
    (1, 1, 40, 17, 8, 8, 1, 1, 1, 0, 1),
    (1, 1, 9, 5, 6, 6, 1, 1, 1, 1, 1),  # one element and padding
    (1, 1, 4, 3, 5, 5, 3, 3, 1, 3, 1),  # windows that lie outside altogether
]


@pytest.mark.one_in(9, first=3)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions_are_right(case, last):
    b, groups, c, o, h, w, r, s, stride, padding, dilation = case
    flags = {"stride": stride, "padding": padding, "dilation": dilation}
    shapes = {"B": b, "C": c * groups, "H": h, "W": w, "O": o * groups, "R": r, "S": s}
    if last:
        shapes |= {"C": c, "O": o}
    else:
        flags["groups"] = groups
    operator = "conv2d_nhwc" if last else "conv2d"
    result = septran.compile(operator, "cpu-x86", shapes=shapes, static=flags).check()
    assert result.right, str(result)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
def test_convolutions_of_every_dtype_are_right(operator, dtype):
    shapes = {"B": 1, "C": 19, "H": 9, "W": 10, "O": 21, "R": 3, "S": 3}
    flags = {"padding": 1}
    kernel = septran.compile(operator, "cpu-x86", shapes=shapes, dtypes=dtype, static=flags)
    result = kernel.check()
    assert result.right, str(result)


@pytest.mark.parametrize("empty", ["B", "C", "O"])
@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
def test_convolutions_of_nothing_are_zero_or_empty(operator, empty):
    sizes = {"B": 1, "C": 3, "H": 5, "W": 6, "O": 4, "R": 3, "S": 3, empty: 0}
    b, c, h, w, o, r, s = (sizes[n] for n in "BCHWORS")
    last = operator == "conv2d_nhwc"
    x = torch.ones((b, h, w, c) if last else (b, c, h, w))
    f = torch.ones((r, s, c, o) if last else (o, c, r, s))
    y = septran.compile(operator, "cpu-x86", static={"padding": 1})(x, f)
    assert y.shape == ((b, h, w, o) if last else (b, o, h, w))
    assert not y.any()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
@pytest.mark.one_in(3)
def test_special_values_stay_in_the_windows_that_hold_them(operator, value):
    torch.manual_seed(0)
    x, f = torch.rand(1, 4, 9, 8) + 1, torch.rand(5, 4, 3, 3) + 1
    x[0, 2, 4, 4] = value
    expected = torch.nn.functional.conv2d(x, f, padding=1)
    kernel = septran.compile(operator, "cpu-x86", static={"padding": 1})
    if operator == "conv2d":
        found = kernel(x, f)
    else:
        found = kernel(x.permute(0, 2, 3, 1).contiguous(), f.permute(2, 3, 1, 0).contiguous())
        found = found.permute(0, 3, 1, 2)
    assert torch.equal(found.isfinite(), expected.isfinite())
    assert torch.equal(found.isnan(), expected.isnan())


def source(operator: str, **sizes) -> str:
    shapes = {"B": 1, "C": 64, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3, **sizes}
    stages = produce_stages(operator, "cpu-x86", shapes=shapes, static={"padding": 1})
    return annotated(stages.tensor_ir)


@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
def test_no_step_of_a_window_divides(operator):
    lines = [line for line in source(operator).splitlines() if "llvm.fmuladd" in line]
    assert lines
    assert not any("truncmod" in line or "Div" in line for line in lines)


def test_windows_are_not_unfolded():
    shapes = {"B": 1, "C": 64, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3}
    for operator in ("conv2d", "conv2d_nhwc"):
        stages = produce_stages(operator, "cpu-x86", shapes=shapes, static={"padding": 1})
        images = [b.shape for b in stages.tile_program.buffers if b.memory == "L3"]
        assert images == [(1, 30, 30, 64)]


TURNED = """
    machine: cpu-x86
    rules:
      - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
      - match: {task: gemm_block}
        proc: CORE
        mems: {A: L2, B: NONE, C: NONE}
        layouts: {A: "panels(0, 16)"}
    tunables: {block_M: 40, block_N: 50, block_K: BLOCK}
"""


@pytest.mark.one_in(4, first=1)
@pytest.mark.parametrize(
    "block", slow_but([1000], [1000, 24])
)  # the whole sum at once, and onto what is there
@pytest.mark.parametrize("shape", [(16, 6, 8), (33, 49, 65), (1, 1, 3), (70, 130, 90)], ids=str)
def test_a_product_is_summed_transposed_where_only_a_has_vectors(shape, block):
    shapes = dict(zip("MNK", shape, strict=True))
    text = TURNED.replace("BLOCK", str(block))
    for flags in ({"trans_b": True}, {}):  # B's columns are no vectors; then they are
        result = septran.compile("gemm", text, shapes=shapes, static=flags).check()
        assert result.right, str(result)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rows", [1, 5, 7, 8, 9, 13, 20, 25, 49])
def test_strips_of_any_height_are_right(rows):
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": rows, "N": 17, "K": 5})
    result = kernel.check()
    assert result.right, str(result)


def test_a_walk_counts_every_step_once():
    walk = KLoopNest((4, 3, 5), (2, 0, 1))
    digits = [{0: a, 1: b, 2: c} for a in range(4) for b in range(3) for c in range(5)]
    numbers = [walk.number({n: Index.of(d) for n, d in step.items()}) for step in digits]
    assert [n.as_int() for n in numbers] == list(range(60))


@pytest.mark.parametrize(
    ("extents", "order", "unrolled"),
    [((3, 3, 64), (0, 1, 2), 0), ((64, 3, 3), (0, 1, 2), 2), ((7, 7, 3), (0, 1, 2), 1)],
    ids=str,
)
def test_short_loops_are_written_out(extents, order, unrolled):
    assert MOST_UNROLLED == 12
    assert KLoopNest(extents, order).unrolled() == unrolled
