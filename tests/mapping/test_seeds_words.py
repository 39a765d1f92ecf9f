"""A mapping in the words of the project's first description loads and resolves anywhere."""

from __future__ import annotations

import pytest

from septran import task
from septran.machine.loader import machine_names
from septran.mapping.loader import load_mapping
from septran.mapping.resolve import resolve

MAPPING = """\
# gemm_on_nvidia_gpu.mapping.yaml
entrypoint: gemm_host

task_mappings:
  gemm_host:
    task_name: gemm_host_logic
    proc: HOST
    mems: {C: GLOBAL, A: GLOBAL, B: GLOBAL}
    tunables: {block_size: 128}
    calls: {gemm_block_logic: gemm_block_gpu}

  gemm_block_gpu:
    task_name: gemm_block_logic
    proc: BLOCK
    # 核心指令：A和B放到SHARED内存，启用流水线
    mems: {C: REGISTER, A: SHARED, B: SHARED}
    pipeline: 3
    leaf_task_bindings:
      gemm_leaf_logic: gemm_leaf_tensorcore
"""


@task.define(leaf=True)
def gemm_leaf_logic(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def gemm_block_logic(C, A, B):
    Cp = task.partition(C, by="blocks", shape_from="A")
    Ap = task.partition(A, by="blocks", shape_from="A")
    Bp = task.partition(B, by="blocks", shape_from="A")
    for i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_leaf_logic, Cp[i, j], Ap[i, :], Bp[:, j])


@task.define
def gemm_host_logic(C, A, B):
    task.launch(gemm_block_logic, C, A, B)


@pytest.mark.parametrize("machine", [None, *machine_names()])
def test_it_runs_on_every_machine(machine):
    mapping = load_mapping(MAPPING, machine)
    shapes = {"C": (64, 64), "A": (64, 64), "B": (64, 64)}
    dtypes = {"C": "float32", "A": "float16", "B": "float16"}
    tree = task.trace(gemm_host_logic, shapes, dtypes, mapping.chooser())
    resolved = resolve(tree, mapping)
    (leaf,) = [i for i in resolved.instances if i.task == "gemm_leaf_logic"]
    assert resolved.machine.instruction(leaf.bindings["gemm"].value).primitive == "gemm"
    assert [i.tunables["block_size"].value for i in resolved.instances if i.tunables] == [128]
