"""`compile` and `produce_stages`: what they take, and what they report."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import septran
from septran import task
from septran.request import MissingLogicError


def test_a_kernel_gives_back_what_it_was_given():
    kernel = septran.compile("gemm", "cpu-x86")
    a, b = np.eye(5, 4, dtype="float32"), np.ones((4, 3), "float32")
    assert isinstance(kernel(a, b), np.ndarray)
    c = kernel(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(c, torch.Tensor)
    assert np.array_equal(c.numpy(), a @ b)


def test_named_dimensions_stand_for_shapes():
    kernel = septran.compile("gemm", shapes={"M": 8, "N": 4, "K": 2})
    (made,) = kernel.specialisations
    assert {t.name: t.shape for t in made.tensors} == {"C": (8, 4), "A": (8, 2), "B": (2, 4)}
    assert "executable" in made.stages.made


@pytest.mark.parametrize(
    "given", [{"shapes": {"M": 8, "N": 4, "K": 2}}, {}], ids=["at once", "later"]
)
def test_nothing_is_traced_again_for_a_call_with_or_without_its_outputs(given, monkeypatch):
    kernel = septran.compile("gemm", **given)
    a, b, c = (np.ones(shape, "float32") for shape in ((8, 2), (2, 4), (8, 4)))
    if not given:
        kernel(a, b)
    monkeypatch.setattr(kernel, "_specialise", None)  # it would be asked for another compilation
    assert (kernel(a, b) == 2).all()
    assert (kernel(a, b, out=c) == 2).all()
    assert kernel.check().right
    assert len(kernel.specialisations) == 1


def test_an_unknown_dimension_names_the_nearest():
    with pytest.raises(MissingLogicError, match="no tensor or dimension 'MM'"):
        septran.compile("gemm", shapes={"MM": 8})


def test_no_logic_is_an_error():
    with pytest.raises(MissingLogicError, match="no logic is given"):
        septran.compile()


def test_a_tunable_that_nothing_asks_for_is_reported():
    stages = septran.produce_stages("gemm", tunables={"block_Q": 3, "block_K": 32})
    (remark,) = [r for r in stages.tile_program.remarks if r.about == "block_Q"]
    assert remark.kind == "no-effect"
    assert "no task of gemm asks for it" in remark.message


@pytest.mark.parametrize("tunables", [{"block_K": 32}, {"block_M": 24}, {"block_N": 40}], ids=str)
@pytest.mark.one_in(2)
def test_one_number_of_the_mapping_changes_stages_but_not_results(tunables):
    shapes = {"M": 100, "N": 90, "K": 80}
    before = septran.produce_stages("gemm", shapes=shapes)
    after = septran.produce_stages("gemm", shapes=shapes, tunables=tunables)
    assert str(before.tile_program) != str(after.tile_program)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((100, 80)), rng.standard_normal((80, 90))
    kernel = septran.compile("gemm", tunables=tunables)
    assert kernel.check(a.astype("float32"), b.astype("float32")).right


def test_stages_are_equal_and_print_equally_for_equal_inputs():
    one, two = (septran.produce_stages("attention", machine="dsa-sim") for _ in range(2))
    assert one.task_tree == two.task_tree
    assert str(one.tile_program) == str(two.tile_program)
    assert str(one.mapping) == str(two.mapping)


def test_static_flags_reach_the_logic():
    kernel = septran.compile("gemm", static={"trans_b": True})
    a, b = np.eye(3, dtype="float32"), np.arange(6, dtype="float32").reshape(2, 3)
    assert np.array_equal(kernel(a, b), b.T)


def test_a_task_defined_anywhere_compiles():
    @task.define(leaf=True)
    def shift(Y, X, *, by: task.static = 1):
        Y[:] = X + by

    @task.define
    def main(Y: task.Tensor["N"], X: task.Tensor["N"], *, by: task.static = 1):
        task.launch(shift, Y, X, by=by)

    x = np.arange(7, dtype="float32")
    assert np.array_equal(septran.compile(main, static={"by": 3})(x), x + 3)


@task.define(leaf=True)
def forgets(Y, X):
    task.empty(X.shape, task.float32, name="spare")
    Y[:] = X + 1.0


@task.define
def forgetful(Y: task.Tensor["N"], X: task.Tensor["N"]):
    Yp, Xp = (task.partition(T, shape=(16,)) for T in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.empty(Xp[i].shape, task.float32, name="lost")
        task.launch(forgets, Yp[i], Xp[i])


@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "npu-cube"])
def test_a_temporary_that_nothing_uses_is_no_obstacle(machine):
    x = np.arange(64, dtype="f4")
    np.testing.assert_array_equal(septran.compile(forgetful, machine)(x), x + 1)
