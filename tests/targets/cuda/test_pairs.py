"""Two short floats at a time: the same bits as one after another."""

from __future__ import annotations

import re
import shutil

import ml_dtypes
import numpy as np
import pytest

import septran
from septran import task
from septran.targets.cuda.fragment.halves import FUNCTIONS, HALVES

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
FLOATS = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@task.define(leaf=True)
def all_three(S, D, P, A, B):
    """A sum, a difference and a product of the same two."""
    S[:, :] = A + B
    D[:, :] = A - B
    P[:, :] = A * B


@task.define
def computed(
    S: task.Tensor["M", "N"],
    D: task.Tensor["M", "N"],
    P: task.Tensor["M", "N"],
    A: task.Tensor["M", "N"],
    B: task.Tensor["M", "N"],
):
    """One block."""
    task.launch(all_three, S, D, P, A, B)


@task.define(leaf=True)
def unpack_leaf(L, H, W, Z):
    """Some bits of bytes, less a number."""
    L[:, :] = (W & 15).astype(task.float32) - Z
    H[:, :] = ((W >> 3) & 30).astype(task.float32) * Z


@task.define
def unpacked(
    L: task.Tensor["M", "N"],
    H: task.Tensor["M", "N"],
    W: task.Tensor["M", "N", task.uint8],
    Z: task.Tensor["M", "N"],
):
    """One block."""
    task.launch(unpack_leaf, L, H, W, Z)


def numbers(dtype, seed):
    """Any bits: numbers of all sizes, subnormal ones, infinities and NaN; and nearly equal ones."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 16, (64, 96), dtype=np.uint16)
    bits[::2] = rng.integers(0x3C00, 0x4000, (32, 96), dtype=np.uint16)
    return bits.view(FLOATS[dtype])


def compiled(logic, machine, dtype):
    kernel = septran.compile(logic, machine, shapes={"M": 64, "N": 96}, dtypes=dtype, emulate=True)
    return kernel, str(kernel.stages.source.text)


def equal(found, wanted):
    """Whether all bits are, but those that say which NaN it is."""
    found, wanted = (np.asarray(x) for x in (found, wanted))
    no_number = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), no_number)
    bits = [np.where(no_number, 0, x.view(np.uint16)) for x in (found, wanted)]
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize(
    ("machine", "dtype"),
    [("nvidia-h200", "float16"), ("nvidia-h200", "bfloat16"), ("nvidia-a100", "float16")],
)
def test_sums_differences_and_products_have_the_bits_of_float32_rounded_once(machine, dtype):
    kernel, text = compiled(computed, machine, dtype)
    for name in FUNCTIONS.values():
        assert f"{name}.rn.{HALVES[dtype].ptx}" in text
    a, b = numbers(dtype, 1), numbers(dtype, 2)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float32), b.astype(np.float32)
        wanted = [z.astype(FLOATS[dtype]) for z in (x + y, x - y, x * y)]
    for found, right in zip(kernel(a, b), wanted, strict=True):
        equal(found, right)


def test_bfloat16_is_computed_one_by_one_where_no_instruction_takes_two():
    _, text = compiled(computed, "nvidia-a100", "bfloat16")
    assert "rn.bf16x2" not in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_bits_of_bytes_are_such_floats(dtype):
    kernel, text = compiled(unpacked, "nvidia-h200", dtype)
    # No byte is converted by itself.
    assert not re.search(r"\(float\)", text)
    w = np.arange(64 * 96, dtype=np.int64).astype(np.uint8).reshape(64, 96)
    z = numbers(dtype, 3)
    with np.errstate(all="ignore"):
        wide = z.astype(np.float32)
        low = ((w & 15).astype(np.float32) - wide).astype(FLOATS[dtype])
        high = (((w >> 3) & 30).astype(np.float32) * wide).astype(FLOATS[dtype])
    for found, right in zip(kernel(w, z), (low, high), strict=True):
        equal(found, right)


@task.define(leaf=True)
def whole_bytes_leaf(Y, W, Z):
    """More than bfloat16 has, exactly, below its power of two."""
    Y[:, :] = W.astype(task.float32) - Z


@task.define
def whole_bytes(
    Y: task.Tensor["M", "N"],
    W: task.Tensor["M", "N", task.uint8],
    Z: task.Tensor["M", "N"],
):
    """One block."""
    task.launch(whole_bytes_leaf, Y, W, Z)


@pytest.mark.parametrize(("dtype", "packed"), [("float16", True), ("bfloat16", False)])
def test_whole_bytes_are_where_they_fit(dtype, packed):
    kernel, text = compiled(whole_bytes, "nvidia-h200", dtype)
    assert (f"sub.rn.{HALVES[dtype].ptx}" in text) == packed
    w = np.arange(64 * 96, dtype=np.int64).astype(np.uint8).reshape(64, 96)
    z = numbers(dtype, 4)
    with np.errstate(all="ignore"):
        right = (w.astype(np.float32) - z.astype(np.float32)).astype(FLOATS[dtype])
    equal(kernel(w, z), right)


def test_results_of_8_bits_go_through_shared_memory_and_are_converted_by_pairs():
    kernel = septran.compile(
        "gemm", "nvidia-h200", shapes={"M": 128, "N": 256, "K": 128},
        static={"trans_b": True}, dtypes="float8_e4m3fn", tunables={"block_M": 128, "block_N": 256},
        emulate=True,
    )  # fmt: skip
    text = str(kernel.stages.source.text)
    assert "septran_pair_e4m3(" in text
    assert "C_map" in text
    assert not [r for r in kernel.remarks if "not by TMA" in r.message]
    kernel.check().raise_if_wrong()
    # One product a sum: what it rounds to beyond 448 is NaN, up to 464 it is 448.
    f8 = ml_dtypes.float8_e4m3fn
    a, b = np.zeros((128, 128), np.float32), np.zeros((256, 128), np.float32)
    a[:, 0] = np.resize(np.float32([256, -256, 448, 1, 2**-6]), 128)
    b[:, 0] = np.resize(np.float32([1, 1.75, 1.8125 * 1, 1.875, 2, 448, 2**-7]), 256)
    found = np.asarray(kernel(a.astype(f8), b.astype(f8))).astype(np.float32)
    exact = a[:, :1].astype(f8).astype(np.float32) * b[:, :1].astype(f8).astype(np.float32).T
    wanted = exact.astype(f8).astype(np.float32)
    assert np.isnan(wanted).any()
    assert (np.abs(wanted) == 448).any()
    np.testing.assert_array_equal(found, wanted)


def test_a_kernel_that_may_start_early_waits_before_it_reads():
    kernel = septran.compile(
        "gemm_splitk", "nvidia-h200", shapes={"M": 64, "N": 64, "K": 4096}, dtypes="float16",
        emulate=True,
    )  # fmt: skip
    launches = kernel.stages.tensor_ir.cuda.launches
    assert [launch.dependent for launch in launches] == [n > 0 for n in range(len(launches))]
    assert len(launches) > 1
    text = str(kernel.stages.source.text)
    for launch in launches:
        body = re.split(rf"\b{launch.kernel}\([^;]*?\) \{{\n", text)[1]
        first = body.lstrip().splitlines()[0]
        assert ("griddepcontrol_wait" in first) == launch.dependent
    kernel.check().raise_if_wrong()
    ampere = septran.compile(
        "gemm_splitk", "nvidia-a100", shapes={"M": 64, "N": 64, "K": 4096}, dtypes="float16",
        emulate=True,
    )  # fmt: skip
    assert not any(launch.dependent for launch in ampere.stages.tensor_ir.cuda.launches)


def test_a_row_that_something_is_added_to_is_multiplied_by_a_tensor_core():
    for name in ("gemm_bias_act", "dequant_gemm"):
        kernel = septran.compile(
            name, "nvidia-h200", shapes={"M": 1, "N": 256, "K": 256}, dtypes="float16",
            emulate=True,
        )  # fmt: skip
        assert "wgmma" in str(kernel.stages.tile_program)
        kernel.check().raise_if_wrong()
