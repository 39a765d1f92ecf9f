"""Run-time scalars and static flags, from the call through launches to compiled code."""

import numpy as np
import pytest

import septran
from septran import task
from septran.runtime import errors as calls
from septran.task import errors
from septran.task.frontend.definition import Keyword
from septran.task.reference_arguments import ReferenceArgumentCountError

X = np.arange(1, 12, dtype="float32")


@task.define(leaf=True)
def scaled(Y, X, *, a: float, n: task.int32 = 2, negate: bool = False):
    value = a * X + n
    Y[:] = -value if negate else value


@task.define
def scale(
    Y: task.Tensor["N"], X: task.Tensor["N"], *, a: float, n: task.int32 = 2, negate: bool = False
):
    Yp, Xp = task.partition(Y, shape=4), task.partition(X, shape=4)
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(scaled, Yp[i], Xp[i], a=a, n=n, negate=negate)


def test_keywords_are_told_apart():
    assert scale.keywords == (
        Keyword("a", False, None, True, "float32"),
        Keyword("n", False, 2, False, "int32"),
        Keyword("negate", True, False, False),
    )


@pytest.mark.parametrize("a", [0.5, -2, np.float32(3)])
@pytest.mark.parametrize("n", [7, np.int32(-1)])
def test_scalars_reach_the_compiled_leaf(a, n, on_cpu):
    assert np.array_equal(on_cpu(scale, X, a=a, n=n), np.float32(a) * X + n)


def test_one_kernel_serves_every_value_and_flags_specialise():
    kernel = septran.compile(scale, "cpu-x86", shapes={"N": 11})
    for a in (1.0, 2.5, -3.0):
        assert np.array_equal(kernel(X, a=a), a * X + 2)
    assert len(kernel.specialisations) == 1
    turned = septran.compile(scale, "cpu-x86", static={"negate": True})
    assert np.array_equal(turned(X, a=1.0, n=0), -X)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({}, calls.ScalarError, "scalar a is missing"),
        ({"a": "x"}, calls.ScalarError, "must be a number, not a str"),
        ({"a": X}, calls.ScalarError, "must be a number"),
        ({"a": 1.0, "n": 0.5}, calls.ScalarError, "n"),
        ({"a": 1.0, "n": 2**40}, calls.ScalarError, "n"),
        ({"a": 1.0, "b": 2.0}, calls.ArgumentCountError, "no argument 'b'"),
    ],
)
def test_wrong_scalars_are_told(given, error, match):
    with pytest.raises(error, match=match):
        septran.compile(scale, "cpu-x86")(X, **given)


def test_arrays_of_the_wrong_kind_are_told():
    kernel = septran.compile(scale, "cpu-x86", dtypes={"X": "float32"})
    with pytest.raises(calls.ArgumentDtypeError, match="complex"):
        kernel(X.astype("complex64"), a=1.0)
    with pytest.raises(calls.ArgumentShapeError):
        kernel(np.zeros((2, 2), "float32"), a=1.0)
    with pytest.raises(calls.ArgumentCountError):
        kernel(a=1.0)


def test_the_reference_needs_scalars_too():
    with pytest.raises(ReferenceArgumentCountError, match="scale needs a"):
        task.run(scale, X)
    with pytest.raises(errors.LaunchArgumentsError, match="no parameter 'aa'") as caught:
        task.run(scale, X, aa=1.0)
    assert caught.value.hint == "did you mean 'a'?"


def test_a_launched_float_is_a_float_whatever_the_author_writes(on_cpu):
    @task.define(leaf=True)
    def times(Y, X, *, a: float):
        Y[:] = X * a

    @task.define
    def entry(Y: task.Tensor["N", task.float32], X: task.Tensor["N", task.int8]):
        task.launch(times, Y, X, a=100)

    x = np.array([1, 2, 3], "int8")
    assert on_cpu(entry, x).tolist() == [100, 200, 300]


def test_arithmetic_on_scalars_before_they_are_passed_on(on_cpu):
    @task.define
    def entry(Y: task.Tensor["N"], X: task.Tensor["N"], *, a: float, b: task.float64 = 2.0):
        task.launch(scaled, Y, X, a=a * b + 1)

    assert np.array_equal(on_cpu(entry, X, a=3.0), X * 7 + 2)


def test_a_scalar_fills_a_tensor(on_cpu):
    @task.define
    def entry(Y: task.Tensor["N"], X: task.Tensor["N"], *, a: float):
        task.fill(Y, a)
        task.launch(add, Y, X)

    @task.define(leaf=True)
    def add(Y, X):
        Y += X

    assert np.array_equal(on_cpu(entry, X, a=3.0), X + 3)


def test_static_values_choose_the_shape(on_cpu):
    @task.define(leaf=True)
    def leaf(Y, X, *, step: task.static):
        for n in range(step):
            Y[n, :] = X * float(n)

    @task.define
    def entry(Y: task.Tensor["step", "N"], X: task.Tensor["N"], *, step: task.static = 2):
        task.launch(leaf, Y, X, step=step)

    assert on_cpu(entry, X, step=3).shape == (3, 11)

    @task.define
    def forgets(Y, X):
        task.launch(leaf, Y, X)

    with pytest.raises(errors.LaunchArgumentsError, match="leaf needs step"):
        task.trace(forgets, {"Y": (2, 3), "X": (3,)})


def test_a_required_flag_is_asked_for():
    @task.define(leaf=True)
    def leaf(Y: task.Tensor["N"], X: task.Tensor["N"], *, step: task.static):
        Y[:] = X * step

    with pytest.raises(errors.LaunchArgumentsError, match="leaf needs step") as caught:
        task.trace(leaf, {"Y": (3,), "X": (3,)})
    assert "static={'step': ...}" in (caught.value.hint or "")


def test_tensors_are_not_keywords(raises_at):
    @task.define
    def entry(Y, X):
        task.launch(scaled, Y, X, a=X)  # here

    raises_at(
        errors.LaunchArgumentsError, "a of scaled is given a tensor",
        lambda: task.trace(entry, {"Y": (4,), "X": (4,)}),
    )  # fmt: skip
