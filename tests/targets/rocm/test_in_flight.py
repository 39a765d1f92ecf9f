"""Which fills are under way in registers, and which are written to their stage at once."""

import re
from pathlib import Path

import pytest

import septran

MAPPING = Path(__file__).parents[3] / "mappings" / "amd-mi300x.mapping.yaml"
GEMM = {"M": 70, "N": 64, "K": 160}


def text(logic, shapes, **options):
    stages = septran.produce_stages(logic, "amd-mi300x", shapes=shapes, **options)
    return stages.tensor_ir.cuda.source


def test_the_loop_has_one_barrier_and_loads_before_it_multiplies(program):
    source = program("gemm", "float16", **GEMM).source
    loop = source[source.index("for (int k = 0") :]
    loop = loop[: re.search(r"^  \}$", loop, re.M).end()]
    assert loop.count("tvm_builtin_cuda_cta_sync();") == 1
    order = [loop.index(word) for word in ("cta_sync", "(A + ", "sched_barrier", "septran_mfma")]
    assert order == sorted(order)


def test_registers_for_a_fill_are_the_kernels_own_from_its_start(program):
    source = program("gemm", "float16", **GEMM).source
    for name in ("A_SHARED_held_ptr", "B_SHARED_held_ptr"):
        assert len(re.findall(rf"^  alignas\(16\) half {name}\[", source, re.M)) == 1


def test_loops_that_data_decides_write_each_fill_at_once():
    """Nobody knows how often they turn, thus which fill is in registers at a wait."""
    source = text("grouped_gemm", {"T": 70, "E": 5, "K": 90, "N": 130})
    assert "_held_ptr" not in source


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_any_number_of_stages_is_right(stages):
    text = MAPPING.read_text(encoding="utf-8").replace("pipeline: 2", f"pipeline: {stages}")
    kernel = septran.compile(
        "gemm", text, shapes={"M": 40, "N": 64, "K": 160}, dtypes="float16", emulate=True
    )
    assert kernel.check().right
