"""Every operator's logic, run in order on NumPy in float64, against torch in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from septran import operators, task

TILINGS = ({}, {"block_M": 16, "block_N": 24, "block_K": 8, "block_rows": 7})
ROUNDOFF = 2.0**-53


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def run(name, *arrays, tiling, variants=None, **static):
    chooser = task.DefaultChooser(tiling, variants or {})
    return task.run(operators.load(name), *arrays, dtype="float64", chooser=chooser, **static)


def close(found, wanted, terms, size):
    """Within the error of summing `terms` products whose absolute sum is `size`, twice over."""
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    bound = 4 * (terms + 8) * ROUNDOFF * (np.asarray(size) + np.abs(wanted))
    assert np.all(np.isnan(wanted) | (np.abs(found - wanted) <= bound))


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("variant", ["gemm_core", "gemm_by_panels"])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, False), (True, False), (False, True)])
def test_gemm(tiling, variant, trans_a, trans_b):
    a, b = normal(50, 45), normal(45, 37, seed=1)
    given = (a.T if trans_a else a, b.T if trans_b else b)
    variants = {"gemm_core": variant}
    c = run("gemm", *given, tiling=tiling, variants=variants, trans_a=trans_a, trans_b=trans_b)
    close(c, a @ b, 45, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize("shape", list(itertools.product((0, 1, 33), repeat=3)), ids=str)
def test_gemm_of_every_small_shape(shape):
    m, n, k = shape
    a, b = normal(m, k), normal(k, n, seed=1)
    close(run("gemm", a, b, tiling=TILINGS[1]), a @ b, k, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_batched_gemm(tiling):
    a, b = normal(3, 50, 40), normal(3, 40, 30, seed=1)
    close(run("batched_gemm", a, b, tiling=tiling), a @ b, 40, np.abs(a) @ np.abs(b))


@pytest.mark.parametrize("act", ["none", "relu", "gelu", "silu"])
def test_gemm_with_epilogue(act):
    a, b, bias = normal(50, 40), normal(40, 30, seed=1), normal(30, seed=2)
    functions = {
        "none": lambda x: x, "relu": torch.relu,
        "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
    }  # fmt: skip
    wanted = functions[act](torch.from_numpy(a @ b + bias))
    size = np.abs(a) @ np.abs(b) + np.abs(bias)
    for tiling in TILINGS:
        close(run("gemm_bias_act", a, b, bias, tiling=tiling, act=act), wanted, 40, 2 * size)


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
def test_softmax(tiling):
    x = normal(70, 45)
    wanted = torch.softmax(torch.from_numpy(x), 1)
    close(run("softmax", x, tiling=tiling), wanted, 45, 1)


def test_softmax_of_a_row_with_nan_is_nan_in_that_row_only():
    x = normal(4, 9)
    x[2, 3] = np.nan
    y = run("softmax", x, tiling={})
    assert np.isnan(y[2]).all()
    assert np.isfinite(np.delete(y, 2, axis=0)).all()


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("m", "n"), [(50, 50), (20, 70), (70, 20), (1, 33), (33, 1)])
def test_attention(m, n, causal, tiling):
    q, k, v = (normal(2, 2, e, 16, seed=s) for s, e in enumerate((m, n, n)))
    scores = torch.from_numpy(q @ k.transpose(0, 1, 3, 2)) / 4
    if causal:
        seen = torch.ones(m, n, dtype=torch.bool).tril(n - m)
        scores = scores.masked_fill(~seen, -torch.inf)
    weights = torch.softmax(scores, -1).numpy()
    found = run("attention", q, k, v, tiling=tiling, causal=causal)
    # errors of the scores enter through exp, so their size multiplies the weights' sum
    size = 16 * (1 + np.nanmax(np.abs(scores.masked_fill(scores == -torch.inf, 0).numpy())))
    close(found, weights @ v, n + 16, size * (np.abs(weights) @ np.abs(v)))


@pytest.mark.parametrize("tiling", TILINGS, ids=("default", "small"))
@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), list(itertools.product((1, 2), (0, 1), (1, 2)))
)
def test_conv2d(stride, padding, dilation, tiling):
    x, f = normal(2, 3, 11, 9), normal(5, 3, 3, 2, seed=1)
    flags = {"stride": stride, "padding": padding, "dilation": dilation}

    def reference(a, b):
        return torch.nn.functional.conv2d(torch.from_numpy(a), torch.from_numpy(b), **flags).numpy()

    found = run("conv2d", x, f, tiling=tiling, **flags)
    close(found, reference(x, f), 18, reference(np.abs(x), np.abs(f)))


def test_integers_are_summed_exactly():
    a = np.random.default_rng(0).integers(-128, 128, (33, 40), dtype="int8")
    c = task.run(operators.load("gemm"), a, a.T.copy())
    assert c.dtype == np.int32
    assert np.array_equal(c, a.astype("int32") @ a.T.astype("int32"))


def test_16_bit_floats_are_summed_in_float32():
    a, b = (normal(20, 64, seed=s).astype("float16") for s in (0, 1))
    c = task.run(operators.load("gemm"), a, b.T.copy())
    assert c.dtype == np.float16
    exact = a.astype("float64") @ b.T.astype("float64")
    size = np.abs(a.astype("float64")) @ np.abs(b.T.astype("float64"))
    assert np.all(np.abs(c - exact) <= 2.0**-11 * np.abs(exact) + 64 * 2.0**-23 * size)


def test_all_operators_are_listed_and_documented():
    assert {"gemm", "batched_gemm", "gemm_bias_act", "softmax", "attention", "conv2d"} <= set(
        operators.names()
    )
    for name in operators.names():
        module = operators.module(name)
        assert "Source:" in (module.__doc__ or ""), name
        assert isinstance(module.EXAMPLE, dict), name
