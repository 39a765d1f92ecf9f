"""What clang makes of the text for gfx942: registers, spills, matrix instructions, waits."""

import re

import pytest

import septran
from septran.targets.rocm.compile import HipRefusedError, compile_text
from septran.targets.rocm.toolchain import device_libraries

HEADS = {"B": 1, "H": 2, "G": 2, "M": 256, "N": 256, "D": 64}
CASES = {
    "gemm float16": ("gemm", "float16", {"M": 256, "N": 256, "K": 128}, "f32_16x16x16_f16"),
    "gemm bfloat16": ("gemm", "bfloat16", {"M": 256, "N": 256, "K": 128}, "f32_16x16x16_bf16"),
    "gemm float32": ("gemm", "float32", {"M": 256, "N": 256, "K": 128}, "f32_16x16x4_f32"),
    "gemm float64": ("gemm", "float64", {"M": 128, "N": 128, "K": 64}, "f64_16x16x4_f64"),
    "gemm int8": ("gemm", "int8", {"M": 256, "N": 256, "K": 128}, "i32_16x16x32_i8"),
    "attention": ("attention", "float16", HEADS, "f32_16x16x16_f16"),
}


@pytest.mark.parametrize("name", CASES)
def test_products_are_matrix_instructions_and_nothing_is_spilled(name, program, hip_compiler):
    logic, dtype, shapes, instruction = CASES[name]
    if logic == "attention" and not device_libraries("gfx942"):
        pytest.skip("AMD's device libraries are not here: apt-get install rocm-device-libs")
    made = program(logic, dtype, **shapes)
    code = compile_text(made.source, "gfx942", logic)
    (figures,) = code.figures
    assert figures.kernel == made.launches[0].kernel
    assert figures.spilled == 0
    assert figures.private_bytes == 0  # arrays are in registers
    assert figures.vector_registers <= 512
    written = len(re.findall(rf"^ +septran_mfma_{instruction}\(", made.source, re.M))
    found = re.findall(r"^\s+(v_mfma_\w+)", code.assembly, re.M)
    assert set(found) == {f"v_mfma_{instruction}"}
    # Of a loop the first iteration may be peeled off.
    assert len(found) >= written > 0


def test_loads_of_the_next_tiles_are_under_way_while_products_are_computed(program, hip_compiler):
    """In the loop: wait for the loads before, write what they brought, meet, load, multiply."""
    made = program("gemm", "float16", M=256, N=256, K=512)
    assembly = compile_text(made.source, "gfx942").assembly
    loop = max(re.split(r"^\.LBB\w+:", assembly, flags=re.M), key=lambda part: part.count("v_mfma"))
    loop = loop.partition("s_cbranch")[0]
    pattern = r"^\s+(s_waitcnt vmcnt|ds_write|s_barrier|global_load|v_mfma)"
    order = list(dict.fromkeys(re.findall(pattern, loop, re.M)))
    assert order == ["s_waitcnt vmcnt", "ds_write", "s_barrier", "global_load", "v_mfma"]


def test_waits_count_loads_and_come_before_what_reads_them(program, hip_compiler):
    """Between a load from global memory and the LDS store of what it brought there is a wait."""
    made = program("gemm", "float16", M=256, N=256, K=128)
    heads = re.findall(
        r"^\s+(global_load\w+|ds_write\w+|ds_read\w+|s_waitcnt .*|s_barrier|v_mfma\w+)",
        compile_text(made.source, "gfx942").assembly, re.M,
    )  # fmt: skip
    assert any("vmcnt" in head for head in heads)
    assert any("lgkmcnt" in head for head in heads)
    loads = heads.index(next(h for h in heads if h.startswith("global_load")))
    stores = heads.index(next(h for h in heads if h.startswith("ds_write")))
    assert any("vmcnt" in head for head in heads[loads:stores])
    barrier = heads.index("s_barrier")
    product = heads.index(next(h for h in heads if h.startswith("v_mfma")))
    reads = heads.index(next(h for h in heads if h.startswith("ds_read")))
    assert barrier < reads < product


def test_text_that_clang_refuses_is_an_error_with_its_words(hip_compiler):
    with pytest.raises(HipRefusedError, match="nothing_of_this_name"):
        compile_text("nothing_of_this_name x;", "gfx942", "wrong")


def test_bytes_are_multiplied_by_what_cdna2_has(program, hip_compiler):
    made = program("gemm", "int8", "amd-mi250", M=256, N=256, K=128)
    code = compile_text(made.source, "gfx90a")
    assert set(re.findall(r"^\s+(v_mfma_\w+)", code.assembly, re.M)) == {"v_mfma_i32_16x16x16i8"}
    assert [figures.spilled for figures in code.figures] == [0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("static", [{}, {"trans_b": True}, {"trans_a": True, "trans_b": True}])
def test_operands_are_read_as_vectors_however_they_lie(dtype, static, hip_compiler):
    """Tiles lie as their source does, and lanes take neighbours of what lies across the sum."""
    shapes = {"M": 256, "N": 256, "K": 128}
    stages = septran.produce_stages(
        "gemm", "amd-mi300x", shapes=shapes, dtypes=dtype, static=static
    )  # fmt: skip
    code = compile_text(stages.tensor_ir.cuda.source, "gfx942")
    moved = set(re.findall(r"^\s+((?:ds|global)_(?:read|load|write)\w*)", code.assembly, re.M))
    assert moved
    assert not {m for m in moved if re.search(r"(u8|i8|u16|b8|b16|ubyte|ushort|d16\w*)$", m)}


def test_copies_of_short_floats_convert_nothing(program, hip_compiler):
    made = program("gemm", "bfloat16", M=256, N=256, K=128)
    assembly = compile_text(made.source, "gfx942").assembly
    loop = max(re.split(r"^\.LBB\w+:", assembly, flags=re.M), key=lambda part: part.count("v_mfma"))
    assert "v_cmp_o_f32" not in loop.partition("s_cbranch")[0].partition("v_mfma")[0]
