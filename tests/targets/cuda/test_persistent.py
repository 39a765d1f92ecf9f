"""Blocks that stay, and tiles in groups: the default for products on the H200, always right."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

import septran
from septran.emulator import emulation
from septran.machine.loader import load_machine
from tests.tiers import slow_but

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
TILES = {"block_M": 64, "block_N": 64, "block_K": 32}
ODD = {"M": 200, "N": 328, "K": 136}
"""4 x 6 tiles, all edges ragged."""


def few(blocks):
    """An H200 with few multiprocessors, so that small grids have several turns."""
    h200 = load_machine("nvidia-h200")
    processors = [replace(p, count=blocks) if p.name == "BLOCK" else p for p in h200.processors]
    return replace(h200, processors=tuple(processors))


def said(kernel, passed):
    return [r.message for r in kernel.stages.tile_program.remarks if r.passed == passed]


def right(kernel):
    for mode in ("eager", "late", "random"):
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


@pytest.mark.parametrize("blocks", slow_but([5, 24], [2, 5, 23, 24, 132]))
@pytest.mark.one_in(2)
def test_a_product_is_right_with_any_number_of_blocks(blocks):
    """More turns than blocks, a last turn for some of them, one for each, and blocks to spare."""
    kernel = septran.compile(
        "gemm", "nvidia-h200", machine=few(blocks), shapes=ODD, dtypes="float16", tunables=TILES,
        emulate=True,
    )  # fmt: skip
    right(kernel)
    (launch,) = kernel.stages.tensor_ir.cuda.launches
    assert launch.grid == min(blocks, 24)
    stays = f"{blocks} BLOCK stay and take the iterations in turn (persistent)"
    alone = "each of 24 iterations has a BLOCK of its own: none stays for a second one (persistent)"
    assert said(kernel, "persist") == [stays if blocks < 24 else alone]
    group = "tiles are taken in groups of 4 rows, column by column (raster: 8)"
    once = "all 24 tiles run at one time, in any order (raster: 8)"
    assert said(kernel, "rasterise") == [group if blocks < 24 else once]


OTHERS = {
    "int8": ("gemm", {"M": 130, "N": 130, "K": 96}, "int8", {"trans_b": True}),
    "chunks": ("gemm", {"M": 130, "N": 130, "K": 70}, "float16", {}),
    "by threads": ("gemm", {"M": 130, "N": 130, "K": 70}, "float32", {}),
    "convolution": (
        "conv2d_nhwc", {"B": 2, "H": 12, "W": 14, "C": 16, "R": 3, "S": 3, "O": 72}, "float16", {},
    ),
    "a batch": ("batched_gemm", {"S": 2, "M": 130, "N": 130, "K": 72}, "float16", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_but(["int8", "chunks", "a batch"], OTHERS))
@pytest.mark.one_in(2)
def test_other_products_are_right_when_blocks_stay(name):
    operator, shapes, dtype, static = OTHERS[name]
    kernel = septran.compile(
        operator, "nvidia-h200", machine=few(2), shapes=shapes, dtypes=dtype, static=static,
        tunables=TILES, emulate=True,
    )  # fmt: skip
    assert said(kernel, "persist") == ["2 BLOCK stay and take the iterations in turn (persistent)"]
    right(kernel)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (16, 30, "groups of 8 rows, column by column"),
        (10, 30, "groups of 10 rows, column by column"),
        (23, 24, "groups of 8 columns, row by row"),
        (23, 29, "`raster: 8` changes nothing: 23 x 29 tiles are no groups of rows"),
    ],
)
def test_groups_are_whole(rows, columns, message):
    shapes = {"M": 128 * rows, "N": 256 * columns, "K": 64}
    stages = septran.produce_stages("gemm", "nvidia-h200", shapes=shapes, dtypes="float16")
    (remark,) = [r for r in stages.tile_program.remarks if r.passed == "rasterise"]
    assert message in remark.message
