"""Compiled kernels on awkward arrays and values: the right result or a named error."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import septran
from septran.runtime.errors import OverlapError, ReadOnlyOutputError

SHAPES = {
    "gemm": ((9, 20), (20, 17)),
    "batched_gemm": ((2, 9, 20), (2, 20, 17)),
    "gemm_bias_act": ((9, 20), (20, 17), (17,)),
    "softmax": ((9, 20),),
    "attention": ((1, 2, 9, 16), (1, 2, 19, 16), (1, 2, 19, 16)),
    "conv2d": ((1, 3, 6, 9), (5, 3, 3, 3)),
}


@pytest.fixture(scope="module")
def kernels():
    return {name: septran.compile(name, "cpu-x86") for name in SHAPES}


def arrays(name, dtype="float32"):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in SHAPES[name]]


def off_by(count):
    def moved(x):
        raw = np.zeros(x.nbytes + count, np.uint8)
        view = raw[count:].view(x.dtype).reshape(x.shape)
        view[...] = x
        return view

    return moved


def locked(x):
    y = x.copy()
    y.flags.writeable = False
    return y


def apart(x):
    """Every second element of every axis of a larger array of NaN."""
    wide = np.full([2 * n for n in x.shape], np.nan, x.dtype)
    view = wide[(slice(None, None, 2),) * x.ndim]
    view[...] = x
    return view


VIEWS = {
    "transposed": lambda x: x.T.copy().T,
    "apart": apart,
    "backwards": lambda x: np.flip(np.flip(x).copy()),
    "last axis backwards": lambda x: x[..., ::-1].copy()[..., ::-1],
    "one byte off": off_by(1),
    "one element off": off_by(4),
    "read-only": locked,
    "big endian": lambda x: x.astype(">f4"),
    "inner": lambda x: np.pad(x, 1, constant_values=np.nan)[(slice(1, -1),) * x.ndim],
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.one_in(3)
def test_a_view_is_as_good_as_a_copy(kernels, name):
    kernel, plain = kernels[name], arrays(name)
    wanted = kernel(*plain)
    for kind, view in VIEWS.items():
        for number, x in enumerate(plain):
            given = [*plain[:number], view(x), *plain[number + 1 :]]
            np.testing.assert_array_equal(kernel(*given), wanted, err_msg=f"{kind} {number}")
        np.testing.assert_array_equal(kernel(*map(view, plain)), wanted, err_msg=kind)
    for kind in ("transposed", "apart", "backwards", "one byte off", "inner"):
        out = VIEWS[kind](np.zeros_like(wanted))
        around = out.base.copy()
        assert kernel(*plain, out=out) is out
        np.testing.assert_array_equal(out, wanted, err_msg=kind)
        out[...] = 0  # nothing but the view was written to
        assert out.base.tobytes() == around.tobytes(), kind


@pytest.mark.parametrize("name", SHAPES)
def test_torch_views_are_as_good_as_copies(kernels, name):
    kernel, plain = kernels[name], [torch.from_numpy(x) for x in arrays(name)]
    wanted = kernel(*plain)
    for view in (
        lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
        lambda x: x.repeat_interleave(2, -1)[..., ::2],
        lambda x: torch._neg_view(-x),
        lambda x: torch.cat([torch.zeros(1), x.flatten()])[1:].view(x.shape),
    ):
        assert torch.equal(kernel(*map(view, plain)), wanted)
        out = view(torch.zeros_like(wanted))
        if not out.is_neg():
            assert torch.equal(kernel(*plain, out=out), wanted)


@pytest.mark.parametrize("name", SHAPES)
def test_stretched_inputs_are_read_as_they_look(kernels, name):
    one = [np.broadcast_to(np.float32(n + 0.5), s) for n, s in enumerate(SHAPES[name])]
    wanted = kernels[name](*[x.copy() for x in one])
    np.testing.assert_array_equal(kernels[name](*one), wanted)


@pytest.mark.parametrize("name", SHAPES)
def test_outputs_over_inputs_and_read_only_ones_are_refused(kernels, name):
    kernel, plain = kernels[name], arrays(name)
    result = kernel(*plain)
    for number, x in enumerate(plain):
        memory = np.zeros(x.size + result.size, np.float32)
        given = memory[: x.size].reshape(x.shape)
        given[...] = x
        inputs = [*plain[:number], given, *plain[number + 1 :]]
        out = memory[x.size - 1 : -1].reshape(result.shape)
        with pytest.raises(OverlapError, match="shares memory"):
            kernel(*inputs, out=out)
        assert (given == x).all(), "nothing was written"
        out = memory[x.size :].reshape(result.shape)  # the very next byte
        np.testing.assert_array_equal(kernel(*inputs, out=out), result)
    with pytest.raises(ReadOnlyOutputError):
        kernel(*plain, out=locked(result))


ZEROS = {
    "gemm": "MNK", "batched_gemm": "SMNK", "gemm_bias_act": "MNK", "softmax": "MN",
    "attention": "BHM", "conv2d": "BCO",
}  # fmt: skip


def sized(name, **sizes):
    s = {"S": 2, "M": 5, "N": 6, "K": 7, "B": 1, "H": 2, "D": 8, "C": 3, "O": 4} | sizes
    m, n, k = s["M"], s["N"], s["K"]
    return {
        "gemm": ((m, k), (k, n)),
        "batched_gemm": ((s["S"], m, k), (s["S"], k, n)),
        "gemm_bias_act": ((m, k), (k, n), (n,)),
        "softmax": ((m, n),),
        "attention": tuple((s["B"], s["H"], x, s["D"]) for x in (m, n, n)),
        "conv2d": ((s["B"], s["C"], 6, 7), (s["O"], s["C"], 3, 3)),
    }[name]


def by_torch(name, inputs):
    x = [torch.from_numpy(i) for i in inputs]
    functions = {
        "gemm": torch.matmul,
        "batched_gemm": torch.matmul,
        "gemm_bias_act": lambda a, b, bias: torch.relu(a @ b + bias),
        "softmax": lambda x: torch.softmax(x, 1),
        "attention": lambda q, k, v: (
            torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
        ),
        "conv2d": torch.nn.functional.conv2d,
    }
    return functions[name](*x).numpy()


@pytest.mark.parametrize(("name", "axis"), [(n, a) for n, axes in ZEROS.items() for a in axes])
@pytest.mark.one_in(3, first=1)
def test_axes_of_no_length(kernels, name, axis):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype("f4") for s in sized(name, **{axis: 0})]
    found = kernels[name](*inputs)
    if name == "conv2d" and axis in "CO":  # torch refuses both; a sum of no terms is 0
        assert found.shape == (1, 0 if axis == "O" else 4, 4, 5)
        assert not found.any()
        return
    wanted = by_torch(name, inputs)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


SPECIAL = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "large": 3e38, "tiny": 1e-42, "-0": -0.0}


@pytest.mark.parametrize("value", SPECIAL.values(), ids=SPECIAL)
@pytest.mark.parametrize("name", SHAPES)
def test_special_values_are_where_torch_has_them(kernels, name, value):
    for number in range(len(SHAPES[name])):
        inputs = arrays(name)
        inputs[number].reshape(-1)[[3, 8]] = value
        found, wanted = kernels[name](*inputs), by_torch(name, inputs)
        for same in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(same(found), same(wanted), err_msg=f"input {number}")
        plain = np.isfinite(wanted)
        np.testing.assert_allclose(found[plain], wanted[plain], rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("act", ["none", "relu", "gelu", "silu"])
@pytest.mark.one_in(2)
def test_activations_treat_special_values_as_torch(act):
    values = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42, 0.0, -0.0, 88.8, -88.8, -103.9, 5.0]
    x = np.array(values, "f4")
    kernel = septran.compile("gemm_bias_act", "cpu-x86", static={"act": act})
    found = kernel(np.zeros((3, 2), "f4"), np.zeros((2, len(x)), "f4"), x)
    functions = {
        "none": lambda v: v, "relu": torch.relu, "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
    }  # fmt: skip
    # In float64: torch 2.13's float32 gelu of four infinities or more is NaN, and of one is not.
    wanted = functions[act](torch.from_numpy(x).double()).float().numpy()
    for row in found:
        np.testing.assert_array_equal(np.isnan(row), np.isnan(wanted))
        np.testing.assert_allclose(row, wanted, rtol=1e-5, atol=1e-36)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64], ids=str)
@pytest.mark.one_in(2)
def test_special_values_of_other_types(kernels, dtype):
    x = np.linspace(-3, 3, 40).reshape(4, 10).astype(dtype)
    x[0, 1], x[1, 2], x[2, 3] = np.nan, np.inf, -np.inf
    found = kernels["softmax"](x).astype("f8")
    assert np.isnan(found[:2]).all(axis=1)[0]
    assert np.isnan(found[1, 2])
    assert found[2, 3] == 0
    assert np.isfinite(found[2:]).all()
