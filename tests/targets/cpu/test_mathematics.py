"""Functions of elements keep their stated errors and NumPy's special values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import tirx

from septran.targets.cpu import simd
from septran.targets.cpu.arithmetic.mathematics import VectorArithmetic
from septran.targets.cpu.run.build import compile_module
from septran.targets.cpu.run.isa import native
from septran.targets.cpu.writer import CpuWriter
from septran.targets.lower.values import cast
from septran.targets.lower.writer import flat_buffer

ERRORS = {
    "exp": 1, "exp2": 1, "tanh": 2, "sigmoid": 3, "erf": 1,
    "log": 1, "log2": 2, "sin": 2, "cos": 2,
}  # fmt: skip
"""In units in the last place, as `exponential` and `elementary` state them."""
EXACT = {
    "exp": np.exp,
    "exp2": np.exp2,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x >= 0, 1.0, np.exp(np.minimum(x, 0))) / (1 + np.exp(-abs(x))),
    "erf": np.vectorize(math.erf, otypes=[float]),
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
}
SPECIAL = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1e-40, -1e-40, 1.0], "f4")


def compiled(function: str, dtype: str, operands: int, count: int, lanes: int = 8):
    """`function` of one or two arrays of `count` elements."""
    writer = CpuWriter()
    buffers = [flat_buffer(f"x{n}", count, dtype, 1) for n in range(operands + 1)]
    with writer.loop("i", count // lanes) as i:
        values = [writer.bind("v", simd.load(b, i * lanes, lanes)) for b in buffers[:-1]]
        arithmetic = VectorArithmetic(writer)
        made = arithmetic.apply(function, *values, dtype) if operands == 1 else None
        made = arithmetic.combine(function, *values) if made is None else made
        simd.store(writer, buffers[-1], i * lanes, cast(made, dtype), lanes)
    module = tvm.IRModule({"f": writer.function("f", buffers)})
    return compile_module(module, native().arch)["f"]


def greatest_error(y, function, *operands):
    """In units in the last place; what is not finite must be as it is in NumPy."""
    with np.errstate(all="ignore"):
        exact = function(*(x.astype("f8") for x in operands))
        nearest = exact.astype("f4")
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(y[~finite], nearest[~finite])
    return (abs(y[finite] - exact[finite]) / np.spacing(abs(nearest[finite]))).max()


@pytest.mark.parametrize("function", ERRORS)
def test_error_is_within_what_is_stated(function):
    run = compiled(function, "float32", 1, 1 << 14)
    rng = np.random.default_rng(0)
    for reach in (1e-3, 1.0, 3.0, 20.0, 110.0, 160.0):
        x = rng.uniform(-reach, reach, 1 << 14).astype("f4")
        y = np.empty_like(x)
        run(x, y)
        assert greatest_error(y, EXACT[function], x) <= ERRORS[function]


@pytest.mark.parametrize("function", ERRORS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.one_in(2, first=1)
def test_special_values_are_as_in_numpy(function, dtype):
    x = SPECIAL.astype(dtype)
    y = np.empty_like(x)
    compiled(function, dtype, 1, 8, lanes=4)(x, y)
    with np.errstate(all="ignore"):
        expected = EXACT[function](x.astype("f8")).astype(dtype)
    np.testing.assert_allclose(y, expected, rtol=3e-7)


@pytest.mark.parametrize("function", ["exp", "exp2"])
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_one_lane_out_of_range_is_found_in_any_register(function, lanes):
    odd = np.array([np.nan, np.inf, -np.inf, 88.5, -100.0, 126.5, -140.0, 1e30], "f4")
    run = compiled(function, "float32", 1, lanes, lanes)
    for place in range(lanes):
        for value in odd:
            x = np.linspace(-3, 3, lanes).astype("f4")
            x[place] = value
            y = np.empty_like(x)
            run(x, y)
            with np.errstate(over="ignore", under="ignore"):
                np.testing.assert_allclose(y, EXACT[function](x.astype("f8")).astype("f4"), 3e-7)


def every_float(low, high, step):
    """Arrays of 2^16 of the positive floats from `low` to below `high`, each `step`-th of them."""
    first, last = np.array([low, high], "f4").view("i4")
    for start in range(first, last, step << 16):
        pattern = np.arange(start, start + (step << 16), step, dtype="i8")
        yield np.minimum(pattern, last - 1).astype("i4").view("f4")


# Each 4999th float; then all mantissas, where what is left of the exponent is least.
RANGES = {
    "log": [(0, 3.4e38, 4999), (0.5, 2, 1)],
    "log2": [(0, 3.4e38, 4999), (0.5, 2, 1)],
    "sin": [(0, 2e5, 4999), (1, 4, 1)],
    "cos": [(0, 2e5, 4999), (1, 4, 1)],
}


@pytest.mark.parametrize("function", RANGES)
@pytest.mark.one_in(2, first=1)
def test_error_is_within_what_is_stated_of_all_mantissas(function):
    run, y = compiled(function, "float32", 1, 1 << 16), np.empty(1 << 16, "f4")
    for one in RANGES[function]:
        for x in every_float(*one):
            run(x, y)
            assert greatest_error(y, EXACT[function], x) <= ERRORS[function]


@pytest.mark.parametrize("base", ["any", "near one", "negative"])
def test_powers_err_by_at_most_a_unit(base):
    rng, count = np.random.default_rng(1), 1 << 15
    x = np.exp2(rng.uniform(-149, 128, count)).astype("f4")
    if base == "near one":
        x = (1 + rng.uniform(-1, 1, count) * 10 ** rng.uniform(-7, 0, count)).astype("f4")
    magnitudes = abs(np.log2(x.astype("f8"))) + 1e-9
    y = np.clip(rng.uniform(-151, 130, count) / magnitudes, -4e6, 4e6).astype("f4")
    if base == "negative":
        x, y = -x, np.rint(y)
    z = np.empty_like(x)
    compiled("power", "float32", 2, count)(x, y, z)
    # float64's own power errs by 2^-53, its result times float32's 2^29 units being nothing.
    assert greatest_error(z, np.power, x, y) <= 1


def test_powers_of_special_values_are_c_s():
    few = [0, -0.0, 1, -1, 2, -2, 1.5, 3, -3, np.inf, -np.inf, np.nan, 1e-40, 1e38, 4194305, 2**24]
    x, y = (np.repeat(few, len(few)).astype("f4"), np.tile(few, len(few)).astype("f4"))
    z = np.empty_like(x)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype("f8"), y.astype("f8")).astype("f4")
    run = compiled("power", "float32", 2, 8)
    for n in range(len(x)):  # each alone in its vector, so that no other decides how it is done
        both = [np.full(8, value[n]) for value in (x, y)]
        run(*both, out := np.empty(8, "f4"))
        z[n] = out[0]
    np.testing.assert_allclose(z, exact, rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(z[z == 0]), np.signbit(exact[z == 0]))


def test_angles_beyond_what_is_reduced_go_to_the_c_library():
    x = np.array([131072, 131073, 1e6, -1e10, 3e38, np.inf, np.nan, 1.0], "f4")
    y = np.empty_like(x)
    for function in ("sin", "cos"):
        compiled(function, "float32", 1, 8)(x, y)
        assert greatest_error(y, EXACT[function], x) <= ERRORS[function]


SIMPLE = ["abs", "sqrt", "floor", "ceil", "round", "log", "log2", "sin", "cos", "neg"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", SIMPLE)
@pytest.mark.one_in(3)
def test_other_functions_are_numpy_s(function, dtype):
    x = np.array([0.5, 1.5, 2.5, 3.0, 1e-3, 7.25, 100.0, 0.0], dtype)
    y = np.empty_like(x)
    compiled(function, dtype, 1, 8)(x, y)
    with np.errstate(divide="ignore"):
        numpy_function = np.negative if function == "neg" else getattr(np, function)
        np.testing.assert_allclose(y, numpy_function(x), rtol=4e-7 if dtype == "float32" else 1e-15)


BINARY = ["floor_divide", "remainder", "maximum", "minimum", "left_shift", "right_shift", "power"]
NUMPY = {"maximum": np.maximum, "minimum": np.minimum}


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_integer_functions_are_numpy_s_and_never_fault(function, dtype):
    if dtype == "uint8":
        x, y = np.array([[0, 1, 7, 200, 255, 13, 8, 3], [3, 0, 2, 7, 255, 1, 9, 1]], dtype)
    else:
        least = np.iinfo(dtype).min
        x = np.array([least, 7, -7, 7, -7, 0, 13, least], dtype)
        y = np.array([-1, 2, 2, -2, -2, 0, 0, 1], dtype)
    if function in ("left_shift", "right_shift", "power"):
        y = abs(y) % 5
        x = x if function != "power" else x % 9
    z = np.empty_like(x)
    compiled(function, dtype, 2, 8)(x, y, z)
    with np.errstate(all="ignore"):
        expected = NUMPY.get(function, getattr(np, function))(x, y)
    np.testing.assert_array_equal(z, expected)


@pytest.mark.parametrize("function", ["floor_divide", "remainder"])
def test_float_division_is_numpy_s(function):
    x = np.array([7.5, -7.5, 7.5, -7.5, 0.3, 1e6, 0.0, 5.0], "f4")
    y = np.array([2.0, 2.0, -2.0, -2.0, 0.1, 3.0, 1.0, 5.0], "f4")
    z = np.empty_like(x)
    compiled(function, "float32", 2, 8)(x, y, z)
    np.testing.assert_array_equal(z, getattr(np, function)(x, y))


def test_maximum_propagates_nan_from_either_side():
    x = np.array([np.nan, 1, 2, np.inf] * 2, "f4")
    y = np.array([1, np.nan, 3, 0] * 2, "f4")
    z = np.empty_like(x)
    compiled("maximum", "float32", 2, 8)(x, y, z)
    np.testing.assert_array_equal(z, np.maximum(x, y))


def test_nothing_is_simplified_as_if_floats_were_real_numbers():
    writer = CpuWriter()
    buffer = flat_buffer("x", 8, "float32", 1)
    x = simd.load(buffer, writer.index(0), 8)
    large = simd.constant(12582912.0, "float32", 8)
    simd.store(writer, buffer, writer.index(0), tirx.Sub(tirx.Add(x, large), large), 8)
    run = compile_module(tvm.IRModule({"f": writer.function("f", [buffer])}), native().arch)["f"]
    values = np.array([0.4, 0.5, 0.6, 1.5, 2.5, -0.5, -0.6, 3.3], "f4")
    expected = np.rint(values)
    run(values)
    np.testing.assert_array_equal(values, expected)
