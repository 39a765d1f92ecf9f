"""The least cycles of a tile program, against figures worked out by hand."""

from __future__ import annotations

import pytest

from septran.compiler import produce_stages
from septran.operators import names
from septran.tile.analyses.cycle_bound import cycle_bound
from septran.tuning.model import predict
from tests.tiers import in_turn


def bound(name="gemm", machine="dsa-sim", **settings):
    return cycle_bound(produce_stages(name, machine, **settings).tile_program)


def test_the_matrix_unit_limits_a_large_product():
    found = bound(shapes={"M": 1024, "N": 1024, "K": 1024}, dtypes="float16")
    by = found.by
    calls = (1024 // 128) * (1024 // 64) * (1024 // 256)
    assert by.name == "MMA"
    assert by.busy == (1024 // 16) ** 3 * 16 + calls * 8
    # the first tiles of A and B at 32 bytes a cycle, 200 cycles after they were asked for
    assert by.prologue == (128 * 256 + 256 * 64) * 2 // 32 + 200
    # one output tile is rounded by 16 lanes, then leaves at 32 bytes a cycle
    assert by.epilogue == 8 + 128 * 64 // 16 + 128 * 64 * 2 // 32 + 200
    assert found.cycles == by.busy + by.prologue + by.epilogue


def test_every_byte_and_the_shared_port_are_counted():
    found = {u.name: u.busy for u in bound(shapes={"M": 256, "N": 128, "K": 512}).units}
    moved_in = (256 // 128) * (128 // 64) * 512 * (128 + 64) * 4
    assert found["dma_in"] == moved_in // 32
    assert found["dma_out"] == 256 * 128 * 4 // 32
    assert found["GLOBAL"] == found["dma_in"] + found["dma_out"]


def test_ragged_edges_cost_whole_blocks_of_the_matrix_unit_and_real_bytes():
    found = {u.name: u.busy for u in bound(shapes={"M": 33, "N": 20, "K": 17}).units}
    assert found["MMA"] == 3 * 2 * 2 * 16 + 8
    assert found["dma_out"] == -(-33 * 20 * 4 // 32)


def test_cores_share_the_work_but_not_the_port():
    settings = {"shapes": {"M": 512, "N": 512, "K": 512}, "dtypes": "float16"}
    found = {u.name: u.busy for u in bound(machine="npu-cube", **settings).units}
    assert found["CUBE"] > (512 // 16) ** 3 / 2
    assert found["CUBE"] < (512 // 16) ** 3
    assert found["GLOBAL"] >= (512 * 512 * 3) * 2 / 256


TAKES_LONG = ("attention_backward", "attention_varlen", "moe", "moe_layer", "paged_prefill")


@pytest.mark.parametrize(
    ("name", "machine"), in_turn(names(), ["dsa-sim", "npu-cube"], slow=TAKES_LONG)
)
@pytest.mark.one_in(3, first=2)
def test_every_operator_has_one(name, machine):
    found = bound(name, machine)
    assert found.cycles >= max(unit.busy for unit in found.units) > 0
    assert str(found).startswith(f"bound: {found.cycles:,} cycles (")


def test_the_model_tells_it_for_dsas_only():
    assert predict(produce_stages("gemm", "dsa-sim").tile_program).cycles is not None
    assert predict(produce_stages("gemm", "cpu-x86").tile_program).cycles is None
