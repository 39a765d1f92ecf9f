"""Where ours differs from NumPy, torch or ONNX: each decision of docs/semantics.md, pinned."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import septran
from septran import operators
from septran.task.errors import DtypeError
from tests.oracles import language
from tests.oracles.judging import Sample, judge

EXECUTORS = ("cpu-x86", "dsa-sim", "reference")
FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)


def run(logic, executor, *arrays, dtypes=None, **static):
    machine = "cpu-x86" if executor == "reference" else executor
    made = septran.compile(logic, machine, static=static, dtypes=dtypes)
    return made.reference(*arrays, dtype=None) if executor == "reference" else made(*arrays)


def same(found, wanted):
    np.testing.assert_array_equal(np.asarray(found, "float64"), np.asarray(wanted, "float64"))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_arithmetic_of_truth_values_is_logic(executor):
    a, b = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    for name in ("add", "maximum"):
        same(run(language.binary, executor, a, b, function=name), a | b)
    for name in ("multiply", "minimum"):
        same(run(language.binary, executor, a, b, function=name), a & b)


@pytest.mark.parametrize("name", ["subtract", "floor_divide", "remainder", "power", "left_shift"])
def test_other_arithmetic_of_truth_values_is_refused(name):
    with pytest.raises(DtypeError, match=f"{name} takes numbers, not bool"):
        run(language.binary, "reference", np.ones(3, bool), np.ones(3, bool), function=name)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.one_in(2)
def test_negative_powers_of_integers_are_torchs(executor, dtype):
    values = [-9, -3, -2, -1, 0, 1, 2, 3, 9]
    x, y = (a.reshape(-1).astype(dtype) for a in np.meshgrid(values, values))
    wanted = torch.from_numpy(x) ** torch.from_numpy(y)
    same(run(language.binary, executor, x, y, function="power"), wanted)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["floor", "ceil", "round"])
def test_large_integers_are_whole_already(executor, name):
    x = np.array([2**63 - 1, -(2**63), 2**53 + 1, 2**62 + 3, -7], "int64")
    same(run(language.unary, executor, x, function=name) == x, np.ones(5))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_integers_are_divided_rounding_down(executor):
    a, b = np.array([-7, 7, -7, 7], "int32"), np.array([2, -2, -2, 2], "int32")
    same(run(language.binary, executor, a, b, function="floor_divide"), [-4, -4, 3, 3])
    same(run(language.binary, executor, a, b, function="remainder"), [1, -1, -1, 1])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_floats_beyond_int64_wrap(executor):
    x = np.array([-501.0, 300.7, 2.0**63, -(2.0**64), np.inf, np.nan], "float32")
    wanted = [-501, 300, -(2**63), 0, 0, 0]
    found = run(language.convert, executor, x, dtypes={"Y": "int64"}, dtype="int64")
    assert found.tolist() == wanted
    narrow = run(language.convert, executor, x, dtypes={"Y": "int8"}, dtype="int8")
    assert narrow.tolist() == [11, 44, 0, 0, 0, 0]


def test_a_float8_that_is_too_large_is_nan_and_the_check_knows():
    x = np.array([448.0, 464.0, 480.0, -600.0, np.inf, 1.0], "float32")
    kernel = septran.compile(
        language.convert,
        "cpu-x86",
        static={"dtype": "float8_e4m3fn"},
        dtypes={"Y": "float8_e4m3fn"},
    )
    same(kernel(x), [448, 448, np.nan, np.nan, np.nan, 1])
    assert kernel.check(x).right
    twice = np.array([300.0, 2.0], FLOAT8)
    summed = septran.compile(language.binary, "cpu-x86", static={"function": "add"})
    same(summed(twice, twice), [np.nan, 4])
    assert summed.check(twice, twice).right


def test_a_kernel_can_be_called_again_whose_output_alone_is_bfloat16():
    kernel = septran.compile(
        language.convert, "cpu-x86", static={"dtype": "bfloat16"}, dtypes={"Y": "bfloat16"}
    )
    x = np.array([1.5, -2.0], "float32")
    for _ in range(3):
        same(kernel(x), x)


def test_results_have_the_type_of_the_output():
    """Not that of the expression: integers through exp are cut off where Y is not given."""
    x = np.array([1, 2], "int32")
    assert run(language.unary, "cpu-x86", x, function="exp").tolist() == [2, 7]
    wide = run(language.unary, "cpu-x86", x, function="exp", dtypes={"Y": "float64"})
    np.testing.assert_allclose(wide, np.exp([1, 2]), rtol=1e-6)  # computed in float32


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_greatest_are_torchs_also_where_they_are_infinite_or_nan(executor):
    x = np.array([[-np.inf, 5, -np.inf, 2], [np.nan, 1, 7, np.nan], [-np.inf] * 4], "float32")
    values, indices = run(operators.load("topk"), executor, x, k=4)
    wanted = torch.sort(torch.from_numpy(x), dim=1, descending=True, stable=True)
    same(values, wanted.values)
    same(indices, wanted.indices)


@pytest.mark.parametrize("executor", ["cpu", "dsa-sim", "reference"])
def test_the_last_query_of_causal_attention_sees_every_key(executor):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, n, 8)).astype("float32") for n in (2, 5, 5))
    seen = torch.ones(2, 5, dtype=torch.bool).tril(5 - 2)
    attend = torch.nn.functional.scaled_dot_product_attention
    wanted = attend(*(torch.from_numpy(x).double() for x in (q, k, v)), seen).numpy()
    flags = (("causal", True),)
    sample = Sample("last", operators.load("attention"), (q, k, v), (wanted,), ("float32",), flags)
    assert not judge([sample], [executor]).differences


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.one_in(2)
def test_a_query_that_sees_no_key_gives_zero_and_one_with_nan_gives_nan(executor):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, 3, 8)).astype("float32") for _ in range(3))
    bias = np.zeros((1, 1, 3, 3), "float32")
    bias[0, 0, 1] = -np.inf
    q[0, 0, 2, 3] = np.nan
    found = run(operators.load("attention_bias"), executor, q, k, v, bias)[0, 0]
    assert np.isfinite(found[0]).all()
    assert not found[1].any()
    assert np.isnan(found[2]).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_squares_that_overflow_make_a_row_zero(executor):
    x, w, bias = np.full((1, 4), 1e30, "float32"), np.ones(4, "float32"), np.full(4, 7, "float32")
    x[0, 0] = 3
    same(run(operators.load("rms_norm"), executor, x, w), torch.zeros(1, 4))
    same(run(operators.load("layer_norm"), executor, x, w, bias), bias[None])


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.one_in(2)
def test_an_infinite_activation_leaves_its_row_alone_not_finite(executor):
    rng = np.random.default_rng(0)
    a, scale = rng.standard_normal((2, 128)).astype("float32"), np.ones((2, 40), "float32")
    a[0, 0] = np.inf
    w = rng.integers(9, 15, (64, 40)).astype("uint8")
    found = run(operators.load("dequant_gemm"), executor, a, w | w << 4, scale, 8 * scale)
    assert not np.isfinite(found[0]).any()
    assert np.isfinite(found[1]).all()


def test_the_default_eps_is_a_number():
    eps = {n: k.default for n in ("rms_norm", "layer_norm") for k in operators.load(n).keywords}
    assert eps == {"rms_norm": 1e-6, "layer_norm": 1e-5}


def test_decisions_name_tests_that_there_are():
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "semantics.md").read_text(encoding="utf-8")
    named = {word.strip("`") for word in text.split() if word.startswith("`test_")}
    assert named
    assert named <= set(globals()), named - set(globals())
