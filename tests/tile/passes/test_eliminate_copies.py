"""Which copies leave loops: those that a loop repeats, and none that data may skip."""

from __future__ import annotations

import septran
from septran import task
from septran.tile.nodes import Copy, For


@task.define(leaf=True)
def add_product(C, A, B):
    """C += A @ B."""
    task.call_primitive("gemm", C, A, B)


@task.define
def some(C, A, B, mask, *, alike: bool):
    """The products that a mask asks for, by one matrix or by one for each."""
    task.fill(C, 0)
    for k in task.sequential_range(mask.shape[0]):
        with task.when(mask[k]):
            task.launch(add_product, C, A[k], B[0] if alike else B[k])


@task.define
def asked(
    C: task.Tensor["I", "M", "N"],
    A: task.Tensor["I", "K", "M", "S"],
    B: task.Tensor["K", "S", "N"],
    mask: task.Tensor["K", task.int64],
    *,
    alike: bool = False,
):
    """A block for each."""
    for i in task.parallel_range(C.shape[0]):
        task.launch(some, C[i], A[i], B, mask, alike=alike)


MAPPING = """
machine: cpu-x86
rules:
  - {match: {level: entry}, proc: HOST, mems: {"*": DRAM}}
  - {match: {task: some}, proc: CORE}
  - {match: {task: add_product}, mems: {B: L2}}
"""
SIZES = {"I": 2, "M": 16, "N": 32, "S": 48, "K": 5}


def loops_around_the_copy(body, around=()):
    """The loops around the only copy of B, outermost first."""
    for node in body:
        if isinstance(node, Copy) and node.source.buffer == "B":
            return around
        if isinstance(node, For):
            found = loops_around_the_copy(node.body, (*around, node))
            if found is not None:
                return found
    return None


def around(alike):
    stages = septran.produce_stages(asked, MAPPING, shapes=SIZES, static={"alike": alike})
    return loops_around_the_copy(stages.tile_program.body)


def test_what_data_may_skip_is_copied_where_it_is_not_skipped():
    _, turns, asked_for = around(alike=False)
    assert turns.extent.as_int() == 5
    assert any(asked_for.extent.elements())


def test_what_is_alike_for_all_launches_on_a_condition_is_copied_once():
    assert len(around(alike=True)) == 1


def test_a_matrix_of_which_a_tile_has_no_rows_is_not_packed():
    sizes = {"T": 512, "E": 8, "K": 512, "N": 512}
    program = septran.produce_stages("grouped_gemm", "cpu-x86", shapes=sizes).tile_program

    def packed(body, skipped):
        for node in body:
            if isinstance(node, For):
                yield from packed(node.body, skipped or any(node.extent.elements()))
            elif isinstance(node, Copy) and node.source.buffer == "W":
                yield skipped

    assert list(packed(program.body, skipped=False)) == [True]
