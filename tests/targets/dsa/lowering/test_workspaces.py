"""Temporaries in main memory: parameters behind the program's own, one part for each core."""

from __future__ import annotations

import shutil

import pytest

import septran
from septran import task
from septran.compiler import produce_stages
from septran.machine.loader import mappings_root
from septran.targets.dsa.steps import workspaces

MAPPING = """
machine: dsa-sim
rules:
  - match: {level: entry}
    proc: HOST
    mems: {"*": GLOBAL}
  - match: {loops: parallel}
    proc: CORE
    mems: {temporaries: GLOBAL}
  - match: {task: block}
    proc: CORE
    mems: {temporaries: GLOBAL, reads: GLOBAL, writes: GLOBAL}
  - match: {leaf: elementwise}
    mems: {"*": SPM}
    binding: vec
"""


@task.define(leaf=True)
def double(Y, X):
    Y[:, :] = X * 2.0


@task.define(leaf=True)
def increment(Y, X):
    Y[:, :] = X + 1.0


@task.define
def block(Y, X):
    between = task.empty(X.shape, task.float32, name="between")
    task.launch(double, between, X)
    task.launch(increment, Y, between)


@task.define
def chain(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    Yp = task.partition(Y, shape=(4, Y.shape[1]))
    Xp = task.partition(X, shape=(4, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(block, Yp[i, 0], Xp[i, 0])


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("seed", ["", "1", "2"])
def test_each_core_has_its_part(cores, seed, tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", seed)
    folder = mappings_root() / "machines"
    shutil.copy(folder / "dsa-sim.h", tmp_path)
    machine, mapping = tmp_path / "dsa-sim.yaml", tmp_path / "chain.mapping.yaml"
    text = (folder / "dsa-sim.yaml").read_text()
    machine.write_text(text.replace("count: 1", f"count: {cores}"))
    mapping.write_text(MAPPING)
    options = {"machine": str(machine), "shapes": {"M": 22, "N": 9}}
    program = produce_stages(chain, str(mapping), **options).tile_program
    assert workspaces(program) == (("between", 4 * 9 * 4 * cores),)
    result = septran.compile(chain, str(mapping), **options).check()
    assert result.right, str(result)
