"""Every operator on every machine: the tile program is sound and means what its logic does."""

from __future__ import annotations

import numpy as np
import pytest

from septran.compiler import produce_stages
from septran.task.reference import run_tree
from septran.tile.interpret.execution import ADVERSARIES
from septran.tile.interpret.interpreter import interpret
from septran.tile.ledger import ledger
from septran.tile.printer import to_text
from septran.tile.verify.verifier import verify

CASES = {
    "gemm": ("gemm", {"M": 70, "N": 45, "K": 150}, {}),
    "gemm of one element": ("gemm", {"M": 1, "N": 1, "K": 1}, {}),
    "gemm without a sum": ("gemm", {"M": 5, "N": 4, "K": 0}, {}),
    "batched_gemm": ("batched_gemm", {"S": 3, "M": 33, "N": 20, "K": 65}, {}),
    "gemm_bias_act": ("gemm_bias_act", {"M": 70, "N": 45, "K": 50}, {}),
    "softmax": ("softmax", {"M": 70, "N": 45}, {}),
    "attention": ("attention", {"B": 1, "H": 2, "G": 2, "M": 70, "N": 100, "D": 16}, {}),
    "causal attention": (
        "attention", {"B": 1, "H": 1, "G": 1, "M": 130, "N": 150, "D": 16}, {"causal": True}
    ),
    "conv2d": ("conv2d", {"B": 2, "C": 5, "H": 9, "W": 8, "O": 6, "R": 3, "S": 3}, {}),
    "strided conv2d": (
        "conv2d", {"B": 1, "C": 3, "H": 11, "W": 9, "O": 4, "R": 3, "S": 3},
        {"stride": 2, "padding": 1},
    ),
}  # fmt: skip
MACHINES = ("cpu-x86", "dsa-sim", "nvidia-h200", "nvidia-a100", "amd-mi300x")


@pytest.fixture(params=CASES, scope="module")
def case(request):
    return CASES[request.param]


@pytest.fixture(params=MACHINES, scope="module")
def stages(request, case):
    operator, shapes, static = case
    return produce_stages(operator, request.param, shapes=shapes, static=static)


@pytest.fixture(scope="module")
def inputs(stages):
    """Small integers, so that the order of a sum does not matter."""
    program, rng = stages.tile_program, np.random.default_rng(0)
    shapes = {n: program.buffer(n).shape for n in program.params if n not in program.outputs}
    return {n: rng.integers(-3, 4, shape).astype(np.float32) for n, shape in shapes.items()}


@pytest.mark.one_in(5, first=4)
def test_the_verifier_passes(stages):
    verify(stages.tile_program)
    verify(stages.tile_program, full=True)


@pytest.mark.one_in(3, first=2)
def test_every_schedule_gives_what_the_logic_does(stages, inputs):
    program = stages.tile_program
    wanted = run_tree(stages.task_tree, inputs)
    for order in (*ADVERSARIES, 0, 1):
        result = interpret(program, inputs, order=order)
        for name in program.outputs:
            assert np.array_equal(result[name], wanted[name], equal_nan=True), (name, order)


def test_every_copy_is_in_the_ledger_with_a_reason(stages):
    found = ledger(stages.tile_program)
    assert found.ratio >= 1 or found.least_bytes == 0
    for row in found.rows:
        assert row.reason
        assert row.logic is not None
        assert "{" not in row.reason


def test_it_prints(stages):
    text = to_text(stages.tile_program, origins=True)
    assert text == to_text(stages.tile_program, origins=True)
    assert max(map(len, text.splitlines())) < 1000
