"""Gradients on NumPy in float64, against torch's; and in bfloat16 on three kinds of machines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import septran
from septran import operators, task
from septran.request import extents
from septran.runtime.torch_baseline import torch_function
from tests.tiers import in_turn

ROUNDOFF = 2.0**-53
TILING = {"block_M": 16, "block_N": 24, "block_K": 8, "block_height": 5, "block_width": 7}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def ours(name, *arrays, **static):
    chooser = task.DefaultChooser({**TILING, "block_E": 8, "block_S": 3}, {})
    found = task.run(operators.load(name), *arrays, dtype="float64", chooser=chooser, **static)
    return found if isinstance(found, tuple) else (found,)


def theirs(function, inputs, slope):
    """The gradients by all inputs."""
    given = [torch.from_numpy(x).requires_grad_() for x in inputs]
    found = torch.autograd.grad(function(*given), given, torch.from_numpy(slope))
    return tuple(x.numpy() for x in found)


def close(found, wanted, size, terms):
    """Within the error of sums of `terms` products whose absolute sums are `size`, twice over."""
    for x, y, s in zip(found, wanted, size, strict=True):
        assert x.shape == y.shape
        assert np.array_equal(np.isnan(x), np.isnan(y))
        bound = 4 * (terms + 8) * ROUNDOFF * (s + np.abs(y))
        assert np.all(np.isnan(y) | (np.abs(x - y) <= bound))


GEOMETRIES = [
    {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    for stride, padding, dilation, groups in itertools.product((1, 2, 3), (0, 1, 4), (1, 2), (1, 2))
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("flags", "taps"), in_turn(GEOMETRIES, [(3, 3), (1, 2)], alone=True), ids=str
)
def test_conv2d_backward(flags, taps):
    def forward(x, f):
        return torch.nn.functional.conv2d(x, f, None, **flags)

    x, f = normal(2, 4, 8, 9), normal(6, 4 // flags["groups"], *taps, seed=1)
    dy = normal(*forward(torch.from_numpy(x), torch.from_numpy(f)).shape, seed=2)
    found = ours("conv2d_backward", x, f, dy, **flags)
    # The convolution is linear in each, so that absolute values give the absolute sums.
    size = theirs(forward, (np.abs(x), np.abs(f)), np.abs(dy))
    close(found, theirs(forward, (x, f), dy), size, 2 * 8 * 9)


def test_linear_attention_backward():
    def forward(q, k, v):
        return torch.tril(q @ k.mT) @ v

    q, k, v, do = (normal(2, 2, 45, d, seed=d) for d in (6, 6, 10, 10))
    found = ours("linear_attention_backward", q, k, v, do)
    size = theirs(forward, (np.abs(q), np.abs(k), np.abs(v)), np.abs(do))
    close(found, theirs(forward, (q, k, v), do), size, 45 + 10)


def test_swiglu_backward():
    def forward(x, w, v):
        return torch.nn.functional.silu(x @ w) * (x @ v)

    x, w, v, dy = normal(19, 30), normal(30, 21, seed=1), normal(30, 21, seed=2), normal(19, 21)
    y, gate, up = ours("swiglu_gates", x, w, v)
    wanted = forward(*map(torch.from_numpy, (x, w, v))).numpy()
    reach = (np.abs(x) @ np.abs(w)) * (np.abs(x) @ np.abs(v))
    close((y, gate, up), (wanted, x @ w, x @ v), (reach, *[np.abs(x) @ np.abs(w) + 9] * 2), 60)
    found = ours("swiglu_backward", x, w, v, gate, up, dy)
    # No slope of silu is above 1.1, and both gates are sums over K themselves.
    most = 1.1 * np.abs(dy) * (1 + np.abs(x) @ np.abs(v)) * (1 + np.abs(x) @ np.abs(w))
    both = np.abs(w).T + np.abs(v).T
    size = (most @ both, np.abs(x).T @ most, np.abs(x).T @ most)
    close(found, theirs(forward, (x, w, v), dy), size, 60)


@pytest.mark.parametrize("width", [7, 200])
def test_cross_entropy_backward(width):
    x, target = normal(20, 145), np.random.default_rng(1).integers(0, 145, 20)
    target[3], target[4], target[5], x[6] = -100, 145, -1, 800 + x[6]
    slope, there = normal(20), (target >= 0) & (target < 145)
    chooser = task.DefaultChooser({"block_M": 6, "block_N": width}, {})
    logic = operators.load("cross_entropy_backward")
    found = task.run(logic, x, target, slope, dtype="float64", chooser=chooser)
    labels = torch.from_numpy(np.where(there, target, -100))

    def forward(x):
        return torch.nn.functional.cross_entropy(x, labels, reduction="none")

    wanted = theirs(forward, (x,), slope)
    close((found,), wanted, (np.abs(slope)[:, None] * (1 + np.abs(x)),), 145)
    assert not found[~there].any()


def test_logsumexp_backward():
    x, dy = normal(20, 45), normal(20, seed=1)
    x[3], x[4, 7], x[5, 2], x[6] = -np.inf, -np.inf, np.inf, 800 + x[6]
    y = torch.logsumexp(torch.from_numpy(x), 1).numpy()
    wanted = theirs(lambda x: torch.logsumexp(x, 1), (x,), dy)
    finite = np.where(np.isfinite(x), np.abs(x), 0)
    found = ours("logsumexp_backward", x, y, dy)
    close(found, wanted, (np.abs(dy)[:, None] * (1 + finite),), 45)
    assert np.isnan(found[0][3]).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumsum_backward(reverse, exclusive):
    def forward(x):
        found = torch.cumsum(x.flip(1) if reverse else x, 1)
        found = found.flip(1) if reverse else found
        return found - x if exclusive else found

    x, dy = normal(9, 45), normal(9, 45, seed=1)
    found = ours("cumsum_backward", dy, reverse=reverse, exclusive=exclusive)
    close(found, theirs(forward, (x,), dy), (np.abs(dy).sum(1, keepdims=True),), 45)


def test_rope_backward():
    cos, sin, dy = normal(10, 4), normal(10, 4, seed=1), normal(10, 3, 8, seed=2)

    def forward(x):
        low, high = x.chunk(2, -1)
        c, s = torch.from_numpy(cos)[:, None], torch.from_numpy(sin)[:, None]
        return torch.cat((low * c - high * s, high * c + low * s), -1)

    size = np.abs(dy).sum(2, keepdims=True) * 4
    close(ours("rope_backward", cos, sin, dy), theirs(forward, (dy,), dy), (size,), 2)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 5, 70])
def test_linear_recurrence_backward(steps, reverse):
    a, x = np.tanh(normal(2, steps, 5)), normal(2, steps, 5, seed=1)
    dy = normal(2, steps, 5, seed=2)
    _, function = torch_function("linear_recurrence_backward", {"reverse": reverse})

    def forward(a, x):
        state, found = torch.zeros(2, 5, dtype=torch.float64), [None] * steps
        for t in reversed(range(steps)) if reverse else range(steps):
            found[t] = state = a[:, t] * state + x[:, t]
        return torch.stack(found, 1)

    y = forward(torch.from_numpy(a), torch.from_numpy(x))
    found = ours("linear_recurrence_backward", a, y.numpy(), dy, reverse=reverse)
    sizes = function(*(torch.from_numpy(np.abs(v)) for v in (a, y.numpy(), dy)))
    close(found, theirs(forward, (a, x), dy), [s.numpy() + 1 for s in sizes], 4 * steps)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("function", ["max", "mean"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("padded", [False, True])
def test_pool2d_backward(function, size, stride, padded):
    flags = {"size": size, "stride": stride, "padding": size // 2 if padded else 0}
    torchs = getattr(torch.nn.functional, {"max": "max_pool2d", "mean": "avg_pool2d"}[function])

    def forward(x):
        return torchs(x, *flags.values())

    # Few values, so that windows have several greatest elements, two NaNs and a corner of -inf.
    x = np.random.default_rng(0).integers(-3, 3, (2, 3, 11, 9)).astype("float64")
    if function == "max":
        x[0, 0, 4, 4:6], x[1, 1, :3, :3] = np.nan, -np.inf
    dy = normal(*forward(torch.from_numpy(x)).shape, seed=1)
    found = ours("pool2d_backward", x, dy, function=function, **flags)
    most = np.full(x.shape, np.abs(dy).max() * size**2)
    close(found, theirs(forward, (x,), dy), (most,), size**2)
    if function == "max":
        y, index = torchs(torch.from_numpy(x), *flags.values(), return_indices=True)
        greatest, places = ours("max_pool2d_indices", x, **flags)
        np.testing.assert_array_equal(greatest, y)
        np.testing.assert_array_equal(places, index)
        again = ours("max_pool2d_indices_backward", x, places, dy, **flags)
        np.testing.assert_array_equal(again, found)


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine", ["cpu-x86", "dsa-sim", "nvidia-h200"])
@pytest.mark.parametrize("operator", [n for n in operators.names() if n.endswith("_backward")])
def test_gradients_in_bfloat16(operator, machine):
    case = operators.cases(operator)[0]
    emulate = machine == "nvidia-h200"
    kernel = septran.compile(operator, machine, static=case.static, emulate=emulate)
    sizes = extents(kernel.logic, case.sizes, kernel.logic.flags(case.static))
    kernel.specialise(sizes, {t.name: t.dtype or "bfloat16" for t in kernel.signature.inputs})
    assert kernel.check().right
