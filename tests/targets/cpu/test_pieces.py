"""Windows are packed by whole vectors: pieces of rows, cut by their ends and by padding."""

from __future__ import annotations

import pytest
import torch

import septran
from septran.compiler import produce_stages
from septran.targets.cpu.run.build import annotated

CASES = [  # batch, channels, height, width, outputs, rows, columns, stride, padding, dilation
    (1, 3, 17, 19, 5, 3, 3, 1, 1, 1),
    (2, 64, 7, 7, 20, 3, 3, 1, 1, 1),  # a vector touches two rows
    (1, 40, 14, 14, 33, 3, 3, 1, 1, 1),
    (1, 3, 30, 31, 8, 7, 7, 2, 3, 1),
    (1, 9, 28, 28, 8, 3, 3, 2, 1, 1),
    (1, 300, 12, 12, 20, 1, 1, 1, 0, 1),
    (1, 300, 12, 12, 20, 1, 1, 2, 0, 1),
    (1, 5, 20, 9, 8, 3, 2, 1, 2, 2),
    (1, 4, 6, 5, 8, 3, 3, 1, 1, 1),  # more pieces than are read by vectors
    (1, 30, 24, 24, 8, 3, 3, 3, 1, 1),  # steps of three
    (2, 3, 11, 14, 5, 3, 2, 2, 2, 1),  # half of a vector's lanes are known to be in no piece
]


PACKED = """
    extends: cpu-x86.mapping.yaml
    rules:
      - {match: {task: gemm_core}, proc: HOST, variant: gemm_by_panels, mems: {"*": NONE}}
"""
"""Windows are packed into panels, as they are in place in the shipped mapping."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows_are_right(case):
    b, c, h, w, o, r, s, stride, padding, dilation = case
    torch.manual_seed(0)
    x, f = torch.randn(b, c, h, w), torch.randn(o, c, r, s)
    flags = {"stride": stride, "padding": padding, "dilation": dilation}
    result = septran.compile("conv2d", PACKED, static=flags)(x, f)
    exact = torch.nn.functional.conv2d(x.double(), f.double(), None, stride, padding, dilation)
    size = torch.nn.functional.conv2d(
        x.double().abs(), f.double().abs(), None, stride, padding, dilation
    )
    bound = c * r * s * 2.0**-24 * size + 1e-30  # each of n roundings is half an ulp of a sum
    assert ((result.double() - exact).abs() <= bound).all()


def test_what_lies_outside_is_not_read():
    around = torch.full((1, 1, 18, 16), float("nan"))
    around[:, :, 1:17] = 1.0
    x, f = around[:, :, 1:17], torch.ones(4, 1, 3, 3)
    assert x.is_contiguous()  # so that the kernel reads it where it is, between the NaNs
    result = septran.compile("conv2d", PACKED, static={"padding": 1})(x, f)
    assert not result.isnan().any()


def test_windows_without_padding_or_steps_are_rows():
    # Pixels that pieces of 192 columns divide: no mask is of a last one.
    shapes = {"B": 1, "C": 64, "H": 24, "W": 24, "O": 64, "R": 1, "S": 1}
    text = annotated(produce_stages("conv2d", PACKED, shapes=shapes).tensor_ir)
    assert "truncmod" not in text
    assert "masked" not in text
