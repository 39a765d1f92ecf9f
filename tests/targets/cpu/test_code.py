"""What the generated code looks like: fused rows, full registers, origins, no surprises."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import septran
from septran import task
from septran.dtypes import numpy_dtype
from septran.machine.loader import load_machine
from septran.targets.cpu.run.build import MissingFeatureError
from septran.targets.cpu.run.isa import lacking
from septran.targets.cpu.target import TARGET

GEMM = {"M": 96, "N": 96, "K": 64}


def stages(operator: str, shapes: dict[str, object], arch: str = "avx2", **options):
    machine = replace(load_machine("cpu-x86"), arch=arch)
    return septran.produce_stages(operator, "cpu-x86", machine=machine, shapes=shapes, **options)


def hottest_loop(assembly: str) -> list[str]:
    """Instructions of the basic block with the most multiply-adds."""
    blocks, block = [], []
    for line in assembly.splitlines():
        text = line.strip()
        if re.match(r"^[.\w$]+:", text) and not text.startswith(".Ltmp"):
            blocks.append(block)
            block = []
        elif text and text[0] not in ".#":
            block.append(text)
            if text.startswith("j"):  # what follows a loop's jump back is no part of it
                blocks.append(block)
                block = []
    return max([*blocks, block], key=lambda b: sum("vfmadd" in i for i in b))


@pytest.mark.parametrize(("arch", "register", "sums"), [("avx2", "ymm", 12), ("avx512", "zmm", 24)])
def test_sums_stay_in_vector_registers(arch, register, sums):
    loop = hottest_loop(stages("gemm", GEMM, arch).source.parts["assembly"])
    adds = [i for i in loop if "vfmadd" in i]
    assert len(adds) % sums == 0
    assert all(register in i for i in adds)
    assert len({i.rpartition("%")[2] for i in adds}) == sums
    assert not [i for i in loop if i.startswith("v") and "(%rsp" in i], "a spill"


def test_a_computed_weight_is_converted_once_for_sixteen_rows():
    made = stages("dequant_gemm", {"M": 16, "N": 96, "K": 64}, "avx512", static={"bits": 8})
    loop = hottest_loop(made.source.parts["assembly"])
    adds = [i for i in loop if "vfmadd" in i and "{1to16}" in i]
    assert len({i.rpartition("%")[2] for i in adds}) == 16
    assert len(adds) == 16 * sum("vcvtdq2ps" in i for i in loop)
    assert not [i for i in loop if i.startswith("v") and "(%rsp" in i], "a spill"


@pytest.mark.parametrize("arch", ["avx2", "avx512"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operands_are_widened_outside_of_the_loop_that_multiplies(dtype, arch):
    shapes = {"B": 1, "H": 1, "M": 96, "N": 512, "D": 64}
    loop = hottest_loop(stages("attention", shapes, arch, dtypes=dtype).source.parts["assembly"])
    assert sum("vfmadd" in i for i in loop) >= 12
    assert not [i for i in loop if re.match("vcvt|vpsll|vpmov|movz|shl", i)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_held_wider_than_its_type_is_rounded_to_it(dtype):
    """Exact products of rounded numbers: any bit that was not rounded away would show."""

    @task.define(leaf=True)
    def product(C, A, B):
        made = task.empty(A.shape, A.dtype, name="made")
        made[:, :] = A * A
        task.fill(C, 0)
        task.call_primitive("gemm", C, made, B)

    @task.define
    def squares(
        C: task.Tensor["M", "N", task.float32], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]
    ):
        task.launch(product, C, A, B)

    kernel = septran.compile(squares, "cpu-x86")
    a = (1 + np.arange(7 * 64).reshape(7, 64) / 1024).astype(numpy_dtype(dtype))
    found = kernel(a, np.eye(64, dtype=a.dtype))
    np.testing.assert_array_equal(
        found, (a.astype(np.float32) ** 2).astype(a.dtype).astype(np.float32)
    )


def test_code_for_another_machine_is_made_but_not_run():
    needed = lacking("x86-64-v4")
    if not needed:
        pytest.skip("this host has AVX-512")
    made = stages("gemm", GEMM, "avx512")
    assert made.source.facts["vector bits"] == 512
    with pytest.raises(MissingFeatureError, match="avx512f"):
        made.executable(*(np.zeros((96, 96), "f4") for _ in range(3)))


@pytest.mark.parametrize(("rows", "loops"), [(7, 3), (64, 4)])
def test_rows_of_a_softmax_are_done_in_registers(rows, loops):
    """Few one after another, many in one more loop that does three rows at a time."""
    text = stages("softmax", {"M": rows, "N": 512}).tensor_ir.text
    room = dict(re.findall(r"(\w+) = T\.alloc_buffer\(\((\d+),\)", text))
    assert room["m"] == room["s"] == "1"
    assert int(room["e"]) < 1024, "a row and no more"
    assert len(re.findall(r"for v\w* in range", text)) == loops, "maximum, exponentials, quotients"


def test_every_part_of_the_source_says_where_it_is_from():
    made = stages("gemm", {"M": 1000, "N": 160, "K": 160})  # rows that B is packed for
    notes = [line for line in made.source.text.splitlines() if line.strip().startswith("# ")]
    assert any("B is DRAM" in n and "cpu-x86.mapping.yaml" in n for n in notes)
    assert any("gemm_tile calls gemm" in n and "operators/gemm.py" in n for n in notes)


def test_equal_programs_give_equal_text():
    first, second = (
        stages("attention", {"B": 1, "H": 1, "G": 1, "M": 64, "N": 64, "D": 32}) for _ in "ab"
    )
    assert first.tensor_ir.text == second.tensor_ir.text


def test_large_tensors_are_addressed_by_64_bits():
    shapes = {"M": 1 << 16, "N": (1 << 16) + 1}
    text = stages("softmax", shapes, dtypes="float16").tensor_ir.text
    assert "int64" in _accesses(text)
    assert "int64" not in _accesses(stages("softmax", {"M": 8, "N": 8}).tensor_ir.text)


def _accesses(text: str) -> str:
    """Without the assertions, which count bytes."""
    return "\n".join(line for line in text.splitlines() if "share memory" not in line)


def test_a_saved_kernel_runs_after_loading(tmp_path):
    made = stages("softmax", {"M": 5, "N": 9}, "native")
    TARGET.build(made.tensor_ir, made.tile_program).save(tmp_path)
    loaded = TARGET.load(tmp_path)
    x = np.random.default_rng(0).standard_normal((5, 9)).astype("f4")
    y, again = np.empty_like(x), np.empty_like(x)
    loaded(y, x)
    made.executable(again, x)
    np.testing.assert_array_equal(y, again)
    assert loaded.source == made.source


@pytest.mark.parametrize(("rows", "streamed"), [(64, False), (16384, True)])
def test_results_larger_than_the_caches_are_written_past_them(rows, streamed):
    made = stages("elementwise", {"M": rows, "N": 1024}, static={"function": "neg"})
    assembly = made.source.parts["assembly"]
    assert ("vmovntps" in assembly) is streamed
    assert ("sfence" in assembly) is streamed


def test_streamed_rows_need_not_be_aligned():
    x = np.random.default_rng(0).standard_normal((2051, 2049)).astype("f4")
    y = septran.compile("elementwise", "cpu-x86", static={"function": "neg"})(x)
    np.testing.assert_array_equal(y, -x)


def test_a_second_loop_asks_for_the_next_row():
    near, far = (stages("layer_norm", {"M": m, "N": 4096}) for m in (16, 512))
    assert "prefetch" not in near.source.parts["assembly"]
    assert "prefetcht1" in far.source.parts["assembly"]


@pytest.mark.parametrize(
    ("operator", "loops"), [("softmax", 4), ("layer_norm", 4), ("rms_norm", 3)]
)
def test_the_next_rows_are_asked_for_once_before_those_that_are_read(operator, loops):
    """The first lines of their pages, in a loop of its own; then loops at four pages in turns."""
    text = stages(operator, {"M": 8192, "N": 4096}).tensor_ir.text
    pages = [found.start() for found in re.finditer(r"for (?:v\w*, )?page\w* in", text)]
    assert len(pages) == loops
    asked = [found.start() for found in re.finditer(r"llvm\.prefetch", text)]
    assert len(asked) == 1
    assert asked[0] < pages[0]


def test_what_one_loop_hands_on_is_not_stored():
    shapes = {"Q": (1, 1, 48, 64), "K": (1, 1, 512, 64), "V": (1, 1, 512, 64)}
    text = stages("attention", shapes).tensor_ir.text
    room = dict(re.findall(r"(\w+) = T\.alloc_buffer\(\((\d+),\)", text))
    assert room["E"] == "1"
    assert not re.search(r"\bE\[", text)


@pytest.mark.parametrize(("batch", "units"), [(1, 4), (3, 12), (64, 64)])
def test_a_small_batch_leaves_no_core_idle(batch, units):
    """Blocks of heads in a loop over the batch: one nest, until there are enough of them."""
    shapes = {"Q": (batch, 264, 512), "R": (batch, 264, 64), "L": (batch, 300, 512)}
    made = stages("mla_decode", {**shapes, "P": (batch, 300, 64)})
    assert f"for unit in T.parallel({units}):" in made.tensor_ir.text
