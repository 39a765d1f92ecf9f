"""Tensor cores and asynchronous copies: right in the emulator, in every order of events."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import septran
from septran.emulator import emulation
from septran.targets.cuda.gemm.wgmma import column_parts
from septran.targets.cuda.run.compile import compile_text
from septran.targets.cuda.target import TARGET
from septran.targets.cuda.unsupported import UnsupportedByCudaError
from tests.tiers import slow_but, slow_where

MAPPINGS = Path(__file__).parents[3] / "mappings"
MODES = ("eager", "late", "random")
CASES = {
    "wgmma": ("gemm", "nvidia-h200", {"M": 200, "N": 72, "K": 136}, "float16", {}),
    "wgmma turned": (
        "gemm", "nvidia-h200", {"M": 136, "N": 72, "K": 96}, "bfloat16",
        {"trans_a": True, "trans_b": True},
    ),
    "wgmma int8": ("gemm", "nvidia-h200", {"M": 72, "N": 48, "K": 96}, "int8", {"trans_b": True}),
    "chunks of a word": ("gemm", "nvidia-h200", {"M": 130, "N": 258, "K": 134}, "float16", {}),
    "chunks of a word for mma": (
        "gemm", "nvidia-a100", {"M": 130, "N": 130, "K": 70}, "float16", {},
    ),
    "windows of words": (
        "conv2d_nhwc", "nvidia-h200", {"B": 1, "H": 9, "W": 10, "C": 18, "R": 3, "S": 3, "O": 24},
        "float16", {"padding": 1},
    ),
    "mma": ("gemm", "nvidia-a100", {"M": 80, "N": 72, "K": 100}, "float16", {}),
    "mma int8": ("gemm", "nvidia-a100", {"M": 48, "N": 40, "K": 96}, "int8", {}),
    "A in registers": (
        "attention", "nvidia-h200", {"B": 1, "H": 1, "G": 1, "M": 130, "N": 150, "D": 64},
        "float16", {"causal": True},
    ),
    "A in registers of mma": (
        "attention", "nvidia-a100", {"B": 1, "H": 1, "G": 1, "M": 64, "N": 150, "D": 32},
        "bfloat16", {"causal": True},
    ),
    "chunks for roles": (
        "conv2d_nhwc", "nvidia-h200", {"B": 1, "H": 12, "W": 14, "C": 16, "R": 3, "S": 3, "O": 24},
        "float16", {},
    ),
    "tiles that threads write": (
        "dequant_gemm", "nvidia-h200", {"M": 64, "N": 64, "K": 128}, "float16", {},
    ),
    "one row of such tiles": (
        "dequant_gemm", "nvidia-h200", {"M": 1, "N": 64, "K": 128}, "float16", {},
    ),
    "weights on the left": (
        "dequant_gemm", "nvidia-h200", {"M": 5, "N": 72, "K": 1024}, "float16", {},
    ),
    "K in parts": ("gemm", "nvidia-h200", {"M": 70, "N": 40, "K": 2180}, "float16", {}),
    "four rows for mma": (
        "attention_decode", "nvidia-h200", {"B": 1, "H": 8, "G": 2, "N": 300, "D": 64},
        "float16", {},
    ),
    "heads of 40": (
        "attention", "nvidia-h200", {"B": 1, "H": 2, "G": 1, "M": 130, "N": 150, "D": 40},
        "float16", {"causal": True},
    ),
    "heads of 33": (
        "attention", "nvidia-h200", {"B": 1, "H": 2, "G": 1, "M": 70, "N": 150, "D": 33},
        "bfloat16", {},
    ),
    "heads of 72 with a bias": (
        "attention_bias", "nvidia-h200", {"B": 1, "H": 1, "M": 100, "N": 70, "D": 72},
        "float16", {},
    ),
    "heads of 72 for mma": (
        "attention", "nvidia-a100", {"B": 1, "H": 2, "G": 1, "M": 70, "N": 100, "D": 72},
        "float16", {"causal": True},
    ),
    "heads of 33 for mma": (
        "attention", "nvidia-a100", {"B": 1, "H": 1, "G": 1, "M": 70, "N": 100, "D": 33},
        "float16", {},
    ),
    "columns in unequal parts": (
        "attention", "nvidia-h200", {"B": 1, "H": 1, "G": 1, "M": 70, "N": 68, "D": 264},
        "float16", {},
    ),
    "columns in parts of whole panels": (
        "attention", "nvidia-h200", {"B": 1, "H": 1, "G": 1, "M": 70, "N": 40, "D": 288},
        "float16", {"causal": True},
    ),
    "nine rows": (
        "mla_decode", "nvidia-h200", {"B": 1, "H": 9, "N": 50, "C": 40, "E": 12}, "float16", {},
    ),
    "twelve rows for mma": (
        "attention_decode", "nvidia-a100", {"B": 1, "H": 24, "G": 2, "N": 70, "D": 33},
        "float16", {},
    ),
    "a state of 33 rows": (
        "linear_attention", "nvidia-h200", {"B": 1, "H": 1, "N": 150, "D": 33, "E": 20},
        "float16", {},
    ),
    "a state of 33 rows for mma": (
        "linear_attention", "nvidia-a100", {"B": 1, "H": 1, "N": 100, "D": 33, "E": 20},
        "float16", {},
    ),
    "a state of three tiles of rows": (
        "linear_attention", "nvidia-h200", {"B": 1, "H": 1, "N": 150, "D": 48, "E": 48},
        "float16", {},
    ),
    "columns for each of four warps": (
        "mla_decode", "nvidia-a100", {"B": 1, "H": 9, "N": 50, "C": 64, "E": 16}, "float16", {},
    ),
    "columns for two and two warps": (
        "mla_decode", "nvidia-a100", {"B": 1, "H": 16, "N": 30, "C": 48, "E": 16},
        "bfloat16", {},
    ),
}  # fmt: skip


def test_mma_beside_each_other_along_columns_is_not_stored_by_warpgroups_panels(tmp_path):
    """A wgmma has whole rows in a warpgroup; the warps of an mma.sync may be side by side."""
    mapping = (MAPPINGS / "nvidia-h200.mapping.yaml").read_text()
    first = "[wgmma, wgmma_fp8, wgmma_int8, mma_sync, mma_sync_int8, simt]"
    assert first in mapping
    path = tmp_path / "mma.mapping.yaml"
    path.write_text(mapping.replace(first, "mma_sync"))
    kernel = septran.compile(
        "gemm", path, shapes={"M": 128, "N": 64, "K": 128}, dtypes="float16",
        tunables={"block_M": 128, "block_N": 64, "block_K": 64}, emulate=True,
    )  # fmt: skip
    for mode in MODES:
        with emulation(mode=mode, seed=7):
            kernel.check().raise_if_wrong()
    remarks = kernel.stages.tensor_ir.remarks
    assert any("spread over several warpgroups" in r.message for r in remarks)


OFTEN = (
    "wgmma", "wgmma turned", "wgmma int8", "mma", "mma int8", "A in registers",
    "A in registers of mma", "chunks of a word for mma", "tiles that threads write", "heads of 40",
    "nine rows", "columns for each of four warps", "weights on the left", "four rows for mma",
)  # fmt: skip
"""A case for each way to hold and to move an operand; sizes that end otherwise are slow tests."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", slow_but(OFTEN, CASES))
def test_a_kernel_is_right_in_every_mode(name):
    operator, machine, shapes, dtype, static = CASES[name]
    kernel = septran.compile(
        operator, machine, emulate=True, shapes=shapes, dtypes=dtype, static=static
    )
    for mode in MODES:
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


def test_a_single_stage_is_right_in_every_mode():
    """Each iteration waits for its own fill, not for that of an iteration before it."""
    text = (MAPPINGS / "nvidia-a100.mapping.yaml").read_text()
    assert "pipeline: 4" in text
    text = text.replace("pipeline: 4", "pipeline: 1")
    shapes = {"M": 70, "N": 40, "K": 100}
    kernel = septran.compile("gemm", text, emulate=True, shapes=shapes, dtypes="float16")
    for mode in MODES:
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


@pytest.mark.parametrize(
    ("columns", "least", "parts"),
    [
        (256, 64, [(0, 256)]),
        (40, 64, [(0, 40)]),  # less than a panel
        (512, 64, [(0, 256), (256, 256)]),
        (288, 8, [(0, 144), (144, 144)]),
        (288, 32, [(0, 96), (96, 96), (192, 96)]),
        (272, 16, [(0, 256), (256, 16)]),
        (264, 64, [(0, 256), (256, 8)]),
    ],
)
def test_columns_begin_with_a_panel(columns, least, parts):
    assert list(column_parts(columns, least)) == parts


@pytest.mark.parametrize("machine", ["nvidia-h200", "nvidia-a100"])
@pytest.mark.parametrize("head", slow_but([33], [33, 40]))
@pytest.mark.one_in(2)
def test_what_is_no_number_stays_in_its_row_or_column(machine, head):
    """Beyond a head that is rounded up there are zeros on both sides of a product."""
    kernel = septran.compile("attention", machine, emulate=True, dtypes="float16")
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((1, 1, 70, head)).astype("float16") for _ in range(3))
    q[..., 5, :], v[..., 3, -1] = np.nan, np.inf
    found = kernel(q, k, v)[0, 0]
    assert np.isnan(found[5]).all()
    rest = np.delete(found, 5, axis=0)
    assert np.isfinite(rest[:, :-1]).all()
    assert np.isposinf(rest[:, -1]).all()


@pytest.mark.parametrize("machine", slow_but(["nvidia-h200"], ["nvidia-h200", "nvidia-a100"]))
def test_registers_beyond_a_state_are_cleared_before_it_is_summed_over(machine):
    """Zeros of K by an infinite V are no numbers; with Q's zeros they would spoil all sums."""
    kernel = septran.compile("linear_attention", machine, emulate=True, dtypes="float16")
    random = np.random.default_rng(0)
    q, k, v = (random.uniform(0.5, 1, (1, 1, 150, n)).astype("float16") for n in (33, 33, 24))
    v[..., 3, -1] = np.inf
    later = kernel(q, k, v)[0, 0, 128:]  # of another chunk: what was before comes by the state
    assert np.isfinite(later[:, :-1]).all()
    assert np.isposinf(later[:, -1]).all()


def test_tf32_is_exact_where_its_bits_suffice(tmp_path):
    text = (MAPPINGS / "nvidia-h200.mapping.yaml").read_text()
    text = re.sub(r"\[wgmma, [^]]*\]", "[wgmma_tf32, simt]", text)
    mapping = tmp_path / "tf32.mapping.yaml"
    mapping.write_text(text)
    shapes = {"M": 64, "N": 40, "K": 100}
    kernel = septran.compile("gemm", str(mapping), emulate=True, shapes=shapes)
    random = np.random.default_rng(0)
    a = random.integers(-9, 9, (64, 100)).astype("float32")
    b = random.integers(-9, 9, (100, 40)).astype("float32")
    assert np.array_equal(kernel(a, b), a @ b)


ROLES = """\
extends: nvidia-h200.mapping.yaml
rules:
  - match: {loops: parallel}
    roles: %s
"""


@pytest.mark.parametrize(
    ("roles", "rows", "has"),
    [
        ("{consumers: 3, registers: {producer: 40, consumer: 160}}", 192, "has 152 registers"),
        ("{consumers: 2, registers: {producer: 33, consumer: 232}}", 128, "has 32 registers"),
        ("{consumers: 2, registers: {producer: 200, consumer: 240}}", 128, "has 152 registers"),
        ("{consumers: 2, registers: {consumer: 240}}", 128, "has 232 registers"),
    ],
)
@pytest.mark.one_in(3)
def test_roles_get_no_more_registers_than_there_are(roles, rows, has):
    """Else the last warps would wait for them for ever."""
    sizes = {"M": 200, "N": 72, "K": 136}
    kernel = septran.compile(
        "gemm", ROLES % roles, emulate=True, shapes=sizes, dtypes="float16",
        tunables={"block_M": rows},
    )  # fmt: skip
    kernel.check().raise_if_wrong()
    assert any(has in remark.message for remark in kernel.stages.tensor_ir.remarks)


def test_more_threads_than_a_block_has_are_refused():
    options = {"shapes": {"M": 600, "N": 72, "K": 136}, "dtypes": "float16"}
    tile = {"block_M": 512, "block_N": 64, "block_K": 64}
    stages = septran.produce_stages("gemm", ROLES % "{consumers: 8}", tunables=tile, **options)
    with pytest.raises(UnsupportedByCudaError, match=r"1,152 threads a block(?s:.*)`consumers`"):
        stages.tensor_ir  # noqa: B018


def cuda(operator, machine, **options):
    stages = septran.produce_stages(operator, machine, **options)
    return TARGET.lower(stages.tile_program).cuda


HEADS = {"B": 2, "H": 8, "G": 2, "M": 2048, "N": 2048}
LATENTS = {"B": 1, "H": 128, "N": 512, "C": 512, "E": 64}
CHUNKS = {"B": 1, "H": 2, "N": 256, "E": 100}
IMAGE = {"B": 8, "H": 56, "W": 56, "C": 64, "R": 3, "S": 3, "O": 64}


SPILLS = {
    "nvidia-h200": [
        ("dequant_gemm", {"M": 1, "N": 8192, "K": 8192}, {}),
        ("dequant_gemm", {"M": 64, "N": 8192, "K": 8192}, {}),
        ("conv2d_nhwc", IMAGE, {"padding": 1}),
        ("conv2d", IMAGE, {"padding": 1}),
        ("gemm", {"M": 2048, "N": 130, "K": 2050}, {}),
        ("attention", {**HEADS, "D": 40}, {"causal": True}),
        ("attention", {**HEADS, "D": 33}, {}),
        ("mla_decode", LATENTS, {}),
        *(("linear_attention", {**CHUNKS, "D": size}, {}) for size in (48, 96, 256)),
    ],
    "nvidia-a100": [
        ("attention", {**HEADS, "D": 128}, {"causal": True}),
        ("attention", {**HEADS, "D": 330}, {}),
        ("mla_decode", LATENTS, {}),
        *(("linear_attention", {**CHUNKS, "D": size}, {}) for size in (32, 100, 256)),
    ],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("machine", "operator", "shapes", "static"),
    slow_where(
        # ptxas takes several seconds for a loop with two products.
        lambda case: case[1] in ("attention", "linear_attention", "conv2d"),
        [(machine, *case) for machine, cases in SPILLS.items() for case in cases],
    ),
)
def test_no_registers_spill(machine, operator, shapes, static, cuda_compiler):
    found = cuda(operator, machine, shapes=shapes, dtypes="float16", static=static)
    built = compile_text(found.source, found.arch)
    assert not built.advisories
    assert not any(f.spill_store_bytes or f.spill_load_bytes for f in built.figures)


@pytest.mark.parametrize("machine", SPILLS)
def test_warps_share_the_columns_of_sums_that_are_not_reduced(machine):
    """16 rows are one tile for four warps: scores are whole in each, what they weigh is not."""
    stages = septran.produce_stages("mla_decode", machine, shapes=LATENTS, dtypes="float16")
    held = {h.buffer: h.fragment for h in TARGET.lower(stages.tile_program).holdings}
    assert held["acc"].registers * 128 == 16 * LATENTS["C"]
    keys = {"nvidia-h200": 32, "nvidia-a100": 16}[machine]
    assert held["S"].registers * 32 == 16 * keys


def count(text: str, instruction: str) -> int:
    """Calls of what TVM prints for an instruction, without its definition."""
    return len(re.findall(rf"^\s+\w*{instruction}\w*\(", text, re.MULTILINE))


def test_a_gemm_for_hopper_has_two_consumer_warpgroups():
    sizes = {"M": 2048, "N": 2048, "K": 512}  # smaller ones have smaller tiles, and one consumer
    found = cuda("gemm", "nvidia-h200", shapes=sizes, dtypes="float16")
    (launch,) = found.launches
    assert launch.block == 3 * 128
    assert {a.name for a in launch.arguments} >= {"A_map", "B_map", "C_map"}
    text = found.source
    assert "setmaxnreg.dec.sync.aligned.u32 40;" in text
    assert "setmaxnreg.inc.sync.aligned.u32 232;" in text
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16" in text
    assert count(text, "septran_wgmma_ss") == 4  # block_K 64 by 16
    assert count(text, "stmatrix_sync_aligned_m8n8_x4") == 4 * 4  # panels by 16 columns
    assert "wgmma.wait_group.sync.aligned 1;" in text
    for what in ("acquire", "wait", "release", "gemm -> acc"):
        assert re.search(rf"// {what}.*\[septran/operators/gemm.py:\d+, mappings/", text), what


def test_chunks_wait_by_counting_groups_with_one_barrier_an_iteration():
    text = cuda("gemm", "nvidia-a100", dtypes="float16").source
    loop = text[text.index("for (int k = 0") :]
    loop = loop[: loop.index("for (int k_2")]
    assert count(loop, "async_wait_group_2") == 1
    assert count(loop, "cta_sync") == 1


def test_probabilities_stay_in_registers():
    stages = septran.produce_stages("attention", "nvidia-h200", dtypes="float16")
    assert not any(b.name == "P_SHARED" for b in stages.tile_program.buffers)
    text = TARGET.lower(stages.tile_program).cuda.source
    assert "septran_wgmma_rs" in text


def test_other_consumers_registers_and_stages_change_the_kernel():
    text = (MAPPINGS / "nvidia-h200.mapping.yaml").read_text()
    for old, new, seen in [
        ("consumers: 2", "consumers: 1", lambda f: f.launches[0].block == 2 * 128),
        (
            "producer: 40",
            "producer: 56",
            lambda f: "setmaxnreg.dec.sync.aligned.u32 56" in f.source,
        ),
        ("pipeline: 4", "pipeline: 2", lambda f: f.launches[0].shared_bytes < 2 * 49152 + 40000),
        ("warpspecialize: true", "warpspecialize: false", lambda f: "setmaxnreg" not in f.source),
    ]:
        assert old in text
        changed = text.replace(old, new)
        if "false" in new:
            changed = re.sub(r"\n *roles:.*", "", changed)
        tile = {"block_M": 128, "block_N": 128, "block_K": 64}
        stages = septran.produce_stages("gemm", changed, dtypes="float16", tunables=tile)
        assert seen(TARGET.lower(stages.tile_program).cuda), new
