"""Tensors may be called like anything of C++ or CUDA."""

from __future__ import annotations

import re

import pytest

from septran.compiler import produce_stages
from septran.targets.cuda.target import TARGET
from septran.targets.cuda.text.names import identifier

TAKEN = (
    "threadIdx", "blockIdx", "warpSize", "volatile", "template", "half", "half2", "float4",
    "uint8_t", "uint4", "nv_bfloat162", "CUtensorMap", "min", "fmaxf", "expf", "printf",
    "atomicAdd",
    "septran_floor", "__shfl_sync", "_x", "größe",
)  # fmt: skip
FREE = (
    "X",
    "A_L2",
    "T",
    "x_1",
    "tid",
    "smem",
    "halfway",
    "floats",
    "interest",
    "shortcut",
    "minimum",
)
LOGIC = """
from septran import task

@task.define(leaf=True)
def move(Y, {name}):
    Y[:, :] = task.exp({name})

@task.define
def whole(Y: task.Tensor["M", "N"], {name}: task.Tensor["M", "N"], *, {scalar}: float = 2.0):
    tile = (task.tunable("block_M"), task.tunable("block_N"))
    Yp, Xp = task.partition(Y, shape=tile), task.partition({name}, shape=tile)
    for i, j in task.parallel_range(Yp.shape):
        task.launch(move, Yp[i, j], Xp[i, j])
"""


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_means_something_is_not_taken(name):
    found = identifier(name)
    assert found != name
    assert found.isascii()
    assert found.isidentifier()
    assert identifier(found) == found


@pytest.mark.parametrize("name", FREE)
def test_other_names_stay(name):
    assert identifier(name) == name


@pytest.mark.parametrize("name", ["threadIdx", "volatile", "half", "min"])
def test_a_kernel_uses_the_word_in_its_own_meaning_only(name, tmp_path):
    file = tmp_path / "whole.py"
    file.write_text(LOGIC.format(name=name, scalar="unsigned"), encoding="utf-8")
    stages = produce_stages(str(file), "nvidia-a100", shapes={name: (65, 24)}, dtypes="float16")
    program = TARGET.lower(stages.tile_program).cuda
    (launch,) = program.launches
    (signature,) = re.findall(rf"{launch.kernel}\((.*)\) {{", program.source)
    names = [re.split(r"\W+", part.strip())[-1] for part in signature.split(",")]
    assert names == ["Y", f"t_{name}", "t_unsigned"]
