"""Products of parts: of tiles that threads hold in registers, and of panels that end within one."""

from __future__ import annotations

import pytest

import septran
from septran import task
from septran.emulator import emulation
from septran.tile.nodes import Compute, nodes
from tests.tiers import slow_but

MACHINES = ("nvidia-h200", "nvidia-a100")


@task.define(leaf=True)
def double(T, A):
    T[:, :] = A + A


@task.define(leaf=True)
def product(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define(leaf=True)
def turned_product(C, A, B):
    task.call_primitive("gemm", C, A.T, B)


@task.define
def left_parts(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    """The left operand is computed once, and taken part by part."""
    for _ in task.parallel_range(1):
        task.launch(left_block, C, A, B)


@task.define
def left_block(C, A, B):
    T = task.empty(A.shape, A.dtype, name="T")
    acc = task.zeros(C.shape, task.float32, name="acc")
    task.launch(double, T, A)
    Tp = task.partition(T, shape=(T.shape[0], 32))
    Bp = task.partition(B, shape=(32, B.shape[1]))
    for k in task.sequential_range(Bp.shape[0]):
        task.launch(product, acc, Tp[0, k], Bp[k, 0])
    task.copy(C, acc)


@task.define
def sum_parts(C: task.Tensor["M", "N"], A: task.Tensor["M", "K"], B: task.Tensor["K", "N"]):
    """One accumulator, whose columns are summed part by part."""
    for _ in task.parallel_range(1):
        task.launch(sum_block, C, A, B)


@task.define
def sum_block(C, A, B):
    acc = task.zeros(C.shape, task.float32, name="acc")
    parts = task.partition(acc, shape=(acc.shape[0], 32))
    Bp = task.partition(B, shape=(B.shape[0], 32))
    for j in task.sequential_range(Bp.shape[1]):
        task.launch(product, parts[0, j], A, Bp[0, j])
    task.copy(C, acc)


@task.define
def left_turned(C: task.Tensor["M", "N"], A: task.Tensor["K", "M"], B: task.Tensor["K", "N"]):
    """The left operand is computed as its transpose."""
    for _ in task.parallel_range(1):
        task.launch(turned_block, C, A, B)


@task.define
def turned_block(C, A, B):
    T = task.empty(A.shape, A.dtype, name="T")
    acc = task.zeros(C.shape, task.float32, name="acc")
    task.launch(double, T, A)
    task.launch(turned_product, acc, T, B)
    task.copy(C, acc)


def right_in_every_mode(kernel):
    for mode in ("eager", "late", "random"):
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


@pytest.mark.one_in(15)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("logic", "depth"), [(left_parts, 96), (left_parts, 72), (sum_parts, 64), (left_turned, 64)]
)
def test_a_part_of_what_threads_hold_is_an_operand(logic, depth, machine, dtype):
    shapes = {"M": 64, "N": 64, "K": depth}
    kernel = septran.compile(logic, machine, shapes=shapes, dtypes=dtype, emulate=True)
    right_in_every_mode(kernel)


def test_what_threads_hold_whole_is_not_copied():
    stages = septran.produce_stages("attention", "nvidia-h200", dtypes="float16")
    assert not [b.name for b in stages.tile_program.buffers if "part" in b.name]


MAPPING = """
machine: {machine}
extends: {machine}.mapping.yaml
rules:
  - {{match: {{task: gemm_block}}, mems: {{{tensor}: SHARED}}}}
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("depth", slow_but([12], [12, 76]))
@pytest.mark.parametrize("tensor", ["A", "B"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_panel_that_ends_within_a_tile_is_summed_with_zeros(machine, tensor, depth):
    kernel = septran.compile(
        "gemm", MAPPING.format(machine=machine, tensor=tensor), emulate=True,
        shapes={"M": 40, "N": 70, "K": depth}, dtypes="float16",
    )  # fmt: skip
    right_in_every_mode(kernel)


COMPUTED = """
machine: nvidia-a100
extends: nvidia-a100.mapping.yaml
rules:
  - {match: {task: left_block}, mems: {T: SHARED}}
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.one_in(2)
def test_a_transposed_operand_has_zeros_where_its_sum_ends_within_a_tile(dtype):
    """Its registers there are of no element, and what they hold times zero was NaN on an H100."""
    kernel = septran.compile(
        "attention_backward", "nvidia-h200", dtypes=dtype, emulate=True,
        shapes={"B": 1, "H": 2, "G": 1, "M": 33, "N": 70, "D": 16},
    )  # fmt: skip
    kernel.check().raise_if_wrong()


def test_a_computed_panel_that_ends_within_a_tile_is_summed_with_zeros():
    shapes = {"M": 48, "N": 72, "K": 76}
    kernel = septran.compile(left_parts, COMPUTED, emulate=True, shapes=shapes, dtypes="float16")
    right_in_every_mode(kernel)
    fills = [n for n in nodes(kernel.stages.tile_program.body) if _fills(n, "T")]
    assert [n.operands[0].shape for n in fills] == [(48, 96)]


def _fills(node, name):
    return (
        isinstance(node, Compute) and node.primitive == "fill" and node.operands[0].buffer == name
    )


@task.define
def constant(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    for _ in task.parallel_range(1):
        task.launch(constant_block, Y)


@task.define
def constant_block(Y):
    task.fill(Y, 1.5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_constants_of_short_types_need_no_header(dtype):
    kernel = septran.compile(
        constant, "nvidia-a100", emulate=True, shapes={"M": 16, "N": 64}, dtypes=dtype
    )
    kernel.check().raise_if_wrong()
