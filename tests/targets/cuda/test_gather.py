"""Tensors whose rows begin anywhere: tensor cores all the same, and copies beside the products."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import septran
from septran.emulator import EmulationError, emulate, emulation
from septran.emulator.launch import registers_at_launch
from septran.machine.loader import load_machine
from septran.targets.cuda.run.compile import compile_text
from septran.targets.cuda.target import TARGET
from septran.tile.nodes import Compute, Copy, Role, nodes

H200 = load_machine("nvidia-h200")
WINDOWS = {"B": 1, "C": 5, "R": 3, "S": 3, "O": 24}
CASES = {
    "every axis": ("gemm", "nvidia-h200", {"M": 130, "N": 259, "K": 133}, "float16", {}),
    "both turned": (
        "gemm", "nvidia-h200", {"M": 67, "N": 45, "K": 75}, "bfloat16",
        {"trans_a": True, "trans_b": True},
    ),
    "one by boxes": ("gemm", "nvidia-h200", {"M": 70, "N": 72, "K": 75}, "float16", {}),
    "int8": ("gemm", "nvidia-h200", {"M": 65, "N": 33, "K": 101}, "int8", {"trans_b": True}),
    "int8 across": ("gemm", "nvidia-h200", {"M": 65, "N": 33, "K": 101}, "int8", {}),
    "int8 across, aligned": ("gemm", "nvidia-h200", {"M": 64, "N": 48, "K": 96}, "int8", {}),
    "float8 across": (
        "gemm", "nvidia-h200", {"M": 65, "N": 34, "K": 70}, "float8_e4m3fn", {},
    ),
    "one element": ("gemm", "nvidia-h200", {"M": 1, "N": 1, "K": 1}, "float16", {}),
    "mma": ("gemm", "nvidia-a100", {"M": 67, "N": 45, "K": 75}, "float16", {}),
    "mma int8": ("gemm", "nvidia-a100", {"M": 67, "N": 45, "K": 75}, "int8", {}),
    "heads of 33": (
        "attention", "nvidia-h200", {"B": 1, "H": 1, "G": 1, "M": 67, "N": 81, "D": 33},
        "float16", {"causal": True},
    ),
    "windows by runs": (
        "conv2d", "nvidia-h200", WINDOWS | {"H": 7, "W": 16}, "float16", {"padding": 1},
    ),
    "windows by elements": (
        "conv2d", "nvidia-h200", WINDOWS | {"H": 9, "W": 13}, "float16",
        {"padding": 1, "stride": 2},
    ),
    "windows of mma": (
        "conv2d", "nvidia-a100", WINDOWS | {"H": 7, "W": 10}, "float16", {},
    ),
}  # fmt: skip


@pytest.mark.one_in(9, first=3)
@pytest.mark.parametrize("name", CASES)
def test_it_is_right_in_every_mode(name):
    operator, machine, shapes, dtype, static = CASES[name]
    kernel = septran.compile(
        operator, machine, emulate=True, shapes=shapes, dtypes=dtype, static=static
    )
    for mode in ("eager", "late", "random"):
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


@pytest.mark.parametrize("name", [name for name in CASES if name != "heads of 33"])
@pytest.mark.one_in(2)
def test_tensor_cores_read_what_travels_beside_them(name):
    operator, machine, shapes, dtype, static = CASES[name]
    stages = septran.produce_stages(operator, machine, shapes=shapes, dtypes=dtype, static=static)
    program = stages.tile_program
    products = [n for n in nodes(program.body) if isinstance(n, Compute) and n.primitive == "gemm"]
    assert products
    assert all(n.instruction.startswith(("wgmma", "mma_sync")) for n in products)
    loads = [
        n for n in nodes(program.body)
        if isinstance(n, Copy) and program.buffer(n.target.buffer).memory == "SHARED"
    ]  # fmt: skip
    assert any(n.engine == "gather" for n in loads)
    assert all(n.channel is not None for n in loads)


def lowered(**options):
    stages = septran.produce_stages("gemm", "nvidia-h200", **options)
    return stages.tile_program, TARGET.lower(stages.tile_program)


def test_runs_of_windows_are_read_as_rows():
    """56 pixels of a row are seven runs of eight; 13 are read one by one."""
    seen = {}
    for width in (56, 13):
        stages = septran.produce_stages(
            "conv2d", "nvidia-h200", dtypes="float16", static={"padding": 1},
            shapes=WINDOWS | {"C": 16, "H": 9, "W": width},
        )  # fmt: skip
        seen[width] = "septran_fetch(" in TARGET.lower(stages.tile_program).cuda.source
    assert seen == {56: True, 13: False}


def test_weights_of_windows_are_contiguous():
    """``F[o, k//9, k//3%3, k%3]`` is one row of memory."""
    stages = septran.produce_stages(
        "conv2d", "nvidia-h200", shapes=WINDOWS | {"C": 16, "H": 9, "W": 9}, dtypes="float16"
    )
    copies = [n for n in nodes(stages.tile_program.body) if isinstance(n, Copy)]
    assert next(n.engine for n in copies if n.source.buffer == "F") == "cp_async"


def test_who_copies_through_registers_has_enough_of_them():
    tile = {"block_M": 128, "block_N": 256, "block_K": 64}
    shapes = {"M": 128, "N": 256, "K": 133}
    program, code = lowered(shapes=shapes, dtypes="float16", tunables=tile)
    asked = {n.name: n.registers for n in nodes(program.body) if isinstance(n, Role)}
    assert asked == {"producer": 40, "consumer": 232}
    assert "setmaxnreg.dec.sync.aligned.u32 88;" in code.cuda.source
    assert "setmaxnreg.inc.sync.aligned.u32 208;" in code.cuda.source
    assert 128 * 88 + 256 * 208 == 384 * registers_at_launch(384) == 64512
    said = {r.about: r.message for r in code.remarks}
    assert said["producer"] == (
        "the producer has 88 registers a thread, not 40: it copies through registers"
    )
    assert "the consumer has 208 registers a thread, not 232" in said["consumer"]


@pytest.fixture(scope="module")
def ragged():
    shapes = {"M": 64, "N": 40, "K": 329}
    tile = {"block_M": 64, "block_K": 64}
    return lowered(shapes=shapes, dtypes="float16", tunables=tile)[1].cuda


def run(program, mode="late"):
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, s).astype("float16") for s in ((64, 329), (329, 40)))
    c = np.full((64, 40), np.nan, np.float16)
    emulate(program, {"A": a, "B": b, "C": c}, mode=mode, seed=1, machine=H200)
    return np.array_equal(c, a.astype("float32") @ b.astype("float32"))


FAULTS = {
    "no fence between threads and wgmma": (r"\n +tvm_builtin_ptx_fence_proxy\w*\(\);", ""),
    "a warp tells before all of its lanes have written": (
        r"\n +tvm_builtin_cuda_warp_sync\(\);(?=\n +if \(\(\(\(int\)threadIdx.x\) & 31\) == 0)", ""
    ),
    "one warp tells for all": (
        r"\A([\s\S]*?\n +tvm_builtin_ptx_mbarrier_init\w+\([^\n]*), \(uint\)4\);", r"\1, (uint)1);"
    ),
    "bytes are not shifted into place": (r"by = \(by & 3\) \* 8;", "by = 0;"),
    "a stage is filled before it was read": (
        r"\n +tvm_builtin_cuda_mbarrier_wait\([^\n]*\+ 1\) & 1\)\);", ""
    ),
}  # fmt: skip


def test_the_ragged_product_is_right(ragged):
    assert all(run(ragged, mode) for mode in ("eager", "late", "random"))


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.one_in(2)
def test_a_fault_in_a_gathered_copy_is_found(ragged, name):
    text, count = re.subn(*FAULTS[name], ragged.source)
    assert count, name
    broken, found = replace(ragged, source=text), []
    for mode in ("late", "random", "eager"):
        try:
            found.append(not run(broken, mode))
        except EmulationError:
            found.append(True)
    assert any(found)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        ({"M": 2048, "N": 2049, "K": 2049}, "float16"),
        ({"M": 2048, "N": 2048, "K": 2049}, "bfloat16"),
        ({"M": 2048, "N": 2049, "K": 2049}, "int8"),
    ],
)
def test_nothing_spills(shapes, dtype, cuda_compiler):
    _, code = lowered(shapes=shapes, dtypes=dtype)
    built = compile_text(code.cuda.source, "sm_90a")
    assert not built.advisories
    assert [(f.spill_store_bytes, f.spill_load_bytes) for f in built.figures] == [(0, 0)]
