"""The prints of all five stages, reviewed as diffs."""

from __future__ import annotations

from dataclasses import replace

import pytest

import septran

CASES = {
    "gemm": {"M": 40, "N": 33, "K": 50},
    "softmax": {"M": 20, "N": 37},
}


@pytest.mark.parametrize("stage", ["task_tree", "mapping", "tile_program", "tensor_ir", "source"])
@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.one_in(3)
def test_stage(name, stage, golden):
    # a fixed arch: the native one differs from host to host
    machine = replace(septran.load_machine("cpu-x86"), arch="avx2")
    stages = septran.produce_stages(name, "cpu-x86", machine=machine, shapes=CASES[name])
    golden.check(str(stages[stage]), f"{name}_{stage}")
