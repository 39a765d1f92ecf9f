"""AMX: its instructions are in the text of code for it, and what stands in for them is right."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import septran
from septran.machine.loader import NATIVE_IS
from septran.targets.cpu.gemm.tile_registers import BYTE_DOTS, TDPBF16PS, TileRegisters
from septran.targets.cpu.run import build, isa
from septran.targets.cpu.run.isa import lacking, native
from septran.targets.cpu.run.permission import TilesRefusedError, ask_for_tiles, uses_tiles

KINDS = ["int8", "uint8"]
SIZES = [(32, 32, 64), (33, 50, 31), (47, 35, 150), (16, 16, 129), (70, 1, 7), (5, 40, 66)]
"""M, N, K."""


@pytest.fixture
def amx(monkeypatch):
    """A processor with AMX; its registers are in memory."""
    monkeypatch.setenv(NATIVE_IS, "amx")


def of_types(result, left, right):
    return dict(zip("CAB", (result, left, right), strict=True))


def any_bytes(rng, shape, dtype):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def by_tiles(kernel):
    assert "by amx_" in str(kernel.stages.tile_program)
    return "septran_tile_configure" in kernel.stages.tensor_ir.text


# --------------------------------------------------------------------- what stands in, by itself
def product_of_registers(dot, rows, c, a, b):
    """Run one instruction on three registers, of which two have so many rows."""
    import tvm
    from tvm import tirx

    from septran.targets.cpu.writer import CpuWriter

    writer = CpuWriter()
    buffers = [
        tirx.decl_buffer((x.size,), kind, name)
        for x, kind, name in zip((c, a, b), (dot.sums, "int32", "int32"), "CAB", strict=True)
    ]
    registers = TileRegisters(writer, "x86-64-v3")
    registers.configure(writer.index(rows))
    for number, buffer in zip((1, 5, 6), buffers, strict=True):
        registers.load(number, buffer, writer.index(0), 64)
    registers.dot(dot, 1, 5, 6)
    registers.store(1, buffers[0], writer.index(0), 64)
    registers.release()
    module = tvm.IRModule({"run": writer.function("run", buffers)})
    held = [tvm.runtime.tensor(x) for x in (c, a, b)]
    build.compile_module(module, "x86-64-v3")["run"](*held)
    return held[0].numpy()


@pytest.mark.parametrize("signs", BYTE_DOTS, ids=str)
def test_bytes_are_multiplied_with_their_signs_and_sums_wrap(signs):
    rng = np.random.default_rng(3)
    a, b = any_bytes(rng, (16, 64), signs[0]), any_bytes(rng, (16, 64), signs[1])
    c = rng.integers(-(2**31), 2**31, (16, 16)).astype("int32")
    c[0, :2] = np.iinfo("int32").max, np.iinfo("int32").min
    columns = b.reshape(16, 16, 4).transpose(0, 2, 1).reshape(64, 16)  # as they were before packing
    exact = c + a.astype(np.int64) @ columns.astype(np.int64)
    words = [np.ascontiguousarray(x).view("int32").ravel() for x in (a, b)]
    found = product_of_registers(BYTE_DOTS[signs], 16, c.ravel(), *words).reshape(16, 16)
    np.testing.assert_array_equal(found, exact.astype("int32"))


def rounded(values):
    """To float32; zeros of the same sign below its normal numbers."""
    values = np.asarray(values, np.float64).astype(np.float32)
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def as_the_manual_says(c, a, b):
    """TDPBF16PS step by step; no number has more bits than float64 adds up exactly."""
    even, odd = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    a, b = (rounded(x).astype(np.float64) for x in (a, b))
    for k in range(16):
        even = rounded(even + np.outer(a[:, 2 * k], b[k, 0::2]))
        odd = rounded(odd + np.outer(a[:, 2 * k + 1], b[k, 1::2]))
    return rounded(rounded(c) + rounded(even.astype(np.float64) + odd).astype(np.float64))


def test_pairs_of_bfloat16_are_summed_as_the_manual_says():
    rng = np.random.default_rng(4)
    a, b = (rng.uniform(0.5, 4, (16, 32)) * rng.choice([-1, 1], (16, 32)) for _ in range(2))
    a, b = (x.astype(ml_dtypes.bfloat16) for x in (a, b))
    c = rng.standard_normal((16, 16)).astype("float32")
    a[3, 4], b[5, 6], c[7, 8] = 2.0**-130, -(2.0**-128), 2.0**-140  # which count as zeros
    a[9], b[:, 10] = 0, 0
    a[9, 2], b[1, 2::2], c[9] = 2.0**-70, 2.0**-70, 0  # a product that does, too
    words = [x.view("int32").ravel() for x in (a, b)]
    found = product_of_registers(TDPBF16PS, 16, c.ravel(), *words).reshape(16, 16)
    exact = as_the_manual_says(c, a.astype("float32"), b.astype("float32"))
    np.testing.assert_array_equal(found.view("int32"), exact.view("int32"))
    assert (found[9] == 0).any()


def test_rows_that_a_register_lacks_are_neither_read_nor_written():
    c = np.arange(256, dtype="int32")
    a, b = np.ones(16 * 5, "int32"), np.full(256, 0x01010101, "int32")
    found = product_of_registers(BYTE_DOTS["int8", "int8"], 5, c, a, b)
    np.testing.assert_array_equal(found, c + 16 * (np.arange(256) < 16 * 5))


# ------------------------------------------------------------------------------ whole products
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.one_in(2, first=1)
def test_a_ragged_product_is_right(amx, dtype):
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 19, "N": 35, "K": 150}, dtypes=dtype)
    assert by_tiles(kernel)
    kernel.check().raise_if_wrong()


@pytest.mark.slow
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 1)], ids=["nn", "nt", "tt"])
@pytest.mark.parametrize("dtype", ["bfloat16", *KINDS])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_any_size_are_right(amx, sizes, dtype, turned):
    static = dict(zip(("trans_a", "trans_b"), map(bool, turned), strict=True))
    shapes = dict(zip("MNK", sizes, strict=True))
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, dtypes=dtype, static=static)
    # Rows of A that lie down columns in place are not loaded as registers; those of few are not.
    assert by_tiles(kernel) or turned[0] or sizes[0] < 8
    kernel.check().raise_if_wrong()


@pytest.mark.slow
@pytest.mark.parametrize("pair", list(itertools.product(KINDS, KINDS)), ids=str)
def test_products_of_any_bytes_are_exact(amx, pair):
    shapes = {"M": 41, "N": 35, "K": 90}
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, dtypes=of_types("int32", *pair))
    rng = np.random.default_rng(41)
    a, b = any_bytes(rng, (41, 90), pair[0]), any_bytes(rng, (90, 35), pair[1])
    assert by_tiles(kernel)
    np.testing.assert_array_equal(np.asarray(kernel(a, b)), a.astype(int) @ b.astype(int))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_products_stay_between_guard_pages(amx, dtype):
    shapes = {"M": 37, "N": 35, "K": 83}
    kernel = septran.compile("gemm", "cpu-x86", shapes=shapes, dtypes=dtype)
    kernel.check(guard=True).raise_if_wrong()


@pytest.mark.slow
def test_any_number_of_rows_takes_the_same_code(amx):
    kernel = septran.compile(
        "gemm", "cpu-x86", shapes={"M": 64, "N": 40, "K": 70}, dtypes="bfloat16", dynamic=["M"]
    )
    rng = np.random.default_rng(5)
    b = rng.integers(-2, 3, (70, 40)).astype(ml_dtypes.bfloat16)
    for rows in (1, 15, 16, 17, 32, 33, 50, 64):
        a = rng.integers(-2, 3, (rows, 70)).astype(ml_dtypes.bfloat16)
        found = np.asarray(kernel(a, b)).astype(int)
        exact = a.astype(int) @ b.astype(int)
        np.testing.assert_array_equal(found, exact.astype(ml_dtypes.bfloat16).astype(int))


STEPS_OF_SEVEN = """
    extends: cpu-x86
    rules:
      - {match: {primitive: gemm}, binding: {gemm: amx_bf16}}
      - {match: {leaf: true}, mems: {product.right: L2}, layouts: {product.right: panels(columns)}}
    tunables: {block_M: 64, block_N: 32, block_K: 7}
"""


def test_what_lies_behind_the_last_element_of_a_step_is_not_multiplied(amx):
    """B goes on there, with infinity, and zero times that would be NaN."""
    shapes = {"M": 18, "N": 20, "K": 14}
    kernel = septran.compile("gemm", STEPS_OF_SEVEN, shapes=shapes, dtypes="bfloat16")
    a, b = np.ones((18, 14), ml_dtypes.bfloat16), np.ones((14, 20), ml_dtypes.bfloat16)
    b[7, 3] = np.inf
    exact = np.full((18, 20), 14.0)
    exact[:, 3] = np.inf
    assert by_tiles(kernel)
    np.testing.assert_array_equal(np.asarray(kernel(a, b)).astype(float), exact)


def test_windows_are_multiplied_by_vectors(amx):
    """The rows of an image's windows are not evenly far apart."""
    shapes = {"B": 1, "H": 6, "W": 5, "C": 8, "R": 3, "S": 3, "O": 20}
    kernel = septran.compile("conv2d_nhwc", "cpu-x86", shapes=shapes, dtypes="int8")
    assert not by_tiles(kernel)
    assert "septran_vpdpbusd" in kernel.stages.tensor_ir.text


# ------------------------------------------------------------------------------- the real thing
def sapphire_rapids(dtypes, **shapes):
    machine = replace(septran.load_machine("cpu-x86"), arch="sapphirerapids")
    return septran.compile("gemm", "cpu-x86", machine=machine, shapes=shapes, dtypes=dtypes)


def instructions(kernel):
    return re.findall(r"^\t(\w+)", kernel.stages.source.parts["assembly"], re.M)


@pytest.mark.parametrize(
    ("dtypes", "dot"),
    [("bfloat16", "tdpbf16ps")]
    + [(of_types("int32", *pair), dot.name) for pair, dot in BYTE_DOTS.items()],
    ids=str,
)
@pytest.mark.one_in(2)
def test_the_instructions_are_in_the_assembly(dtypes, dot):
    found = instructions(sapphire_rapids(dtypes, M=64, N=64, K=256))
    assert found.count(dot) == found.count("tileloadd") >= 4
    assert found.count("tilezero") == found.count("tilestored") >= 4
    # The registers are configured once, before all tiles of a block, and given back behind them.
    assert found.count("ldtilecfg") == found.count("tilerelease") == 1
    of_tiles = [name for name in found if "tile" in name or name == dot]
    assert (of_tiles[0], of_tiles[-1]) == ("ldtilecfg", "tilerelease")


def test_what_is_left_of_rows_configures_the_registers_anew():
    found = instructions(sapphire_rapids("bfloat16", M=37, N=64, K=256))
    assert found.count("ldtilecfg") == 2
    assert found.count("tilerelease") == 1


def test_no_register_is_in_the_code_that_does_without():
    kernel = septran.compile("gemm", "cpu-x86", shapes={"M": 64, "N": 64, "K": 64}, dtypes="int8")
    assert uses_tiles(kernel.stages.tensor_ir.text) == ("amx-tile" in native().features)
    assert uses_tiles(sapphire_rapids("int8", M=64, N=64, K=64).stages.tensor_ir.text)


def test_a_host_that_refuses_the_registers_says_so(monkeypatch):
    if "amx-tile" not in lacking("sapphirerapids"):
        pytest.skip("this host has AMX")
    with pytest.raises(TilesRefusedError, match="gemm uses AMX's tile registers"):
        ask_for_tiles("gemm")
    kernel = sapphire_rapids("int8", M=64, N=64, K=64)
    a = np.zeros((64, 64), "int8")
    with pytest.raises(build.MissingFeatureError, match="amx-int8"):
        kernel(a, a)
    monkeypatch.setattr(build, "lacking", lambda arch: ())
    with pytest.raises(TilesRefusedError, match="avx512_vnni"):
        sapphire_rapids("int8", M=64, N=64, K=32)(a[:, :32], a[:32])


def test_a_processor_without_the_registers_takes_the_next_instruction(monkeypatch):
    monkeypatch.setenv(NATIVE_IS, "avx512")  # with the figures of most processors, not the host's
    machine = replace(septran.load_machine("cpu-x86"), arch="cooperlake")
    for dtype, name in (("int8", "avx512_vnni"), ("bfloat16", "avx512_bf16")):
        stages = septran.produce_stages("gemm", "cpu-x86", machine=machine, dtypes=dtype)
        assert f"by {name}" in str(stages.tile_program)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_an_exported_kernel_fails_where_the_system_refuses_the_registers(tmp_path):
    """Not by an instruction that the processor lacks: it says what it would need."""
    if "amx-tile" not in lacking("sapphirerapids"):
        pytest.skip("this host has AMX")
    sapphire_rapids("bfloat16", M=64, N=64, K=64).export(tmp_path)
    flags = {**os.environ, "CFLAGS": "-Wall -Wextra -Werror"}
    script = ["sh", str(tmp_path / "build.sh"), "check"]
    done = subprocess.run(script, check=False, env=flags, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert "compiled for processors with amx-bf16, which this has not" in done.stdout
    source = (tmp_path / "src/gemm.c").read_text()
    assert '"amx-tile"' in source  # which processor.c finds where the system gives it, too


def test_a_host_with_tile_registers_uses_them_only_where_its_processor_is_named(monkeypatch):
    """No such host has run this code yet."""
    monkeypatch.delenv(NATIVE_IS, raising=False)
    monkeypatch.setattr(isa, "host_arch", lambda: "sapphirerapids")
    monkeypatch.setattr(isa, "_host_features", lambda: isa.features("sapphirerapids"))
    assert "amx-tile" in isa.features("sapphirerapids")
    assert "avx512bf16" in native().features
    assert not {"amx-tile", "amx-bf16", "amx-int8"} & native().features
