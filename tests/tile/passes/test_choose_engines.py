"""Each copy has an engine that can carry it out, and what was wished for is remarked."""

from __future__ import annotations

import pytest

import septran
from septran.tile.nodes import Copy, nodes


def staged(operator, machine, **options):
    program = septran.produce_stages(operator, machine, **options).tile_program
    copies = [n for n in nodes(program.body) if isinstance(n, Copy)]
    engines = {c.target.buffer: c.engine for c in copies if c.target.buffer.endswith("_SHARED")}
    return program, engines


@pytest.mark.parametrize(
    ("n", "engine", "why"),
    [
        (72, "tma", None),
        (76, "cp_async", "rows of B begin every 152 bytes, not a multiple of 16"),
        (
            75, "gather", "rows of B begin every 150 bytes, not a multiple of 16; nor by "
            "cp_async: its contiguous bytes begin at multiples of 2, not of 4",
        ),
    ],
)  # fmt: skip
def test_rows_decide(n, engine, why):
    shapes = {"M": 128, "N": n, "K": 128}
    program, engines = staged("gemm", "nvidia-h200", shapes=shapes, dtypes="float16")
    assert engines["B_SHARED"] == engine
    if why:
        remark = next(r for r in program.remarks if r.about == "B_SHARED" and r.kind == "missed")
        assert remark.message == f"B is copied by {engine}, not by tma: {why}"


def test_a_window_of_channels_is_made_of_chunks():
    _, engines = staged("conv2d_nhwc", "nvidia-h200", dtypes="float16")
    assert engines == {"A_SHARED": "cp_async", "B_SHARED": "tma"}


@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
def test_turned_operands_keep_the_order_of_their_source(machine):
    static = {"trans_a": True, "trans_b": True}
    shapes = {"M": 128, "N": 64, "K": 96}
    block = 64 if machine == "nvidia-h200" else 32
    program, engines = staged(
        "gemm", machine, shapes=shapes, dtypes="float16", static=static,
        tunables={"block_M": 128, "block_K": block},
    )  # fmt: skip
    assert program.buffer("A_SHARED").shape == (block, 128)
    assert program.buffer("B_SHARED").shape == (64, block)
    assert len(set(engines.values())) == 1
    assert "load_store" not in engines.values()


def test_int8_lies_along_the_sum_for_wgmma():
    program, engines = staged(
        "gemm", "nvidia-h200", shapes={"M": 64, "N": 32, "K": 64}, dtypes="int8"
    )
    assert program.buffer("B_SHARED").shape == (32, 64)
    assert engines["B_SHARED"] == "gather"


def test_ragged_steps_of_the_sum_are_filled_with_zeros():
    shapes = {"M": 64, "N": 64, "K": 75}
    program, _ = staged("gemm", "nvidia-a100", shapes=shapes, dtypes="float16")
    copies = [n for n in nodes(program.body) if isinstance(n, Copy)]
    ragged = [c for c in copies if c.target.buffer in ("A_SHARED", "B_SHARED")]
    assert ragged
    assert all(c.zero_fill for c in ragged if c.target.ragged)


def test_a_box_cannot_put_zeros_before_its_tensor_ends():
    shapes = {"B": 1, "H": 1, "G": 1, "M": 130, "N": 300, "D": 64}
    options = {"dtypes": "float16", "shapes": shapes}
    program, engines = staged("attention", "nvidia-h200", static={"causal": True}, **options)
    assert (engines["K_SHARED"], engines["V_SHARED"]) == ("tma", "cp_async")
    assert any("ends before V does" in r.message for r in program.remarks)
    _, engines = staged("attention", "nvidia-h200", **options)
    assert engines["V_SHARED"] == "tma"
    shapes["M"] = 300  # the last query of each block sees all keys that are there, or ends a tile
    _, engines = staged("attention", "nvidia-h200", static={"causal": True}, **options)
    assert engines["V_SHARED"] == "tma"
