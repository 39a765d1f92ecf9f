"""Temporaries in GLOBAL: each block has its own, and its threads wait for each other."""

from __future__ import annotations

import pytest

import septran
from septran.emulator import emulation


def mapping(machine, *rules):
    lines = "".join(f"  - {rule}\n" for rule in rules)
    return f"machine: {machine}\nextends: {machine}.mapping.yaml\nrules:\n{lines}"


def right_in_every_mode(kernel):
    for mode in ("eager", "late", "random"):
        with emulation(mode=mode, seed=3):
            kernel.check().raise_if_wrong()


def test_blocks_that_run_at_one_time_have_a_temporary_each():
    text = mapping(
        "nvidia-h200",
        "{match: {task: layer_norm_rows}, mems: {mean: GLOBAL}}",
        "{match: {holds: parallel}, cluster: 2}",
    )
    kernel = septran.compile(
        "layer_norm", text, emulate=True, shapes={"M": 200, "N": 96}, dtypes="float16"
    )
    right_in_every_mode(kernel)
    program = kernel.stages.tensor_ir.cuda
    (launch,) = program.launches
    rows = kernel.stages.tile_program.buffer("mean").shape[0]
    assert dict(program.scratch) == {"mean": launch.grid * rows * 4}


def test_what_one_kernel_leaves_to_the_next_is_common_to_all_blocks():
    stages = septran.produce_stages("gemm_splitk", "nvidia-h200", dtypes="float16")
    buffers = stages.tile_program.buffers
    temporaries = {b.name: b for b in buffers if b.memory == "GLOBAL"}
    for name, size in stages.tensor_ir.cuda.scratch:
        shape = temporaries[name].shape
        assert size == 4 * shape[0] * shape[1] * shape[2]


def test_boxes_are_taken_from_what_threads_wrote_behind_a_fence():
    text = mapping("nvidia-h200", "{match: {task: dequant_block}, mems: {T: GLOBAL}}")
    kernel = septran.compile(
        "dequant_gemm", text, emulate=True, shapes={"M": 300, "N": 300, "K": 128}, dtypes="float16"
    )
    right_in_every_mode(kernel)
    text = kernel.stages.tensor_ir.cuda.source
    assert "T_map" in text
    assert "fence.proxy.async.global" in text


@pytest.mark.parametrize("machine", ["nvidia-a100", "nvidia-h200"])
def test_threads_wait_for_each_other_where_the_entry_is_a_blocks(machine):
    text = mapping(
        machine,
        '{match: {task: softmax_rows}, mems: {"*": GLOBAL}}',
        "{match: {task: softmax}, proc: BLOCK}",
    )
    kernel = septran.compile("softmax", text, emulate=True, shapes={"M": 17, "N": 80})
    right_in_every_mode(kernel)


def test_threads_wait_before_another_buffer_takes_the_place_of_one():
    rules = "{match: {task: unpack4}, mems: {T: SHARED, scale: SHARED}}"
    kernel = septran.compile(
        "dequant_gemm", mapping("nvidia-h200", rules), emulate=True,
        shapes={"M": 48, "N": 96, "K": 64}, dtypes="bfloat16", static={"group": 32},
    )  # fmt: skip
    right_in_every_mode(kernel)
    plan = {p.buffer: p for p in kernel.stages.tile_program.plan}
    assert plan["T_SHARED"].offset_bytes == plan["B_SHARED"].offset_bytes
