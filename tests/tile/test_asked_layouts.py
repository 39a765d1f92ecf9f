"""Layouts that a mapping asks for and no buffer can have are told at their line."""

from __future__ import annotations

import pytest

import septran
from septran.errors import SepTranError
from septran.targets.dsa.context import UnsupportedByDsaError
from septran.tile.verify.bijection import LayoutError

MAPPING = """
machine: {machine}
extends: {machine}.mapping.yaml
rules:
  - {{match: {{task: {task}}}, layouts: {{{tensor}: "{layout}"}}}}
"""


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim"])
@pytest.mark.parametrize(
    ("tensor", "layout", "message"),
    [
        ("s", "column", "column is for 2 axes or more, and s is [20]"),
        ("s", "fractal(4, 4)", "fractal(4, 4) is for 2 axes or more"),
        ("s", "panels(1, 16)", "panels(1, 16) is for 2 axes or more"),
        ("e", "panels(1, 0)", "cuts into parts of no elements"),
        ("e", "padded", "layout padded takes 1 number(s), not 0"),
        ("e", "swizzle128", "has no swizzles"),
    ],
)
def test_a_layout_that_cannot_be_is_told_where_it_is_asked_for(machine, tensor, layout, message):
    text = MAPPING.format(machine=machine, task="softmax_rows", tensor=tensor, layout=layout)
    shapes = {"M": 20, "N": 70}
    if machine == "dsa-sim":
        shapes = {"M": 20, "N": 300}  # 8 rows
        message = message.replace("[20]", "[8]")
    with pytest.raises(LayoutError) as caught:
        septran.produce_stages("softmax", text, shapes=shapes).tile_program  # noqa: B018
    assert message in str(caught.value)
    assert caught.value.where.line == 5


@pytest.mark.parametrize(
    ("machine", "task", "tensor", "layout"),
    [
        ("dsa-sim", "gemm_block", "acc", "fractal(4, 4)"),
        ("npu-cube", "gemm_block", "acc", "padded(8)"),
        ("npu-cube", "gemm_tile", "A", "padded(8)"),
    ],
)
def test_a_matrix_unit_takes_blocks_or_rows_as_its_file_says(machine, task, tensor, layout):
    text = MAPPING.format(machine=machine, task=task, tensor=tensor, layout=layout)
    stages = septran.produce_stages(
        "gemm", text, shapes={"M": 32, "N": 64, "K": 32}, dtypes="float16"
    )
    with pytest.raises(UnsupportedByDsaError, match=r"takes [CA] as ") as caught:
        stages.tensor_ir  # noqa: B018
    assert caught.value.where.text[caught.value.where.column - 1 :].startswith(f'"{layout}"')
    assert caught.value.related[0][1].short_file == "septran/operators/gemm.py"


@pytest.mark.parametrize(
    ("machine", "tensor", "layout", "message"),
    [
        ("dsa-sim", "A", "column", "dma_in cannot change the layout from A (row)"),
        ("npu-cube", "A", "fractal(3, 5)", "cube reads A_L0A as fractal(16, 16)"),
        ("npu-cube", "A", "column", "mte2 cannot change the layout"),  # upstream of the buffer
        ("nvidia-h200", "A", "padded(16)", "tma cannot change the layout"),
        ("nvidia-h200", "A", "swizzle32", "wgmma reads A_SHARED as swizzle(64)"),
    ],
)
def test_a_conversion_that_cannot_be_is_told_at_the_entry_that_asks(
    machine, tensor, layout, message
):
    text = MAPPING.format(machine=machine, task="gemm_tile", tensor=tensor, layout=layout)
    shapes = {"M": 40, "N": 72, "K": 88}
    kind = None if machine == "dsa-sim" else "float16"
    with pytest.raises(SepTranError) as caught:
        septran.produce_stages("gemm", text, shapes=shapes, dtypes=kind).tile_program  # noqa: B018
    for error in getattr(caught.value, "errors", (caught.value,)):
        assert isinstance(error, LayoutError)
        assert message in error.message
        assert error.where.line == 5
        assert error.where.text[error.where.column - 1 :].startswith(f'"{layout}"')
        word, place = error.related[0]
        assert word == "it is used here"
        assert place.short_file == "septran/operators/gemm.py"
