"""Attention as FlashAttention-3 schedules it, tiles that are rounded up, NaN beyond the edge."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.emulator import emulation
from septran.targets.cuda.run.compile import compile_text
from septran.targets.cuda.target import TARGET
from septran.tile.nodes import nodes
from tests.tiers import slow_but

MAPPINGS = Path(__file__).parents[3] / "mappings"
MODES = ("eager", "late", "random")
ATTENTION = {
    "causal": ({"M": 130, "N": 400, "D": 64}, "float16", True),
    "a query without keys": ({"M": 200, "N": 60, "D": 64}, "float16", True),
    "full": ({"M": 128, "N": 384, "D": 128}, "bfloat16", False),
    "grouped": ({"M": 100, "N": 300, "D": 128, "H": 2}, "float16", True),
    "256 wide": ({"M": 70, "N": 200, "D": 256}, "float16", True),
}
TILES = (
    ({"M": 8, "N": 72, "K": 200}, "float16"),
    ({"M": 1, "N": 64, "K": 64}, "bfloat16"),
    ({"M": 100, "N": 20, "K": 100}, "float16"),
    ({"M": 8, "N": 40, "K": 96}, "int8"),
)


def cuda(operator="attention", **options):
    stages = septran.produce_stages(operator, "nvidia-h200", **options)
    return TARGET.lower(stages.tile_program).cuda


def attention(width, causal, keys=1024):
    shapes = {"B": 1, "H": 4, "M": 1024, "N": keys, "D": width}
    return cuda(shapes=shapes, dtypes="float16", static={"causal": causal})


@pytest.mark.parametrize("name", slow_but(["grouped"], ATTENTION))
def test_overlapping_products_are_right_in_every_mode(name):
    shapes, dtype, causal = ATTENTION[name]
    kernel = septran.compile(
        "attention", "nvidia-h200", emulate=True, shapes={"B": 1, "H": 1, "G": 1} | shapes,
        dtypes=dtype, static={"causal": causal},
    )  # fmt: skip
    for mode in MODES:
        with emulation(mode=mode, seed=7):
            kernel.check().raise_if_wrong()


def test_two_products_are_under_way_and_warpgroups_take_turns():
    text = attention(128, causal=False).source
    loop = text[text.index("for (int k = 0") :]
    order = re.findall(
        r"bar_sync|wgmma_ss|wgmma_rs|bar_arrive|wait_group_sync_aligned_\d|exp2|st_shared", loop
    )
    waited = loop.index("wait_group_sync_aligned_0")
    assert loop.index("P_ptr)[") < waited  # words of P are read by the product in flight
    assert re.search(r"P_ptr\[[^]]*\] = |\(P_ptr \+", loop).start() > waited
    brief = [a for n, a in enumerate(order) if n == 0 or order[n - 1] != a]
    assert brief[:9] == [
        "bar_sync", "wgmma_ss", "wgmma_rs", "bar_arrive", "wait_group_sync_aligned_1", "exp2",
        "st_shared", "wait_group_sync_aligned_0", "bar_sync",
    ]  # fmt: skip


def test_five_warpgroups_take_turns_and_store_at_barriers_of_their_own(tmp_path):
    """A block has 16 named barriers: 12 and on is no room for five of them."""
    mapping = (MAPPINGS / "nvidia-h200.mapping.yaml").read_text()
    path = tmp_path / "five.mapping.yaml"
    path.write_text(mapping.replace("consumers: 2", "consumers: 5"))
    kernel = septran.compile(
        "attention", path, shapes={"B": 1, "H": 1, "G": 1, "M": 320, "N": 64, "D": 64},
        dtypes="float16", tunables={"block_M": 320, "block_N": 16}, emulate=True,
    )  # fmt: skip
    (role,) = (n for n in nodes(kernel.stages.tile_program.body) if getattr(n, "pingpong", False))
    assert role.count == 5
    for mode in MODES:
        with emulation(mode=mode, seed=7):
            kernel.check().raise_if_wrong()


def test_results_leave_by_tma_where_shared_memory_is_full():
    found = attention(128, causal=True)
    assert "O_map" in {a.name for a in found.launches[0].arguments}
    assert "stmatrix" in found.source


def test_comparisons_of_positions_are_of_a_constant():
    text = attention(64, causal=True).source
    assert "int64_t" not in text[text.index("for (int k = 0") :]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("width", "causal"), [(64, True), (128, False), (128, True), (256, True)])
def test_no_spills_and_no_advisories(width, causal, cuda_compiler):
    compiled = compile_text(attention(width, causal).source, "sm_90a", "attention")
    (figures,) = compiled.figures
    assert figures.spill_store_bytes == figures.spill_load_bytes == 0
    assert compiled.advisories == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
def test_values_that_a_block_does_not_see_may_be_nan(machine):
    shapes = {"B": 1, "H": 1, "G": 1, "M": 130, "N": 300, "D": 64}
    kernel = septran.compile(
        "attention", machine, emulate=True, shapes=shapes, dtypes="float16",
        static={"causal": True},
    )  # fmt: skip
    inputs = kernel.sample(0)
    inputs["V"] = np.array(inputs["V"])
    inputs["V"][:, :, 299] = np.nan  # the first block of queries ends with key 297
    kernel.check(**inputs).raise_if_wrong()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("shapes", "dtype"), TILES)
def test_small_tiles_are_rounded_up_for_tensor_cores(shapes, dtype):
    assert "wgmma.mma_async" in cuda("gemm", shapes=shapes, dtypes=dtype).source
    kernel = septran.compile("gemm", "nvidia-h200", emulate=True, shapes=shapes, dtypes=dtype)
    for mode in MODES:
        with emulation(mode=mode, seed=1):
            kernel.check().raise_if_wrong()
