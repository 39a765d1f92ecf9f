"""What blocks of one wave read in common counts once."""

from __future__ import annotations

import pytest

import septran
from septran.tile.analyses.loops import walk
from septran.tile.nodes import Copy
from septran.tuning.model import distinct_share, predict

TILES = {"block_M": 128, "block_N": 128, "block_K": 64}


def program(field, rows, columns):
    mapping = f"extends: nvidia-h200.mapping.yaml\nrules: [{{match: {{holds: parallel}}, {field}}}]"
    return septran.produce_stages(
        "gemm", mapping, shapes={"M": 128 * rows, "N": 128 * columns, "K": 128}, dtypes="float16",
        tunables=TILES,
    ).tile_program  # fmt: skip


def shares(found, units=132):
    """By tensor, the part of all reads that is the first in its wave."""
    return {
        node.source.buffer: distinct_share(node.source, loops, units, "BLOCK")
        for node, loops in walk(found.body)
        if isinstance(node, Copy) and node.source.buffer in ("A", "B")
    }


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_one_wave_reads_each_row_and_column_once(persistent):
    found = program(f"persistent: {persistent}, raster: 1", 8, 12)
    assert shares(found) == {"A": pytest.approx(1 / 12), "B": pytest.approx(1 / 8)}


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_wave_of_long_rows_shares_little_and_of_groups_much(persistent):
    """24 x 264 tiles: a wave is half a row, or 8 rows of 16 or 17 columns."""
    long = shares(program(f"persistent: {persistent}, raster: 1", 24, 264))
    assert long == {"A": pytest.approx(1 / 132), "B": 1.0}
    grouped = shares(program(f"persistent: {persistent}, raster: 8", 24, 264))
    assert grouped["B"] == pytest.approx(17.5 / 132, rel=0.05)
    assert grouped["A"] == pytest.approx(8 / 132, rel=0.05)


def test_the_prediction_counts_what_comes_from_memory():
    def fetched(found):
        (edge,) = [x for x in predict(found).limits if x.name == "GLOBAL -> SHARED"]
        return edge.amount

    long, grouped = (fetched(program(f"raster: {n}", 24, 264)) for n in (1, 8))
    assert grouped < long / 3
    tensors = 2 * 128 * (128 * 24 + 128 * 264)
    assert fetched(program("raster: 1", 8, 12)) == 2 * 128 * 128 * (8 + 12)
    assert grouped > tensors
