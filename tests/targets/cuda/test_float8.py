"""8-bit floats (e4m3): converted as ml_dtypes does, multiplied by wgmma, everywhere right."""

from __future__ import annotations

import re
import shutil

import ml_dtypes
import numpy as np
import pytest

import septran
from septran import dtypes
from septran.emulator import emulation
from septran.runtime.accuracy import compare, error_bounds
from septran.runtime.checks import product_rules
from septran.targets.cuda.run.compile import compile_text
from septran.targets.cuda.target import TARGET

F8 = "float8_e4m3fn"
PLACES = [
    pytest.param("cpu-x86", False, id="cpu"),
    pytest.param(
        "nvidia-h200", True, id="h200",
        marks=pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++"),
    ),
]  # fmt: skip
TILES = {"block_M": 64, "block_N": 64, "block_K": 64}


def test_what_is_known_of_the_type():
    assert dtypes.itemsize(F8) == 1
    assert dtypes.is_float(F8)
    assert dtypes.compute_dtype(F8) == dtypes.accumulator_dtype(F8) == "float32"
    assert dtypes.unit_roundoff(F8) == float(ml_dtypes.finfo(F8).eps) / 2
    assert dtypes.numpy_dtype(F8) == ml_dtypes.float8_e4m3fn
    assert dtypes.promote(F8, "float16") == dtypes.promote("float16", F8) == "float16"
    assert dtypes.promote(F8, "int32") == F8
    assert dtypes.promote(F8, "float16", "bfloat16") == "float32"


def edges():
    """Numbers, what lies half-way between them and just beside that, and what is beyond."""
    codes = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    halves = (codes[1:] + codes[:-1]) / 2
    near = [f(halves, np.float32(x)) for f in (np.nextafter,) for x in (0, np.inf)]
    beyond = np.float32([463.9, 464, 464.1, 480, 1e9, np.inf, np.nan, 1e-30, 2.0**-149, 0])
    found = np.concatenate([codes, halves, *near, beyond])
    found = np.concatenate([found, -found])
    return np.resize(found, (32, 40)).astype(np.float32)


@pytest.mark.parametrize(("machine", "emulate"), PLACES)
def test_conversions_are_those_of_the_reference(machine, emulate):
    x = edges()
    kernel = septran.compile(
        "elementwise", machine, shapes={"M": 32, "N": 40}, dtypes={"X": "float32", "Y": F8},
        static={"function": "neg"}, emulate=emulate,
    )  # fmt: skip
    wanted = (-x).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(np.asarray(kernel(x)).astype(np.float32), wanted, equal_nan=True)
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(16, 16)
    kernel = septran.compile(
        "elementwise", machine, shapes={"M": 16, "N": 16}, dtypes={"X": F8, "Y": "float32"},
        static={"function": "neg"}, emulate=emulate,
    )  # fmt: skip
    assert np.array_equal(kernel(codes), -codes.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize(("machine", "emulate"), PLACES)
@pytest.mark.parametrize("output", [F8, "bfloat16", "float32"])
def test_a_product_is_right(machine, emulate, output):
    """Against float64 by the bound for these inputs; all edges are ragged."""
    kernel = septran.compile(
        "gemm", machine, shapes={"M": 100, "N": 80, "K": 176}, static={"trans_b": True},
        dtypes={"A": F8, "B": F8, "C": output}, tunables=TILES if emulate else {}, emulate=emulate,
    )  # fmt: skip
    for mode in ("eager", "late", "random") if emulate else ("eager",):
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


@pytest.mark.parametrize("static", [{}, {"trans_a": True}], ids=["as given", "turned"])
def test_operands_that_do_not_lie_along_the_sum_are_turned(static):
    stages = septran.produce_stages(
        "gemm", "nvidia-h200", shapes={"M": 128, "N": 80, "K": 96}, static=static,
        dtypes={"A": F8, "B": F8, "C": "float16"}, tunables=TILES,
    )  # fmt: skip
    text = str(stages.tile_program)
    assert "by wgmma_fp8" in text
    turned = r"B_SHARED\[.*\]@k_1\.T = copy\(B.* by gather on (A_)?B_in"
    assert re.search(turned, text), "by the filling warpgroup, ahead of the product"


@pytest.mark.parametrize(("machine", "emulate"), PLACES)
@pytest.mark.parametrize(
    ("operator", "shapes"),
    [("softmax", {"M": 20, "N": 64}), ("gemm_bias_act", {"M": 70, "N": 64, "K": 64})],
)
@pytest.mark.one_in(3)
def test_other_operators_take_it(machine, emulate, operator, shapes):
    kernel = septran.compile(operator, machine, shapes=shapes, dtypes=F8, emulate=emulate)
    kernel.check().raise_if_wrong()


def test_tensors_of_torch_are_taken():
    import torch

    random = torch.manual_seed(0)
    a = torch.randn(40, 64, generator=random).to(torch.float8_e4m3fn)
    b = torch.randn(64, 48, generator=random).to(torch.float8_e4m3fn)
    kernel = septran.compile("gemm", "cpu-x86", dtypes={"A": F8, "B": F8, "C": "float32"})
    found = kernel(a, b)
    assert isinstance(found, torch.Tensor)
    wanted = a.double() @ b.double()
    bound = 64 * 2.0**-24 * (a.double().abs() @ b.double().abs())
    assert bool(((found.double() - wanted).abs() <= bound).all())


def product(mapping, **options):
    return septran.produce_stages(
        "gemm", mapping, shapes={"M": 128, "N": 80, "K": 96}, static={"trans_b": True}, **options
    )


def test_a_remark_tells_that_hardware_adds_with_fewer_bits():
    types = {"A": F8, "B": F8, "C": "float32"}
    told = [r.message for r in product("nvidia-h200", dtypes=types).tensor_ir.remarks]
    assert any("wgmma_fp8 adds about 14 bits of each product" in text for text in told)
    wider = product("nvidia-h200", dtypes="float16").tensor_ir.remarks
    assert not any("bits of each product" in remark.message for remark in wider)


@pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
def test_sums_of_fewer_bits_are_bounded_and_no_more_than_that_is_right():
    """An H100 was 8.3 times as far off as sums in float32 can be, and so is the emulator."""
    kernel = septran.compile(
        "fp8_gemm", "nvidia-h200", shapes={"M": 64, "N": 256, "K": 256}, emulate=True
    )
    inputs = kernel.sample()
    found = kernel(**inputs)
    tree, rules = kernel.stages.task_tree, product_rules(kernel.stages.tile_program)
    in_float32 = compare("C", found, error_bounds(tree, inputs)["C"])
    assert 6 < in_float32.worst < 10
    bound = error_bounds(tree, inputs, rules=rules)["C"]
    assert compare("C", found, bound).worst < 0.1
    some = inputs["A"].copy()
    some[:, :32] = 0  # one instruction's products are missing
    assert not compare("C", kernel(**{**inputs, "A": some}), bound).right


@pytest.mark.skipif(not shutil.which("g++"), reason="the emulator needs g++")
def test_the_binding_that_the_remark_names_adds_in_float32(tmp_path):
    mapping = tmp_path / "exact.mapping.yaml"
    mapping.write_text(
        "extends: nvidia-h200.mapping.yaml\n"
        "rules: [{match: {primitive: gemm}, binding: {gemm: simt}}]\n"
    )
    kernel = septran.compile(
        "gemm", str(mapping), shapes={"M": 40, "N": 24, "K": 64}, emulate=True, tunables=TILES,
        dtypes={"A": F8, "B": F8, "C": "float32"}, static={"trans_b": True},
    )  # fmt: skip
    kernel.check().raise_if_wrong()
    assert "wgmma" not in kernel.stages.source.text


def test_what_is_generated_is_clean_for_the_compiler(cuda_compiler):
    stages = septran.produce_stages(
        "gemm", "nvidia-h200", shapes={"M": 1024, "N": 1024, "K": 1024}, static={"trans_b": True},
        dtypes={"A": F8, "B": F8, "C": "bfloat16"},
    )  # fmt: skip
    program = TARGET.lower(stages.tile_program).cuda
    assert "k32.f32.e4m3.e4m3" in program.source
    assert {a.dtype for a in program.launches[0].arguments if a.name in ("A_map", "B_map")} == {F8}
    built = compile_text(program.source, "sm_90a")
    assert not built.advisories
    assert [(f.spill_store_bytes, f.spill_load_bytes) for f in built.figures] == [(0, 0)]


@pytest.mark.parametrize(
    ("machine", "dtype", "said"),
    [
        ("nvidia-h200", "float32", "gemm is simt: operands are float32, float32, float32, not as"),
        ("nvidia-h200", "float16", None),
        (
            "cpu-x86",
            "float8_e4m3fn",
            "gemm is muladd_microkernel: operands are float32, float8_e4m3fn",
        ),
        ("cpu-x86", "float32", None),
    ],
)
def test_a_product_that_is_slow_for_its_element_types_says_so(machine, dtype, said):
    sizes = {"M": 128, "N": 128, "K": 128}
    stages = septran.produce_stages("gemm", machine, shapes=sizes, dtypes=dtype)
    messages = [d.message for d in stages.mapping.decisions if d.kind == "missed"]
    slow = [message for message in messages if message.startswith("gemm is ")]
    assert bool(slow) == (said is not None)
    assert all(message.startswith(said) for message in slow)
