"""What a call cannot be given, or lacks, is told with where it is to be given."""

from __future__ import annotations

import numpy as np
import pytest

import septran
from septran import task
from septran.runtime.errors import ArgumentCountError
from septran.task.errors import InferenceError, LaunchArgumentsError

X = np.ones((1, 3, 8, 8), np.float32)
F = np.ones((1, 3, 3, 3), np.float32)
STATIC = "padding is static: give it when compiling, septran.compile(..., static={'padding': ...})"


@task.define(leaf=True)
def corner_tile(Y, X):
    Y[:, :] = X * 2


@task.define
def corner(Y: task.Tensor["P", "Q"], X: task.Tensor["M", "N"]):
    """P and Q follow from nothing."""
    task.launch(corner_tile, Y[0:4, 0:4], X[0:4, 0:4])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("padding", STATIC),
        ("paddin", STATIC),
        ("H", "H is a size: it follows from the arrays"),
        ("ou", "did you mean 'out'?"),
    ],
)
def test_a_word_that_no_call_takes_is_sent_where_it_belongs(name, hint):
    with pytest.raises(ArgumentCountError) as caught:
        septran.compile("conv2d", "cpu-x86")(X, F, **{name: 1})
    assert caught.value.hint == hint


def test_flags_by_position_are_sent_to_static():
    with pytest.raises(ArgumentCountError, match="takes 2 tensors by position") as caught:
        septran.compile("conv2d", "cpu-x86")(X, F, 1)
    assert "given when compiling, static={'stride': ...}" in caught.value.hint


def test_a_shape_that_follows_from_nothing_is_asked_for_in_each_way():
    with pytest.raises(InferenceError, match="dimension P of Y does not follow") as caught:
        septran.compile(corner, "cpu-x86")(np.ones((8, 8), np.float32))
    for way in ("shapes={'P': ...} (-s P=...)", "shapes={'Y': (...)}", "out=..."):
        assert way in caught.value.hint


def test_each_of_these_ways_is_one():
    x, y = np.ones((8, 8), np.float32), np.zeros((4, 4), np.float32)
    sizes = {"M": 8, "N": 8, "P": 4, "Q": 4}
    for shapes in (sizes, {"X": (8, 8), "Y": (4, 4)}):
        assert septran.compile(corner, "cpu-x86", shapes=shapes)(x).tolist() == [[2.0] * 4] * 4
    kernel = septran.compile(corner, "cpu-x86")
    assert kernel(x, out=y) is y
    kernel(x, out=np.zeros((5, 4), np.float32))
    with pytest.raises(InferenceError):  # two of its compilations would do
        kernel(x)


def test_a_trace_asks_for_the_shape_that_it_lacks():
    with pytest.raises(InferenceError) as caught:
        task.trace(corner, {"X": (8, 8)})
    assert caught.value.hint == "trace takes the shapes of all tensors: add 'Y': (...)"


@pytest.mark.parametrize(
    ("flag", "value", "least"), [("padding", -1, 0), ("dilation", 0, 1), ("stride", -2, 1)]
)
@pytest.mark.parametrize("operator", ["conv2d", "conv2d_nhwc"])
def test_what_a_window_cannot_have_is_named(operator, flag, value, least):
    said = f"the {flag} of a window is {value}, and must be at least {least}"
    with pytest.raises(LaunchArgumentsError, match=said) as caught:
        septran.compile(operator, "cpu-x86", static={flag: value})(X, F)
    assert caught.value.where.text.strip().startswith("windows = task.window(")


@pytest.mark.parametrize("flag", ["stride", "groups"])
def test_a_flag_that_a_dimension_divides_by_is_named(flag):
    with pytest.raises(InferenceError, match=f"divides by zero: {flag} is 0"):
        septran.compile("conv2d", "cpu-x86", static={flag: 0})(X, F)
