"""Every library operator on the CPU is right by the error bound, whatever the shape."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
import torch

import septran
from septran.targets.cpu.run.threads import usable_cores

EDGES = (1, 2, 7, 15, 16, 17, 31, 33, 48, 49, 65, 97, 129)


def check(operator: str, shapes: dict[str, int], dtype: str = "float32", **options) -> None:
    kernel = septran.compile(operator, "cpu-x86", shapes=shapes, dtypes=dtype, **options)
    result = kernel.check()
    assert result.right, str(result)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (65, 97, 33), (48, 7, 700)], ids=str)
def test_gemm_of_every_dtype_is_right(shape, dtype):
    check("gemm", dict(zip("MNK", shape, strict=True)), dtype)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("operator", "shapes", "step"),
    [
        ("gemm", {"M": 20, "N": 1030, "K": 150}, 128),
        ("swiglu", {"M": 20, "N": 1030, "K": 150}, 64),  # two panels, which L1 holds together
        ("grouped_gemm", {"T": 20, "E": 3, "N": 1030, "K": 150}, 128),
    ],
)
def test_of_many_columns_wide_pieces_of_some_rows_are_packed(vectors, operator, shapes, step):
    """Memory and the tables of its pages give them faster than whole columns."""
    kernel = septran.compile(operator, "cpu-x86", shapes=shapes)
    packed = [b.shape for b in kernel.stages.tile_program.buffers if b.layout.kind == "panels"]
    assert packed
    assert {rows for rows, _ in packed} == {step if vectors == 512 else 128}
    assert min(columns for _, columns in packed) >= 192
    result = kernel.check(guard=True)
    assert result.right, str(result)


def test_a_panel_wider_than_what_is_packed_is_filled_up_with_zeros():
    """What a buffer held before may be denormal as a float, as small integers are."""
    shapes = {"M": 900, "N": 69, "K": 70}  # five columns behind whole panels
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes)
    packing = [x for x in str(kernel.stages.source).splitlines() if x.strip().startswith("B_L3[")]
    assert "masked" in packing[-1]
    # All 16 columns of the last panel are stored, zeros behind the five.
    assert re.search(r" \+ 16\] = T.call_llvm_pure_intrin", packing[-1])
    assert kernel.check(guard=True).right


def test_rows_of_a_part_of_a_long_sum_are_brought_together():
    """They lie so far apart that they share the sets of a cache."""
    kernel = septran.compile("gemm_splitk", "cpu-x86", shapes={"M": 20, "N": 60, "K": 4100})
    program = kernel.stages.tile_program
    rows, step = next(b for b in program.buffers if b.name == "A_L2").shape
    assert (rows, step) == (20, 512)
    assert kernel.check(guard=True).right


def test_a_core_makes_a_small_product_of_a_batch_with_all_rows_at_once():
    """So that each panel is packed once."""
    shapes = {"S": 9, "M": 150, "N": 200, "K": 40}
    kernel = septran.compile("batched_gemm", "cpu-x86", shapes=shapes)
    assert "gemm(C[i, :, " in str(kernel.stages.tile_program)
    assert kernel.check(guard=True).right


def test_two_cores_share_more_rows_in_sections_than_one_block_holds():
    """Blocks of 792 would be three of 2048 rows, and the last of them short."""
    shapes = {"T": 1030, "E": 4, "N": 70, "K": 50}
    kernel = septran.compile("grouped_gemm", "cpu-x86", shapes=shapes)
    blocks = [b.shape for b in kernel.stages.tile_program.buffers if b.name == "acc"]
    assert [rows for rows, _ in blocks] == [512]
    assert kernel.check(guard=True).right


def test_the_sums_of_two_products_leave_the_second_cache_to_their_panels():
    kernel = septran.compile("swiglu", "cpu-x86", shapes={"M": 300, "N": 200, "K": 130})
    sums = {b.name: b.shape for b in kernel.stages.tile_program.buffers}
    assert sums["gate"] == sums["up"] == (128, 192)
    assert kernel.check(guard=True).right


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_of_very_many_columns_wide_pieces_of_bytes_are_packed(vectors, dtype):
    shapes = {"M": 20, "N": 1536 * usable_cores() + 10, "K": 1100}
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, dtypes=dtype)
    packed = [b.shape for b in kernel.stages.tile_program.buffers if b.layout.kind == "panels"]
    assert len(packed) == 1
    assert (packed[0] == (1024, 384)) == (vectors == 512)
    assert kernel.check(guard=True).right


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(8))
def test_gemm_of_random_shapes_and_tiles_is_right(seed):
    rng = random.Random(seed)
    shape = {name: rng.choice(EDGES) for name in "MNK"}
    tiles = {f"block_{name}": rng.choice((1, 5, 16, 50, 200)) for name in "MNK"}
    flags = {"trans_a": rng.random() < 0.5, "trans_b": rng.random() < 0.5}
    check("gemm", shape, tunables=tiles, static=flags)


@pytest.mark.one_in(4, first=1)
@pytest.mark.parametrize("act", ["none", "relu", "gelu", "silu"])
def test_epilogues_are_right(act):
    check("gemm_bias_act", {"M": 65, "N": 47, "K": 33}, static={"act": act})


@pytest.mark.parametrize("shape", [(1, 1), (3, 1000), (129, 7), (17, 33), (64, 64)], ids=str)
@pytest.mark.one_in(2)
def test_softmax_is_right(shape):
    check("softmax", dict(zip("MN", shape, strict=True)))


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_right(causal):
    sizes = {"B": 1, "H": 2, "G": 2, "M": 65, "N": 97, "D": 17}
    check("attention", sizes, static={"causal": causal})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("options", [{}, {"padding": 1}, {"stride": 2, "padding": 2}], ids=str)
def test_convolution_is_right(options):
    sizes = {"B": 2, "C": 3, "H": 11, "W": 14, "O": 5, "R": 3, "S": 2}
    check("conv2d", sizes, static=options)


def test_batched_gemm_is_right():
    check("batched_gemm", {"S": 3, "M": 49, "N": 17, "K": 65})


def test_int8_products_are_exact_beyond_what_float32_sums():
    a = np.full((5, 3000), -128, np.int8)
    b = np.full((3000, 5), -128, np.int8)
    kernel = septran.compile("gemm", "cpu-x86", tunables={"block_K": 3000})
    np.testing.assert_array_equal(kernel(a, b), np.full((5, 5), 3000 * 128 * 128, np.int32))


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0, 0)], ids=str)
def test_empty_results_are_empty(shape):
    m, n, k = shape
    kernel = septran.compile("gemm", "cpu-x86")
    assert kernel(np.ones((m, k), "f4"), np.ones((k, n), "f4")).shape == (m, n)


def test_an_empty_sum_is_zero():
    kernel = septran.compile("gemm", "cpu-x86")
    np.testing.assert_array_equal(kernel(np.ones((3, 0), "f4"), np.ones((0, 2), "f4")), 0)


def test_misaligned_views_are_taken():
    a = torch.randn(64 * 48 + 1)[1:].view(64, 48)
    b = torch.randn(48 * 33 + 3)[3:].view(48, 33)
    c = torch.empty(64 * 33 + 1)[1:].view(64, 33)
    septran.compile("gemm", "cpu-x86")(a, b, out=c)
    torch.testing.assert_close(c, a @ b)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_softmax_treats_special_values_as_torch(value):
    x = np.random.default_rng(0).standard_normal((4, 37)).astype("f4")
    x[1, 5], x[2, :] = value, value
    found = septran.compile("softmax", "cpu-x86")(x)
    expected = torch.softmax(torch.from_numpy(x), 1).numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_nan_times_zero_stays_nan():
    a, b = np.zeros((9, 9), "f4"), np.zeros((9, 9), "f4")
    a[4, 4] = np.nan
    found = septran.compile("gemm", "cpu-x86")(a, b)
    assert np.isnan(found[4]).all()
    assert np.isnan(found).sum() == 9
