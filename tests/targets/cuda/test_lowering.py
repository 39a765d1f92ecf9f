import re

import pytest

from septran import operators
from septran.compiler import produce_stages
from septran.emulator.launch import Pointer, ScalarArgument
from septran.machine.loader import mappings_root
from septran.operators import Case
from septran.targets.cuda.target import TARGET, KernelIR
from septran.targets.registry import NoEmitterError
from septran.views import explain
from tests.tiers import in_turn

MACHINES = ("nvidia-a100", "nvidia-h200")
FIRST = [operators.cases(name)[0] for name in operators.names()]


def lower(case: Case, machine: str) -> KernelIR:
    stages = produce_stages(
        case.operator, machine, shapes=case.sizes, dtypes=case.dtype, static=case.static
    )
    return TARGET.lower(stages.tile_program)


def kernel(name: str, machine: str = "nvidia-a100", **options) -> KernelIR:
    return TARGET.lower(produce_stages(name, machine, **options).tile_program)


@pytest.mark.parametrize(("case", "machine"), in_turn(FIRST, MACHINES), ids=str)
@pytest.mark.one_in(3, first=2)
def test_every_operator_becomes_cuda(case: Case, machine: str) -> None:
    program = lower(case, machine).cuda
    assert program.launches
    for launch in program.launches:
        assert f"{launch.kernel}(" in program.source


@pytest.mark.parametrize("name", ["layer_norm", "gemm_splitk", "gemm"])
def test_arguments_are_in_the_order_of_the_signature(name: str) -> None:
    program = kernel(name, "nvidia-h200").cuda
    for launch in program.launches:
        (signature,) = re.findall(rf"{launch.kernel}\((.*)\) {{", program.source)
        names = [re.split(r"\W+", part.strip())[-1] for part in signature.split(",")]
        assert names == [a.name for a in launch.arguments]


def test_scalars_are_arguments_of_the_kernel() -> None:
    program = kernel("layer_norm").cuda
    assert program.scalars == (("eps", "float32"),)
    assert ScalarArgument("eps", "float32") in program.launches[0].arguments


def test_temporaries_in_global_memory_are_scratch() -> None:
    program = kernel("gemm_splitk", shapes={"M": 40, "N": 33, "K": 1100}).cuda
    assert program.scratch == (("parts", 2 * 40 * 33 * 4),)
    first, second = program.launches
    assert Pointer("parts", "float32", "parts") in first.arguments
    assert Pointer("parts", "float32", "parts") in second.arguments


def test_nests_of_parallel_loops_are_launches_in_order() -> None:
    program = kernel("gemm_bias_act", shapes={"M": 70, "N": 40, "K": 66}).cuda
    assert [launch.kernel for launch in program.launches] == [
        "gemm_bias_act_0_kernel",
        "gemm_bias_act_1_kernel",
    ]


def test_the_grid_has_a_block_for_each_iteration() -> None:
    program = kernel("gemm", shapes={"M": 300, "N": 130, "K": 64}).cuda
    assert program.launches[0].grid == 3 * 2


def test_statements_say_where_they_come_from() -> None:
    source = kernel("softmax").cuda.source
    lines = [line.strip() for line in source.splitlines() if line.strip().startswith("// ")]
    assert any("softmax.py:27" in line and "nvidia-a100.mapping.yaml" in line for line in lines)
    assert any("copy(Y_REGISTER" in line and "by load_store" in line for line in lines)


def test_rows_are_reduced_by_the_lanes_of_a_warp_without_shared_memory() -> None:
    program = kernel("softmax", shapes={"M": 64, "N": 512}).cuda
    assert "__shfl_xor_sync" in program.source
    assert "__shared__" not in program.source
    assert program.launches[0].shared_bytes == 0


def test_a_row_that_is_longer_than_a_warp_is_reduced_through_shared_memory() -> None:
    program = kernel("softmax", shapes={"M": 1, "N": 4096}).cuda
    assert "__shfl_xor_sync" in program.source
    assert program.launches[0].shared_bytes > 0


def test_memory_is_moved_in_vectors_where_rows_are_aligned() -> None:
    assert "*(float4*)(X" not in kernel("softmax", shapes={"M": 40, "N": 71}).cuda.source
    assert "*(float2*)(X" in kernel("softmax", shapes={"M": 40, "N": 70}).cuda.source
    assert "*(float4*)(X" in kernel("softmax", shapes={"M": 40, "N": 72}).cuda.source


def test_tensor_ir_is_a_function_for_each_kernel() -> None:
    stage = kernel("gemm_splitk")
    assert len(stage.module.functions) == 2
    assert "blockIdx.x" in stage.text


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("instructions", "fragmint: {primitive: map, throughput: 1 elements/cycle}"),
        ("engines", "tma2: {moves: [GLOBAL->SHARED], bandwidth: 1B/cycle}"),
    ],
)
def test_what_no_code_is_for_is_refused_where_the_machine_file_names_it(
    tmp_path, section, entry
) -> None:
    text = (mappings_root() / "machines" / "nvidia-a100.yaml").read_text(encoding="utf-8")
    file = tmp_path / "later.yaml"
    file.write_text(text.replace(f"{section}:", f"{section}:\n  {entry}", 1), encoding="utf-8")
    line = 1 + file.read_text(encoding="utf-8").splitlines().index(f"  {entry}")
    stages = produce_stages("softmax", "nvidia-a100", machine=file)
    with pytest.raises(NoEmitterError, match=entry.partition(":")[0]) as error:
        TARGET.lower(stages.tile_program)
    assert error.value.code == "SEP504"
    assert (error.value.where.line, error.value.where.file) == (line, str(file))
    assert "did you mean" in str(error.value)


def test_remarks_of_the_code_generator_reach_kernel_and_explanation() -> None:
    """A fragment that no stmatrix takes is stored by threads, and that is said."""
    options = {"shapes": {"M": 64, "N": 72, "K": 64}, "dtypes": "float32"}
    (remark,) = kernel("gemm", "nvidia-h200", **options).remarks
    assert remark.message.startswith("C is stored by threads, not by TMA: ")
    explanation = explain("gemm", "nvidia-h200", **options)
    assert remark not in explanation.remarks  # nothing is lowered yet
    assert f"// missed: {remark.message}\n" in explanation.text("source")
    assert remark in explanation.remarks
