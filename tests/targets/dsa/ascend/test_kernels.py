"""Kernels in Ascend C: compiled against the header of its API, run by the simulator, right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import tirx

import septran
from septran import task
from septran.targets.dsa.ascend.vectors import multiple
from septran.targets.dsa.code.build import compile_recording
from septran.targets.dsa.code.vendor import Vendor


@task.define(leaf=True)
def named_tile(SetFlag, TBuf):
    SetFlag[:, :] = TBuf + 1.0


@task.define
def named(SetFlag: task.Tensor["M", "N"], TBuf: task.Tensor["M", "N"]):
    """Tensors with the names of what the kernel calls."""
    whole = SetFlag.shape
    target, source = task.partition(SetFlag, shape=whole), task.partition(TBuf, shape=whole)
    for i in task.parallel_range(1):
        task.launch(named_tile, target[i, 0], source[i, 0])


def run(operator, shapes, dtype="float32", **more):
    kernel = septran.compile(operator, "ascend-910b", shapes=shapes, dtypes=dtype, **more)
    check = kernel.check()
    assert check.right, check
    return kernel


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        ({"M": 40, "N": 24, "K": 48}, "float32"),
        ({"M": 17, "N": 5, "K": 7}, "float16"),
        pytest.param({"M": 140, "N": 130, "K": 200}, "bfloat16", marks=pytest.mark.slow),
        pytest.param({"M": 17, "N": 5, "K": 7}, "float32", marks=pytest.mark.slow),
        pytest.param({"M": 40, "N": 40, "K": 200}, "float32", marks=pytest.mark.slow),
    ],
)
def test_products_of_whole_and_ragged_tiles_are_right(shapes, dtype):
    kernel = run("gemm", shapes, dtype)
    assert "Mmad(" in kernel.stages.source.text
    assert kernel.stages.executable.executor


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("softmax", {"M": 40, "N": 70}),  # rows of 280 bytes, which begin at multiples of 32
        # More partial results of a row than one repeat has.
        ("softmax", {"M": 7, "N": 4097}),
        pytest.param("layer_norm", {"M": 2, "N": 9001}, marks=pytest.mark.slow),
        pytest.param("gemm_bias_act", {"M": 70, "N": 40, "K": 66}, marks=pytest.mark.slow),
        pytest.param("linear_recurrence", {"B": 2, "T": 37, "D": 70}, marks=pytest.mark.slow),
        pytest.param("layer_norm", {"M": 5, "N": 256}, marks=pytest.mark.slow),
        pytest.param("elementwise", {"M": 64, "N": 128}, marks=pytest.mark.slow),
    ],
)
def test_vectors_are_right(operator, shapes):
    run(operator, shapes)


def test_rows_of_a_buffer_begin_where_the_memory_wants_them():
    explained = septran.explain("softmax", "ascend-910b", shapes={"M": 40, "N": 70})
    layouts = {b.name: str(b.layout) for b in explained.tile_program.buffers}
    assert layouts["X_UB"] == "padded(2)"
    assert layouts["X"] == "row"


def test_both_cores_wait_for_each_other_through_main_memory():
    shapes = {"M": 32, "N": 32, "K": 32}
    kernel = run("gemm", shapes, "float16")  # the sums are rounded by the vector core
    text = kernel.stages.source.text
    assert "KERNEL_TYPE_MIX_AIC_1_1" in text
    assert "CrossCoreSetFlag<0x2, PIPE_FIX>" in text
    assert "CrossCoreWaitFlag(" in text


def test_a_kernel_of_one_kind_of_core_says_so():
    explained = septran.explain("gemm", "ascend-910b", shapes={"M": 32, "N": 32, "K": 32})
    text = explained.source.text
    assert "KERNEL_TYPE_AIC_ONLY" in text
    assert "ASCEND_IS_AIC" not in text
    assert "SetFlag<HardEvent::MTE2_MTE1>" in text


def test_random_delays_change_no_bit():
    kernel = septran.compile("softmax", "ascend-910b", shapes={"M": 40, "N": 64})
    x = np.random.default_rng(1).standard_normal((40, 64)).astype(np.float32)
    outputs = []
    for adversary in (None, 3, 4):
        y = np.zeros_like(x)
        kernel.stages.executable.simulate(y, x, adversary=adversary)
        outputs.append(y)
    assert all(np.array_equal(y, outputs[0]) for y in outputs)


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [("gemm", {"M": 70, "N": 40, "K": 66}), ("elementwise", {"M": 40, "N": 70})],
)
def test_the_commands_that_llvm_records_give_the_same_bits(operator, shapes):
    """They are those of the tile program, and know nothing of Ascend C."""
    kernel = septran.compile(operator, "ascend-910b", shapes=shapes)
    ours, program = kernel.stages.executable, kernel.stages.tile_program
    other = replace(ours, program=compile_recording(ours.recording, ours.program.scalars))
    random, results = np.random.default_rng(3), []
    inputs = [
        random.standard_normal(program.buffer(n).shape).astype(np.float32) for n in program.params
    ]
    for executable in (ours, other):
        arguments = [x.copy() for x in inputs]
        executable.simulate(*arguments)
        results.append(arguments[0])
    assert np.array_equal(*results)


def test_what_the_vector_core_does_not_compute_is_refused():
    with pytest.raises(septran.SepTranError) as caught:
        septran.compile("elementwise", "ascend-910b", shapes={"M": 8, "N": 8}, dtypes="float64")
    assert caught.value.code == "SEP542"


def test_no_project_in_c_is_written_of_ascend_c(tmp_path):
    kernel = septran.compile("gemm", "ascend-910b", shapes={"M": 32, "N": 32, "K": 32})
    with pytest.raises(septran.SepTranError, match="the vendor's own tools build") as caught:
        kernel.export(tmp_path / "x")
    assert caught.value.code == "SEP549"
    assert "--on ascend-910b --stage source" in caught.value.hint
    assert not (tmp_path / "x").exists()


def test_more_partial_results_than_a_repeat_has_are_summed_in_float16():
    run("softmax", {"M": 3, "N": 17000}, "float16")


@pytest.mark.parametrize(
    ("operator", "shapes", "dtype", "message"),
    [
        ("transpose", {"B": 2, "M": 40, "N": 70}, "float32", "X_UB is used from element e:"),
        ("transpose", {"B": 1, "M": 128, "N": 512}, "float32", "4 bytes apart in UB"),
        ("embedding_backward", {"T": 30, "V": 100, "D": 51}, "float16", "% 2 \\* 51:"),
    ],
)
def test_rows_that_begin_within_a_block_of_the_memory_are_refused(operator, shapes, dtype, message):
    with pytest.raises(septran.SepTranError, match=message) as caught:
        septran.compile(operator, "ascend-910b", shapes=shapes, dtypes=dtype)
    assert caught.value.code == "SEP542"


def test_a_number_that_divides_an_index_whatever_its_variables_are():
    a, b = tirx.Var("a", "int32"), tirx.Var("b", "int32")
    assert multiple(a * 64 + b * 48 + 16) == 16
    assert multiple((a + 1) % 2 * 51) == 51
    assert multiple(tirx.min(a * 8, 12)) == 4
    assert multiple(a + 8) == 1


def test_the_text_may_have_another_systems_ends_of_lines():
    kernel = septran.compile("softmax", "ascend-910b", shapes={"M": 8, "N": 64})
    text = str(kernel.stages.source)
    other = kernel.with_source(text.replace("\n", "\r\n"))
    assert other.check().right
    with pytest.raises(septran.SepTranError, match=r"line 2 of the text has '\\ud800'") as caught:
        kernel.with_source("// a\n// \ud800\n" + text)
    assert caught.value.code == "SEP543"


@pytest.mark.parametrize(
    ("operator", "code", "message", "hint"),
    [
        ("attention", "SEP321", "accepts fill", "one instruction is to fill m and acc: place them"),
        ("attention_backward", "SEP542", "read as it is, and transposed", ""),
        ("attention_varlen", "SEP401", "moves acc between UB and L0C", "edges: GLOBAL->L1"),
    ],
)
def test_what_the_page_says_of_attention_is_so(operator, code, message, hint):
    shapes = septran.operators.load(operator).function.__globals__["CASES"][0]
    shapes = {name: extent for name, extent in shapes.items() if isinstance(extent, int)}
    with pytest.raises(septran.SepTranError, match=message) as caught:
        septran.compile(operator, "ascend-910b", shapes=shapes)
    assert caught.value.code == code
    assert hint in (caught.value.hint or "")


def test_the_header_is_short_files_whose_names_no_kernel_takes():
    vendor = Vendor(septran.load_machine("ascend-910b"))
    files = vendor.header_files.contents
    assert len(files) > 1
    assert all(content.count(b"\n") < 600 for content in files.values())
    assert "void Mmad(" in vendor.header_text
    assert len(run(named, {"M": 8, "N": 64}).check().outputs) == 1
