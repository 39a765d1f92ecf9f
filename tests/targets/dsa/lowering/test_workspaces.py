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


@task.define
def passed_on(Y, X):
    task.launch(increment, Y, X)


@task.define
def staging_block(Y, X):
    between = task.empty(X.shape, task.float32, name="between")
    task.launch(double, between, X)
    task.launch(passed_on, Y, between)


@task.define
def staged(Y: task.Tensor["M", "N"], X: task.Tensor["M", "N"]):
    """Where `passed_on` wants its parameter in main memory, each core stages it there."""
    Yp = task.partition(Y, shape=(4, Y.shape[1]))
    Xp = task.partition(X, shape=(4, X.shape[1]))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(staging_block, Yp[i, 0], Xp[i, 0])


@task.define
def moving(Y, X):
    """The second step's iterations read what others wrote in the first one."""
    between = task.empty(X.shape, task.float32, name="between")
    for k in task.sequential_range(2):
        for i in task.parallel_range(X.shape[0] - k):
            for _ in task.sequential_range(1 - k):
                task.launch(double, between[i + k], X[i])
                task.launch(double, Y[i], X[i])
            for _ in task.sequential_range(k):
                task.launch(increment, Y[i], between[i + k])


@task.define
def steps(Y: task.Tensor["G", "M", "N"], X: task.Tensor["G", "M", "N"]):
    task.launch(moving, Y, X)


@task.define
def batches(Y: task.Tensor["B", "G", "M", "N"], X: task.Tensor["B", "G", "M", "N"]):
    """The host goes over the batch, so each of its steps is all cores'."""
    for b in task.parallel_range(X.shape[0]):
        task.launch(moving, Y[b], X[b])


@task.define
def two_nests(Y: task.Tensor["G", "M", "N"], X: task.Tensor["G", "M", "N"]):
    between = task.empty(X.shape, task.float32, name="between")
    last = X.shape[0] - 1
    for _ in task.sequential_range(2):
        for i in task.parallel_range(X.shape[0]):
            task.launch(double, between[i], X[i])
        for i in task.parallel_range(X.shape[0]):
            task.launch(increment, Y[i], between[last - i])


def files(tmp_path, cores, rules=""):
    """A dsa-sim of several cores, and a mapping for it."""
    folder = mappings_root() / "machines"
    shutil.copy(folder / "dsa-sim.h", tmp_path)
    machine, mapping = tmp_path / "dsa-sim.yaml", tmp_path / "chain.mapping.yaml"
    text = (folder / "dsa-sim.yaml").read_text()
    machine.write_text(text.replace("count: 1", f"count: {cores}"))
    mapping.write_text(MAPPING.replace("rules:", f"rules:{rules}", 1))
    return {"machine": str(machine), "mapping": str(mapping)}


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("seed", ["", "1", "2"])
@pytest.mark.one_in(5)
def test_each_core_has_its_part(cores, seed, tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", seed)
    options = files(tmp_path, cores) | {"shapes": {"M": 22, "N": 9}}
    program = produce_stages(chain, **options).tile_program
    assert workspaces(program) == (("between", 4 * 9 * 4 * cores),)
    result = septran.compile(chain, **options).check()
    assert result.right, str(result)


STAGED = """
  - match: {task: staging_block}
    proc: CORE
    mems: {temporaries: SPM, reads: GLOBAL, writes: GLOBAL}
  - match: {task: passed_on}
    proc: CORE
    mems: {X: GLOBAL, Y: GLOBAL}"""


def test_each_core_stages_in_its_part(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", "1")
    options = files(tmp_path, 3, STAGED) | {"shapes": {"M": 22, "N": 9}}
    program = produce_stages(staged, **options).tile_program
    assert workspaces(program) == (("X_GLOBAL", 4 * 9 * 4 * 3),)
    result = septran.compile(staged, **options).check()
    assert result.right, str(result)


SHARED = """
  - match: {task: moving}
    proc: HOST
    mems: {"*": NONE, temporaries: GLOBAL}"""


@pytest.mark.parametrize("seed", ["", "1"])
@pytest.mark.parametrize("logic", [steps, batches, two_nests], ids=lambda t: t.name)
@pytest.mark.one_in(5)
def test_cores_share_what_is_made_outside_of_the_loop_over_them(logic, seed, tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", seed)
    shapes = {"G": 4, "M": 3, "N": 9} | ({"B": 2} if logic is batches else {})
    options = files(tmp_path, 3, SHARED) | {"shapes": shapes}
    program = produce_stages(logic, **options).tile_program
    assert workspaces(program) == (("between", 4 * 3 * 9 * 4),)
    result = septran.compile(logic, **options).check()
    assert result.right, str(result)


@pytest.mark.parametrize("logic", [steps, two_nests], ids=lambda t: t.name)
def test_cores_that_stay_share_it_too(logic, monkeypatch):
    """npu-cube's mapping lets both cores take the iterations in turn."""
    monkeypatch.setenv("SEPTRAN_DSA_ADVERSARIAL", "1")
    mapping = str(mappings_root() / "npu-cube.mapping.yaml")
    options = {"mapping": mapping, "shapes": {"G": 4, "M": 8, "N": 16}}
    result = septran.compile(logic, **options).check()
    assert result.right, str(result)
