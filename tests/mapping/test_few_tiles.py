"""Products of fewer tiles than multiprocessors get smaller ones, and no others do."""

from __future__ import annotations

import septran

FEW = {"M": 512, "N": 512, "K": 512}


def tile(operator: str, shapes: dict[str, int], **static: int) -> tuple[int, ...]:
    """The tile of sums that a block has."""
    program = septran.explain(
        operator, machine="nvidia-h200", shapes=shapes, dtypes="float16", static=static
    ).tile_program
    return next(b.shape for b in program.buffers if b.name == "acc")


def test_a_batch_has_its_products_tiles():
    assert tile("gemm", FEW) == (64, 128)
    assert tile("batched_gemm", {"S": 64, **FEW}) == (128, 256)


def test_what_a_window_gathers_is_not_gathered_for_narrower_tiles():
    image = {"B": 32, "H": 7, "W": 7, "C": 512, "R": 3, "S": 3, "O": 512}
    assert tile("conv2d_nhwc", image, stride=1, padding=1) == (64, 128)
