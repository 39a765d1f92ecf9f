"""Each rule of the error bounds: what rounding may do is inside, what it may not is outside."""

from __future__ import annotations

import numpy as np
import pytest

from septran.runtime.accuracy import compare
from septran.runtime.rounding import Bounded, binary, cast, exact, gamma, reduce, select, unary

PROMISED = {
    "exp": 8, "exp2": 8, "log": 8, "log2": 8, "sqrt": 2, "rsqrt": 4, "tanh": 16,
    "sigmoid": 16, "erf": 16, "sin": 8, "cos": 8,
}  # fmt: skip
"""Units of roundoff, each 2**-24 of the result in float32, that targets keep to."""


def about(value, error, dtype="float64"):
    """Values that may each be off by `error`."""
    value = np.atleast_1d(np.asarray(value, float))
    return Bounded(value, np.broadcast_to(np.asarray(error, float), value.shape), dtype)


def around(x):
    """201 numbers from the least to the greatest that each of `x` may be."""
    return x.value + x.error * np.linspace(-1, 1, 201)[:, None]


def holds(bound, values, times=2.0):
    """The bound reaches as far as `values` are from the truth, and not `times` as far."""
    with np.errstate(all="ignore"):
        apart = np.nanmax(np.abs(values - bound.value), axis=0)
    assert (bound.error >= apart * (1 - 1e-9)).all()
    assert (bound.error <= apart * times + 1e-12).all()


EXACTLY = {
    "neg": (np.negative, [-2.0, 3.0]), "abs": (np.abs, [-2.0, 3.0]),
    "exp": (np.exp, [-1.0, 0.0, 2.0]), "exp2": (np.exp2, [-1.0, 0.0, 2.0]),
    "log": (np.log, [0.5, 3.0]), "log2": (np.log2, [0.5, 3.0]),
    "sqrt": (np.sqrt, [0.5, 3.0, 0.1]), "rsqrt": (lambda v: 1 / np.sqrt(v), [0.5, 3.0]),
    "tanh": (np.tanh, [-0.5, 0.0, 0.7]), "sigmoid": (lambda v: 1 / (1 + np.exp(-v)), [-1.0, 0.0]),
    "sin": (np.sin, [0.1, -0.2]), "cos": (np.cos, [1.5, -1.5]),
    "floor": (np.floor, [2.9, 2.5]), "ceil": (np.ceil, [2.1, 2.5]), "round": (np.rint, [2.4, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACTLY)
def test_an_operand_s_error_goes_through_a_function(name):
    function, values = EXACTLY[name]
    x = about(values, 0.25)
    with np.errstate(all="ignore"):
        holds(unary(name, x, "float64"), function(around(x)))


@pytest.mark.parametrize(("name", "function"), [("exp", np.exp), ("exp2", np.exp2)])
@pytest.mark.parametrize("error", [0.9, 1.5, 300.0, 900.0])
def test_a_wide_error_goes_through_a_power(name, function, error):
    x = about([-600.0, -3.0, 2.0], error)
    with np.errstate(all="ignore"):
        apart = function(x.value + x.error) - function(x.value)
        found = unary(name, x, "float64").error
    assert (found >= apart).all()
    assert (found <= apart * (1 + 1e-9) + 1e-300).all()


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_a_power_of_what_is_far_below_zero_is_nothing(name):
    """A maximum that begins at -1e30 left all of a softmax unknown."""
    x = about([-1e30, -1e4], [1e23, 900.0], "float32")
    with np.errstate(all="ignore"):
        bound = unary(name, x, "float32")
    assert (bound.value == 0).all()
    assert (bound.error <= 2.0**-126).all()


def test_an_operand_s_error_goes_through_erf():
    import math

    x = about([-0.5, 0.0, 0.7], 0.25)
    holds(unary("erf", x, "float64"), np.vectorize(math.erf)(around(x)))


@pytest.mark.parametrize("name", PROMISED)
def test_a_function_is_as_accurate_as_promised_and_a_worse_one_is_found(name):
    x = exact(np.array([0.5, 0.75], np.float32))
    bound = unary(name, x, "float32")
    scale = 1.0 if name in ("sin", "cos") else np.abs(bound.value)
    unit = PROMISED[name] * 2.0**-24 * scale
    assert compare("Y", bound.value + unit, bound).right
    assert not compare("Y", bound.value + 2.5 * unit, bound).right


@pytest.mark.parametrize(("name", "units"), [("divide", 2), ("power", 32), ("multiply", 1)])
def test_an_operation_is_as_accurate_as_promised_and_a_worse_one_is_found(name, units):
    x, y = (exact(np.array([n], np.float32)) for n in (1.7, 2.3))
    bound = binary(name, x, y, "float32", "float32")
    unit = units * 2.0**-24 * bound.value
    assert compare("Y", bound.value + unit, bound).right
    assert not compare("Y", bound.value + 2.5 * unit, bound).right


@pytest.mark.parametrize("value", [1.0, 0.7])
def test_once_the_promised_error_is_right_and_three_times_is_wrong(value):
    bound = about(value, 1e-3)
    assert compare("Y", bound.value + 1.9e-3, bound).right
    assert not compare("Y", bound.value + 2.1e-3, bound).right


OPERATIONS = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("errors", [(0.5, 0.0), (0.0, 0.5), (0.5, 0.5)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operands_errors_go_through_an_operation(name, errors):
    """Both at the ends of what they may be, where an operation of two is farthest off."""
    place = (11.0, 4.0) if name in ("floor_divide", "remainder") else (1.5, 1.5)
    x, y = (about(v, e) for v, e in zip(place, errors, strict=True))
    with np.errstate(all="ignore"):
        apart = OPERATIONS[name](around(x), np.moveaxis(around(y)[..., None], 0, -1))
    holds(binary(name, x, y, "float64", "float64"), apart.reshape(-1, 1), 3.0)


def test_products_are_off_by_no_more_than_their_corners():
    x, y = about(1.0, 0.5), about(1.0, 0.5)
    assert binary("multiply", x, y, "float64", "float64").error == pytest.approx(1.25)
    assert binary("remainder", about(5.0, 0.25), exact(np.array([3.0])), "float64", "float64")\
        .error == pytest.approx(0.25)  # fmt: skip
    assert binary("remainder", about(7.0, 0.0), about(3.0, 0.25), "float64", "float64")\
        .error == pytest.approx(0.5)  # fmt: skip


@pytest.mark.parametrize(
    "made",
    [
        lambda: unary("log", about(0.2, 0.25), "float64"),
        lambda: unary("rsqrt", about(0.2, 0.25), "float64"),
        lambda: unary("sqrt", about(-0.1, 0.25), "float64"),
        lambda: unary("not", about(0.0, 0.25), "bool"),
        lambda: binary("divide", about(1.0, 0.0), about(1.0, 1.5), "float64", "float64"),
        lambda: binary("multiply", about(np.inf, 0.0), about(0.1, 0.2), "float64", "float64"),
        lambda: binary("multiply", about(0.1, 0.2), about(np.inf, 0.0), "float64", "float64"),
        lambda: binary("multiply", about(0.0, 0.0), about(1.0, np.inf), "float64", "float64"),
        lambda: binary("divide", about(1.0, np.inf), about(np.inf, 0.0), "float64", "float64"),
        lambda: binary("power", about(0.1, 0.2), about(0.5, 0.0), "float64", "float64"),
        lambda: binary("less", about(1.0, 0.3), about(1.2, 0.0), "bool", "float64"),
        lambda: binary("less", about(1.0, 0.0), about(1.2, 0.3), "bool", "float64"),
        lambda: cast(about(127.9, 0.25), "int8"),  # 127, or 128, which wraps
        lambda: cast(about(127, 1, "int32"), "int8"),
        lambda: cast(about(1, 1, "int8"), "bool"),
        lambda: cast(about(0.1, 0.25), "bool"),
        lambda: binary("add", about(1, np.inf, "int32"), exact(np.array([1])), "int32", "int32"),
        lambda: reduce(
            "sum", Bounded(np.array([1, 2]), np.array([np.inf, 0]), "int32"), 0, "int32"
        ),
        lambda: reduce("max", about([1.0, 2.0], [np.inf, 0.0]), 0, "float64"),
        lambda: unary("exp", about(88.72, 0.1, "float32"), "float32"),
        lambda: unary("exp", about(800.0, 750.0, "float64"), "float64"),
        lambda: select(about(1.0, np.inf, "bool"), about(np.nan, 0.0), about(1.0, 0.0), "float64"),
    ],
)
def test_what_rounding_may_decide_is_unknown(made):
    with np.errstate(all="ignore"):
        bound = made()
    assert np.isinf(bound.error).all()


def test_an_integer_is_off_by_what_its_float_may_have_rounded_to():
    found = cast(about([2.9, 2.5, -0.5], [0.25, 0.25, 2.0]), "int32")
    assert found.error.tolist() == [1, 0, 2]
    assert cast(found, "int8").error.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    "made",
    [
        lambda: unary("not", about(1.0, 0.0, "bool"), "bool"),
        lambda: unary("neg", exact(np.array([3])), "int32"),
        lambda: binary("less", about(1.0, 0.1), about(1.2, 0.05), "bool", "float64"),
        lambda: binary("less", about(1.0, 0.0), about(1.0, 0.0), "bool", "float64"),
        lambda: binary("add", exact(np.array([2])), exact(np.array([3])), "int32", "int32"),
        lambda: cast(about(2.5, 0.25), "int32"),
        lambda: cast(about(0.5, 0.25), "bool"),
        lambda: cast(exact(np.array([3])), "int8"),
        lambda: cast(about(0.5, 0.0, "float32"), "float16"),
        lambda: cast(about(0.1, 0.0, "float32"), "float64"),
        lambda: reduce("sum", exact(np.array([1, 2])), 0, "int64"),
        lambda: reduce("max", about([1.0, 2.0], 0.0), 0, "float64"),
        lambda: unary("floor", about(2.5, 0.25), "float64"),
        lambda: unary("floor", about(2.7, 0.0), "float64"),
        lambda: unary("exp", about(np.inf, 0.0), "float64"),
        lambda: binary("add", about(0.0, 0.0), about(0.0, 0.0), "float32", "float32"),
        lambda: binary("subtract", about(1.5, 0.0), about(1.5, 0.0), "float32", "float32"),
        lambda: unary("exp", about(1000.0, 0.0), "float32"),
    ],
)
def test_what_is_certain_has_no_error(made):
    with np.errstate(all="ignore"):
        assert (made().error == 0).all()


def test_a_choice_that_is_not_sure_may_be_either():
    unsure = Bounded(np.array([True]), np.array([np.inf]), "bool")
    bound = select(unsure, about(1.0, 0.25), about(4.0, 0.5), "float64")
    assert bound.value == 1.0
    assert bound.error == 3.5
    sure = select(about(1.0, 0.0, "bool"), about(1.0, 0.25), about(4.0, 0.5), "float64")
    assert sure.error == 0.25
    with np.errstate(all="ignore"):
        same = select(unsure, about(np.inf, 0.0), about(np.inf, 0.0), "float64")
    assert same.error == 0


def test_conversions_keep_errors_and_narrow_ones_round():
    assert cast(about(0.1, 0.25, "float32"), "float64").error == 0.25
    assert cast(about(1.0, 0.25, "float32"), "float16").error == pytest.approx(0.25, rel=1e-3)
    bound = cast(about(0.1, 0.0, "float64"), "float32")
    assert compare("Y", bound.value * (1 + 2.0**-24), bound).right
    assert not compare("Y", bound.value * (1 + 2.0**-22), bound).right
    whole = Bounded(np.array([7]), np.array([np.inf]), "int32")
    assert np.isinf(cast(whole, "int8").error)
    with np.errstate(all="ignore"):
        assert np.isinf(cast(whole, "float32").error)
    assert np.isinf(unary("neg", whole, "int32").error)


def test_sums_are_off_by_their_terms_and_by_one_rounding_each_addition():
    bound = reduce("sum", about([1.0, 2.0, 4.0], [0.25, 0.5, 1.0]), 0, "float64")
    assert bound.error == pytest.approx(1.75)
    bound = reduce("sum", about(np.ones(1001), 0.0, "float32"), 0, "float32")
    assert bound.error == pytest.approx(1001 * 1000 * 2.0**-24, rel=1e-3)
    assert reduce("max", about([1.0, 2.0], [0.75, 0.25]), 0, "float64").error == 0.75
    assert gamma(1, "float32") == pytest.approx(2.0**-24)
    assert np.isinf(gamma(2.0**24, "float32"))


@pytest.mark.parametrize(("pair", "sign"), [("maximum", 1.0), ("minimum", -1.0)])
def test_what_cannot_win_leaves_no_error(pair, sign):
    """A maximum that begins at -1e30 was as little known as -1e30 is in float32."""
    of_many = pair[:3]
    values, errors = sign * np.array([-1e30, 1.0, 2.0, 1.5]), np.array([1e23, 0.5, 0.25, 0.25])
    assert reduce(of_many, about(values, errors), 0, "float64").error == 0.25
    first, rest = about(values[0], errors[0]), about(values[1:], errors[1:])
    for x, y in ((first, rest), (rest, first)):
        np.testing.assert_array_equal(binary(pair, x, y, "float64", "float64").error, errors[1:])
    near = binary(pair, about(2.0, 0.25), about(2.5, 0.375), "float64", "float64")
    assert near.error == 0.375
    with np.errstate(all="ignore"):
        lost = reduce(of_many, about([np.nan, 1.0], [np.inf, 0.0]), 0, "float64")
    assert np.isinf(lost.error)


def test_underflow_may_lose_the_least_normal_number_and_no_more():
    x = exact(np.array([1e-20], np.float32))
    bound = binary("multiply", x, x, "float32", "float32")
    assert compare("Y", np.zeros(1, np.float32), bound).right
    assert not compare("Y", np.array([1e-37], np.float32), bound).right
