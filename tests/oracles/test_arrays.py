"""Functions of elements on all element types against NumPy, as the array API's tests do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as extra

from septran import compile as compile_kernel
from septran import task
from tests.oracles import arrays
from tests.oracles.judging import joined, judge

EXAMPLES = 8
CHOSEN = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""The same examples everywhere; a failing one is small already."""


def check(samples, *executors):
    outcome = judge(joined(samples), executors)
    assert not outcome.differences, "\n".join(map(str, outcome.differences[:10]))


@pytest.mark.one_in(4, first=2)
@pytest.mark.parametrize("dtype", ["float16", "int8", "bool"])
def test_all_pairs_of_corner_values_by_the_reference(dtype):
    check(arrays.samples(dtype, *arrays.pairs(dtype)), "reference")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", arrays.DTYPES)
def test_all_pairs_of_corner_values(dtype):
    check(arrays.samples(dtype, *arrays.pairs(dtype)), "cpu", "interpreter", "reference")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", arrays.DTYPES)
def test_arrays_that_hypothesis_draws(dtype):
    found = []

    @CHOSEN
    @given(arrays.drawn(dtype), arrays.drawn(dtype))
    def draw(a, b):
        size = max(a.size, b.size)
        found.extend(arrays.samples(dtype, np.resize(a, size), np.resize(b, size)))

    draw()
    assert len(found) >= EXAMPLES
    check(found, "cpu", "reference")


@task.define(leaf=True)
def stretched_leaf(Y, A, B):
    Y[...] = A - B


@task.define
def stretched(Y, A, B):
    task.launch(stretched_leaf, Y, A, B)


@settings(CHOSEN, max_examples=12)
@given(extra.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4), st.booleans())
def test_operands_stretch_as_in_numpy(shapes, compiled):
    rng = np.random.default_rng(0)
    a, b = (np.asarray(rng.integers(-99, 99, shape), "int16") for shape in shapes.input_shapes)
    y = np.zeros(shapes.result_shape, "int16")
    if compiled:
        found = compile_kernel(stretched, "cpu-x86")(a, b, out=y)
    else:
        found = task.run(stretched, y, a, b)
    np.testing.assert_array_equal(found, a - b)
