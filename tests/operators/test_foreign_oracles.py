"""Operators written from the documentation alone, beside what NumPy says that they compute."""

from __future__ import annotations

import numpy as np
import pytest

from septran.compiler import compile as compile_kernel
from tests.operators.test_foreign import LOGIC, sizes


def group_norm(X, W, bias):
    mean, var = X.mean((2, 3), keepdims=True), X.var((2, 3), keepdims=True)
    return (X - mean) / np.sqrt(var + 1e-5) * W[:, :, None] + bias[:, :, None]


def rope_offset(X, cos, sin, offset):
    first = int(np.ravel(offset)[0])
    rows = slice(first, first + X.shape[0])
    turned = (X[..., 0::2] + 1j * X[..., 1::2]) * (cos[rows] + 1j * sin[rows])[:, None]
    return np.stack([turned.real, turned.imag], -1).reshape(X.shape)


def lookahead_conv(X, F):
    longer = np.pad(X, ((0, 0), (0, F.shape[1] - 1)))
    return np.stack([np.convolve(x, f[::-1], "valid") for x, f in zip(longer, F, strict=True)])


def cache_append(cache, row, length):
    found = cache.copy()
    for b, n in enumerate(length):
        if 0 <= n < cache.shape[1]:
            found[b, n] = row[b]
    return found


def top_p(P):
    places = np.argsort(-P, axis=1, kind="stable")
    values = np.abs(np.take_along_axis(P, places, 1))
    before = np.cumsum(values, axis=1) - values
    left = np.where(before < 0.6 * values.sum(1, keepdims=True), values, 0)
    return left / left.sum(1, keepdims=True), places


def ctc_alpha(alpha, logp, label, skip):
    nowhere = np.full((len(alpha), 2), -1e30)
    earlier = np.hstack([nowhere, alpha])
    two = np.where(skip > 0, earlier[:, :-2], -1e30)
    total = np.logaddexp(np.logaddexp(alpha, earlier[:, 1:-1]), two)
    return total + np.take_along_axis(logp, label, 1)


def equalise(X, bins):
    levels = np.cumsum(np.bincount(X, minlength=bins)) / len(X)
    return levels[X], levels


def alibi_sinks(Q, K, V, slope):
    n, d = Q.shape[1:]
    back = np.arange(n)[:, None] - np.arange(n)
    seen = (back >= 0) & ((back <= 40) | (np.arange(n) < 4))
    scores = Q @ K.swapaxes(1, 2) / np.sqrt(d) - slope[:, None, None] * back
    highest = scores.max(2, keepdims=True, where=seen, initial=-1e30)
    weights = np.where(seen, np.exp(scores - highest), 0)
    return weights @ V / weights.sum(2, keepdims=True)


def summed_area(X):
    return np.add.accumulate(np.add.accumulate(X, 0), 1)


def beam_gather(cache, parent):
    return np.stack([c[p] for c, p in zip(cache, parent, strict=True)])


ORACLES = (
    group_norm, rope_offset, lookahead_conv, cache_append, top_p, ctc_alpha, equalise, alibi_sinks,
    summed_area, beam_gather,
)  # fmt: skip


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_numpy_says_the_same(oracle, number):
    name = oracle.__name__
    kernel = compile_kernel(LOGIC[name], "cpu-x86", shapes=sizes(name)[number])
    arrays = kernel.sample()
    wide = [x.astype(float) if x.dtype == np.float32 else x for x in arrays.values()]
    bins = [sizes(name)[number]["Bins"]] if name == "equalise" else []
    found, wanted = (
        x if isinstance(x, tuple) else (x,)
        for x in (kernel.reference(*arrays.values()), oracle(*wide, *bins))
    )
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert kernel.check(*arrays.values()).right
